"""What measures mClock's capacities, keeps them, answers `ceph wcache mclock ...`."""
