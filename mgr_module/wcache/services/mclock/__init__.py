"""The use cases behind `ceph wcache mclock ...`, and what they are worked out from."""
