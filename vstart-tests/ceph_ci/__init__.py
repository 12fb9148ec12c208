"""Runs the files meant for Ceph's own CI against a cluster of this harness.

`tasks/` and `teuthology/` here stand in for what those files import from Ceph's `qa` folder
and from teuthology; only what they use is there.  This shows that the tests pass on a real
cluster.  It does not show that teuthology would schedule them.
"""
