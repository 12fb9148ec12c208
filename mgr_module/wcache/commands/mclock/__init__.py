"""`ceph wcache mclock ...`: its rows of the table, and its text."""
