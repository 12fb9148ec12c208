"""`ceph wcache ...`: the table of commands, what they show, and how it looks."""
