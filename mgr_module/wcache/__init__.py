"""wcache: which write-cache mode suits each OSD, measured. A ceph-mgr module."""
