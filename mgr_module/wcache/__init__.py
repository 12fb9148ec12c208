"""wcache: which write-cache mode suits each OSD, measured. A ceph-mgr module.

`Module` is there only inside a mgr: everything else imports `wcache.core` without Ceph.
"""

try:
    import ceph_module  # noqa: F401
except ImportError:
    pass
else:
    from .module import Module, StandbyModule  # noqa: F401
