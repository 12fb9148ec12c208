"""The knob `options` in a mgr, beside its commands."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Dict, Iterator, Sequence, Set, Tuple

from ....ceph.command import value_text
from ....commands.views import Command
from ....core.automation.deciding import Wish
from ....core.change.change import ChangeStatus
from ....core.change.rollout_state import Rollout
from ....core.errors import NotReadyError
from ....core.model import Finding
from ....engine.world import World
from ....services.guards import disputed_domains, require_config, unseen
from ....services.plans.planners import Parts, Planner
from ...knob import Asked, Wanted
from .. import osds, plan
from ..osds import OPTIONS_KNOB, STRAYED, Refusals, blocks_now, drifted, strayed

# What `auto` may change is worked out as often: it goes through all drives.
WISHES_EVERY_S = 60.0

ROWS: Tuple[Command, ...] = ()


class OptionsPlanner(Planner):
    """From verdicts of `ab`, or as an admin says."""

    def __init__(self, parts: Parts) -> None:
        # the compiled default of an option
        self._default_of = lambda name: value_text(parts.ceph.get_ceph_option(name)) or ""
        self._read_soon = parts.engine.config.read_soon
        self._wishes: Tuple[Wish, ...] = ()
        self._due_s = 0.0
        parts.engine.objections[OPTIONS_KNOB.name] = self.objection

    def plan(self, asked: Asked, world: World) -> Wanted:
        of_drives = replace(asked, without={**disputed_domains(world), **asked.without})
        if asked.option:
            named = plan.by_admin(of_drives, world.believed_reports, world.cluster)
            left = (*named.left_alone, *unseen(world, asked.scope))
            return replace(named, left_alone=left)
        refusals = Refusals(asked.by_itself, world.plans)
        require_config(world)
        verdicts = world.option_verdicts
        if not verdicts:
            raise NotReadyError(
                "no option was compared yet, so there is nothing to plan by",
                "compare two values with `ceph wcache ab OPTION=A,B`",
            )
        if not asked.by_itself:
            self._read_soon()  # what the next plan says is of now
        reports = world.believed_reports
        wanted = plan.by_verdicts(of_drives, verdicts, reports, world.cluster, refusals)
        of_osds = osds.make_changes(
            replace(asked, first=asked.first + len(wanted.changes)), verdicts, reports,
            world.cluster, world.config, self._default_of, refusals,
        )
        return Wanted(
            (*wanted.changes, *of_osds.changes),
            (*wanted.left_alone, *of_osds.left_alone, *unseen(world, asked.scope)),
            drives_in_place=wanted.drives_in_place,
        )

    def objection(self, rollout: Rollout, back: bool, world: World) -> str:
        """Name an OSD that was planned for another drive model than it is on."""
        left = [
            (change, edit) for change in rollout.changes if change.grounds and not back
            and change.status is ChangeStatus.PLANNED for edit in change.edits
        ]
        blocks = blocks_now(world.believed_reports, world.cluster) if left else {}
        return next((f"{one[1].who} {STRAYED}" for one in left if strayed(*one, blocks)), "")

    def tick(self, world: World) -> None:
        """Look now and then which hosts have values that `auto` would change."""
        if world.now_s < self._due_s:
            return
        self._due_s = world.now_s + WISHES_EVERY_S
        self._wishes = ()
        with suppress(NotReadyError):
            self._wishes = tuple(_by_host(self.plan(Asked(by_itself=True), world), world))

    def wishes(self) -> Sequence[Wish]:
        return self._wishes

    def findings(self, world: World) -> Sequence[Finding]:
        """Find what a plan gave and what is not there any more."""
        plans = [plan for plan in world.plans if plan.plan_id not in world.open_plans]
        if not plans:
            return ()
        fresh = {
            report.hostname: report for report in world.believed_reports
            if report.hostname in world.reported_at_s
        }
        return drifted(
            plans, fresh,
            world.config if world.config_read_at_s is not None else None,
            world.leased | world.changing, world.cluster,
        )


make = OptionsPlanner


def _by_host(wanted: Wanted, world: World) -> Iterator[Wish]:
    classes: Dict[str, Set[str]] = {}
    for change in wanted.changes:
        osds, mine = change.treated, {change.device_class}
        mine |= world.cluster.classes_of(change, osds)
        for host in {change.hostname or world.cluster.osds[osd_id].hostname for osd_id in osds}:
            classes.setdefault(host, set()).update(mine)
    for host, found in sorted(classes.items()):
        yield Wish.of_host(
            OPTIONS_KNOB.name, host, tuple(sorted(found)), f"set options of host {host}",
            f"drives or OSDs of host {host} do not have the values that were found to be better",
        )
