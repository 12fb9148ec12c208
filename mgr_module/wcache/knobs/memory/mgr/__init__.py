"""What reads OSDs' memory, carries out trials, answers `ceph wcache memory ...`."""
