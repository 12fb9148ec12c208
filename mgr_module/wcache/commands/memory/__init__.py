"""`ceph wcache memory ...`: its rows of the table, and its text."""
