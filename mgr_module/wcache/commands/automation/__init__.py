"""`ceph wcache auto`, `evidence`, `history`: their rows of the table, and their text."""
