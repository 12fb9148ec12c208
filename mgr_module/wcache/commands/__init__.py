"""`ceph wcache ...`: the table of commands, with what they show."""
