"""A toy knob: the depth of a queue that exists in tests only (doc/add-a-setting.md)."""

from __future__ import annotations

from wcache.core.change.change import Change
from wcache.core.cluster import failure_domains
from wcache.core.config_database import ConfigEdit, same
from wcache.core.model import LoadPoint
from wcache.core.setting.config_setting import ConfigSetting
from wcache.knobs.knob import Knob, Wanted
from wcache.services.plans.planners import Planner

DEPTH = "osd_toy_depth"
TOY = Knob("toy", (DEPTH,), together=False)


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
    """From what the config database says."""

    def __init__(self, wanted_depth):
        self._wanted_depth = wanted_depth

    def plan(self, asked, world):
        return make_changes(asked, self._wanted_depth, world.config, world.cluster)
