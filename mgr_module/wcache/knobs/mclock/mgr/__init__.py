"""What measures mClock's capacities, keeps them, and answers `ceph wcache mclock ...`."""
