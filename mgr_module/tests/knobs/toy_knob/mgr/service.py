"""What the toy reads of OSDs and keeps, and what is behind `ceph wcache toy show`."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from typing import ClassVar, Tuple

from wcache.ceph.command import CommandFailed, Osds
from wcache.engine.storing.archive import StoredKind

from ..knob import DEPTH

EVERY_S = 120.0


@dataclass(frozen=True)
class Reading:
    """The depth that an OSD has said it goes by."""

    osd_id: int
    depth: float


@dataclass(frozen=True)
class Readings:
    """The last one of each OSD, as they are stored."""

    VERSION: ClassVar[int] = 1
    items: Tuple[Reading, ...] = field(default=(), metadata={"max_items": 10_000})


READINGS = StoredKind("toy/readings", Readings)


class ToyService:
    """Reads in a thread of its own, and answers from what was read last."""

    def __init__(self, parts):
        self._parts = parts
        self._stop = threading.Event()
        self.readings = Readings()

    def load(self):
        """Take up what was stored."""
        self.readings = self._parts.archive.get(READINGS) or Readings()

    def start(self):
        """Read again and again."""
        threading.Thread(target=self._work, daemon=True, name="wcache-toy").start()

    def close(self):
        """Stop."""
        self._stop.set()

    def _work(self):
        while not self._stop.wait(EVERY_S):
            self.read()

    def read(self):
        """Read each OSD once, and store what they said."""
        cluster = self._parts.view.cluster()
        found = [self._read(osd_id) for osd_id in sorted(cluster.osds)]
        self.readings = Readings(tuple(item for item in found if item is not None))
        self._parts.archive.put_later(READINGS, self.readings)

    def _read(self, osd_id):
        command = {"prefix": "config get", "var": DEPTH}
        try:
            said = Osds(self._parts.ceph, self._parts.is_up).ask(osd_id, command)
            return Reading(osd_id, float(json.loads(said)[DEPTH]))
        except (CommandFailed, ValueError, KeyError, TypeError):
            return None  # it gave no answer, or one that nobody understands

    def show(self):
        """`toy show`: the depth of each OSD."""
        return {"osds": [
            {"osd_id": item.osd_id, "depth": item.depth} for item in self.readings.items
        ]}
