"""What `agent add`, `agent rm` and `try` need of a cluster: keys, who runs it, its traffic."""

from __future__ import annotations

from typing import Dict, Mapping, Optional, Tuple

from wcache.ceph.command import CommandFailed
from wcache.deployment.places import OsdPlace


class FakeKeys:
    """The cluster's keys in memory; `error` is what the mons answer instead."""

    def __init__(self) -> None:
        self.held: Dict[str, Dict[str, str]] = {}
        self.error = ""

    def make(self, entity: str, caps: Mapping[str, str]) -> bool:
        """See that the key is there."""
        if self.error:
            raise CommandFailed(self.error)
        was, self.held[entity] = self.held.get(entity), dict(caps)
        return was != dict(caps)

    def remove(self, entity: str) -> None:
        """Remove a key."""
        if self.error:
            raise CommandFailed(self.error)
        self.held.pop(entity, None)


class FakeSurroundings:
    """`CephSurroundings`: what a test sets.  The mgr runs where no orchestrator is."""

    def __init__(self) -> None:
        self.backend = ""
        self.listed: Optional[Tuple[str, ...]] = None
        self.silent = ""
        self.own_image = ""
        self.own_namespace = ""
        self.told_by_osd: Dict[int, OsdPlace] = {}
        self.takes_arguments = True

    def orchestrator(self) -> str:
        """The backend."""
        return self.backend

    def hosts(self) -> Optional[Tuple[str, ...]]:
        """Its hosts."""
        if self.silent:
            raise CommandFailed(self.silent)
        return self.listed

    def image(self) -> str:
        """The mgr's image."""
        return self.own_image

    def ceph_user_id(self) -> int:
        """The mgr's user."""
        return 167

    def namespace(self) -> str:
        """The mgr's namespace."""
        return self.own_namespace

    def told(self) -> Dict[int, OsdPlace]:
        """What a test lets OSDs tell."""
        return self.told_by_osd

    def containers_take_arguments(self) -> bool:
        """Whether it is a release whose cephadm can."""
        return self.takes_arguments


class FakeTraffic:
    """`CephTraffic`: commits in a second by OSD, and ms of each, as a test sets them."""

    def __init__(self, others: float = 0.0) -> None:
        self.rates: Dict[int, float] = {}
        self.latencies_ms: Dict[int, float] = {}
        self.others = others

    def commits_per_s(self, osd_id: int) -> float:
        """The rate; none where the test says nothing."""
        return self.rates.get(osd_id, self.others)

    def commit_ms(self, osd_id: int) -> Optional[float]:
        """The latency; none where the test says nothing."""
        return self.latencies_ms.get(osd_id)
