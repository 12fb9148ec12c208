"""A toy knob: the depth of a queue that exists in tests only (doc/add-a-setting.md)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import ClassVar, Tuple

from wcache.ceph.command import CommandFailed, Osds
from wcache.core.automation.deciding import Wish
from wcache.core.change.change import Change
from wcache.core.cluster import failure_domains
from wcache.core.config_database import ConfigEdit, same
from wcache.core.model import LoadPoint
from wcache.core.setting.config_setting import ConfigSetting
from wcache.engine.config_watch import Repeating
from wcache.engine.storing.archive import StoredKind
from wcache.knobs.knob import Knob, Wanted
from wcache.services.plans.planners import Planner

DEPTH = "osd_toy_depth"
TOY = Knob("toy", (DEPTH,), together=False)
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


def make_changes(asked, wanted_depth, config, cluster):
    """Each host that has another depth gets the one that is wanted; canary first."""
    changes, left = [], []
    first_osds = {osd.hostname: osd for _, osd in sorted(cluster.osds.items(), reverse=True)}
    for hostname, osd in sorted(first_osds.items()):
        if not asked.wants(hostname, osd.device_class):
            continue
        who = f"osd/host:{hostname}"
        entry = config.at(who, DEPTH)
        prior = entry.value if entry is not None else None
        if same(prior, str(wanted_depth)):
            left.append(f"host {hostname}: its depth is {wanted_depth} already")
            continue
        edit = ConfigEdit(who, DEPTH, str(wanted_depth), prior)
        changes.append(Change(
            asked.action_id(len(changes)), ConfigSetting(TOY.name, (edit,)),
            osd.device_class, "toys are faster so", ", ".join(failure_domains(osd, cluster)),
            osd.osd_id, LoadPoint.OSD_BENCH_DEPTH1,
        ))
    return Wanted(tuple(changes), tuple(left))


class ToyPlanner(Planner):
    """From what the config database says, and what OSDs say, which it reads in a thread."""

    def __init__(self, parts, wanted_depth):
        self._parts = parts
        self._wanted_depth = wanted_depth
        self._unlike = ()
        self.readings = Readings()
        repeating = Repeating("wcache-toy", self.read, parts.log.warning, lambda: EVERY_S)
        self.start, self.close = repeating.start, repeating.close

    def load(self):
        self.readings = self._parts.archive.get(READINGS) or Readings()

    def plan(self, asked, world):
        return make_changes(asked, self._wanted_depth(world), world.config, world.cluster)

    def tick(self, world):
        wanted = self._wanted_depth(world)
        ids = {item.osd_id for item in self.readings.items if item.depth < wanted}
        osds = [osd for osd_id, osd in world.cluster.osds.items() if osd_id in ids]
        self._unlike = tuple(sorted({(osd.hostname, osd.device_class) for osd in osds}))

    def wishes(self):
        return [
            Wish.of_host(
                TOY.name, host, (device_class,), f"give host {host} a deeper toy queue",
                f"an OSD of host {host} goes by a shallow queue",
            )
            for host, device_class in self._unlike
        ]

    def read(self):
        """Read each OSD once, and store what they said."""
        found = [self._read(osd_id) for osd_id in sorted(self._parts.view.cluster().osds)]
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
