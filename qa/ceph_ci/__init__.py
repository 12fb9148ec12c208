"""What Ceph's CI does with this module, done by Ceph's own programs: see `vstart_cluster.py`."""
