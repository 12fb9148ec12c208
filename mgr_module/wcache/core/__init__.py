"""The pure part: standard library only, no I/O, no clock, no Ceph."""
