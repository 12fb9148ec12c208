"""What `agent add`, `agent rm` and `try` need of a cluster: keys, who runs it, its traffic."""

from __future__ import annotations

from typing import Dict, Mapping

from wcache.ceph.command import CommandFailed
from wcache.core.deployment.form import HostPlace


class FakeKeys:
    """The `Keys` port in memory; `error` is what the mons answer instead."""

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
    """The `Surroundings` port: what a test sets."""

    def __init__(self, places: Dict[str, HostPlace]) -> None:
        self.places = places
        self.backend = ""
        self.takes_arguments = True

    def orchestrator(self) -> str:
        """The backend."""
        return self.backend

    def osd_hosts(self) -> Dict[str, HostPlace]:
        """The hosts."""
        return self.places

    def containers_take_arguments(self) -> bool:
        """Whether it is a release whose cephadm can."""
        return self.takes_arguments


class FakeTraffic:
    """The `Traffic` port: commits in a second by OSD, as a test sets them."""

    def __init__(self) -> None:
        self.rates: Dict[int, float] = {}

    def commits_per_s(self, osd_id: int) -> float:
        """The rate; none where the test says nothing."""
        return self.rates.get(osd_id, 0.0)
