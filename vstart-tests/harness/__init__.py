"""Real Ceph clusters for tests: see doc/testing.md."""

from .access import ClusterAccess, Result
from .cluster import Cluster
from .errors import CommandError, HarnessError, NotPossible
from .existing import ExistingCluster
from .osds import OsdLayout, add_osd
from .start import ClusterPlan, start_cluster

__all__ = [
    "Cluster",
    "ClusterAccess",
    "ClusterPlan",
    "CommandError",
    "ExistingCluster",
    "HarnessError",
    "NotPossible",
    "OsdLayout",
    "Result",
    "add_osd",
    "start_cluster",
]
