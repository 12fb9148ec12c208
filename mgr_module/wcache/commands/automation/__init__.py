"""`ceph wcache auto`, `evidence`, `history`: their text."""
