"""What reads OSDs' memory, carries out trials, and answers `ceph wcache memory ...`."""
