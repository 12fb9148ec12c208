"""Real cephadm clusters of several hosts on this machine: see README.md here."""

from .cluster import CephadmCluster, CephadmPlan, start_cephadm

__all__ = ["CephadmCluster", "CephadmPlan", "start_cephadm"]
