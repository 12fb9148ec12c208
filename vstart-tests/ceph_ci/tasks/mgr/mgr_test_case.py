"""`MgrTestCase` on a cluster of this harness, with the calls that our tests make.

The runner sets `mgr_cluster` before the tests are run (`ceph_ci.runner`).
"""

import time
import unittest


class MgrTestCase(unittest.TestCase):
    """As in Ceph's qa/tasks/mgr/mgr_test_case.py, for what is used here."""

    MGRS_REQUIRED = 1
    mgr_cluster = None

    @classmethod
    def setUpClass(cls):
        if len(cls.mgr_cluster.mgr_ids) < cls.MGRS_REQUIRED:
            raise unittest.SkipTest(f"{cls.MGRS_REQUIRED} mgrs are needed")

    @classmethod
    def setup_mgrs(cls):
        """All mgrs up, no module enabled but those that are always on."""
        for module in cls.mgr_cluster.enabled_modules():
            cls.mgr_cluster.disable_module(module)
        cls.mgr_cluster.wait_all_mgrs()

    @classmethod
    def _load_module(cls, name):
        if name not in cls.mgr_cluster.enabled_modules():
            cls.mgr_cluster.enable_module(name)

    @classmethod
    def wait_until_true(cls, condition, timeout, period=5):
        """As Ceph's: RuntimeError where it does not become true."""
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline:
                raise RuntimeError(f"Timed out after {timeout}s")
            time.sleep(min(period, 0.5))
