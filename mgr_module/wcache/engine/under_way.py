"""What is under way (runs, plans, trials), as the parts of the engine share it.

A bench call that goes on after its run is one of them (`Shared.reserved`).
"""

from __future__ import annotations

import logging
import queue
from typing import Callable, Dict, FrozenSet, Iterable, List, Mapping, Set, Tuple

from ..core import events
from ..core.change.change import ChangeStatus
from ..core.change.preconditions import waited_s
from ..core.change.rollout import RolloutMachine
from ..core.change.rollout_state import Rollout
from ..core.cluster import ClusterState, ClusterView
from ..core.experiment.campaign import Campaign
from ..core.experiment.run import RunMachine
from ..core.experiment.run_state import RunSpec
from ..core.fleet.disputes import Key
from ..core.host_report import HostReport
from ..core.jobs import Holding, Job, Touched, Trial
from ..core.model import LoadPoint
from ..core.text import command, named
from ..options import Options
from .hosts import Hosts
from .measuring import LoadRunner, Measuring
from .storing.archive import Archive

Runs = Mapping[str, RunMachine]
Rollouts = Mapping[str, RolloutMachine]
SHOW = command("ceph wcache mclock show")

# Plans that were begun and are not over: each looks at the others, and stores a step's blocks.
OPEN_PLANS_MAX = 4
# A plan that has been held for so long waits, as a paused one does: `auto` begins others beside it.
WAITS_AFTER_S = 600.0


class Shared:
    """What the parts of the engine share; guarded by its lock, but for `post_event` and `wake`."""

    def __init__(
        self, archive: Archive, view: ClusterView, options: Callable[[], Options],
        loads: LoadRunner, log: logging.Logger, clock: Callable[[], float],
        wake: Callable[[], None],
    ) -> None:
        self.archive = archive
        self.view = view
        self.options = options
        self.log = log
        self.clock = clock
        self.wake = wake
        self._events: queue.Queue[Tuple[str, events.Event]] = queue.Queue()
        self.runs: Dict[str, RunMachine] = {}
        self.rollouts: Dict[str, RolloutMachine] = {}
        self.trials: Dict[str, Trial] = {}  # the last one of each knob that has its own
        self.campaigns: Dict[str, Campaign] = {}
        self.frozen = False
        self.hosts = Hosts()
        self.measuring = Measuring(loads, self.post_event)

    def post_event(self, owner: str, event: events.Event) -> None:
        """Queue an event from another thread; the next tick feeds it."""
        self._events.put((owner, event))
        self.wake()

    @property
    def reserved(self) -> Tuple[Holding, ...]:
        """What has OSDs for itself beside runs and plans."""
        return (
            *(trial.holds for trial in self.trials.values() if trial.holds is not None),
            *(
                Holding("the last bench call of an mclock measurement", call.touched, SHOW)
                for call in self.measuring.going_on()
                if call.load_point is LoadPoint.OSD_BENCH_CAPACITY
            ),
        )


def open_jobs(jobs: Mapping[str, Job]) -> List[str]:
    """Jobs that are not over: those that wait for their turn, an admin or an OSD too."""
    return [job_id for job_id, machine in jobs.items() if not machine.over]


def begun_jobs(jobs: Mapping[str, Job]) -> List[str]:
    """Jobs of which something is under way."""
    return [job_id for job_id, machine in jobs.items() if machine.under_way]


def leased(runs: Runs) -> FrozenSet[Key]:
    """The cache domains that experiments hold."""
    return frozenset(
        (machine.spec.hostname, domain_id) for machine in runs.values()
        if machine.holds_lease for domain_id in machine.spec.domain_ids
    )


def busy(hostname: str, runs: Runs, rollouts: Rollouts) -> bool:
    """Whether one of them has something to do with a host now."""
    now = (rollouts[plan_id].current for plan_id in begun_jobs(rollouts))
    return any(runs[run_id].spec.hostname == hostname for run_id in begun_jobs(runs)) or any(
        change is not None and change.hostname == hostname for change in now
    )


# ---- what two of them have in common


def touched_by(rollout: Rollout, cluster: ClusterState) -> Touched:
    """What a plan touches, or may yet take back."""
    osds: Set[int] = set()
    for change in rollout.changes:
        one_by_one = all(edit.who.startswith("osd.") for edit in change.edits)
        osds.update(change.treated if one_by_one else change.setting.concerned_osds(cluster))
    # a step of which nothing is made is begun anew after it was held, with other controls
    compares = not rollout.missed or bool(rollout.all_in(ChangeStatus.MADE))
    return Touched(
        frozenset(change.hostname for change in rollout.drive_changes), frozenset(osds),
        frozenset(change.setting.knob for change in rollout.config_changes),
        frozenset(rollout.step.controls if compares else ()),
    )


def touched_by_run(spec: RunSpec) -> Touched:
    """What a run measures on."""
    return Touched(frozenset((spec.hostname,)), spec.osd_ids)


def in_common(one: Touched, other: Touched) -> str:
    """Say what two have in common, so that they do not go on at the same time; "" for nothing."""
    compared = (one.controls & other.osds) | (other.controls & one.osds)
    return words_of(Touched(
        one.hosts & other.hosts, one.osds & other.osds, one.knobs & other.knobs, compared
    ))


def words_of(touched: Touched) -> str:
    """All of it by name, or the first few."""
    return named([
        *(f"host {name}" for name in sorted(touched.hosts)),
        *(f"osd.{osd_id}" for osd_id in sorted(touched.osds)),
        *(f"values of {name}" for name in sorted(touched.knobs)),
        *(f"osd.{osd_id} as a control" for osd_id in sorted(touched.controls)),
    ], 3)


def at_once(runs: Runs, rollouts: Rollouts, but: str = "") -> FrozenSet[int]:
    """OSDs that may wait for drives now, as these are changed or taken back, or a run toggles.

    `but`: leave a plan out.
    """
    found: Set[int] = set()
    for run_id in begun_jobs(runs):
        spec = runs[run_id].spec
        found.update(spec.osd_ids if spec.toggles and spec.has_clients else ())
    for plan_id in begun_jobs(rollouts):
        if plan_id == but:
            continue
        machine, rollout = rollouts[plan_id], rollouts[plan_id].rollout
        indices = {
            *rollout.all_in(ChangeStatus.APPLYING), *rollout.all_in(ChangeStatus.ROLLING_BACK),
        }
        if machine.mid_change:
            now = rollout.current_index
            indices.update((*rollout.step.indices, *(() if now is None else (now,))))
        for change in (rollout.changes[index] for index in indices):
            found.update(change.treated if change.domain_id and change.has_clients else ())
    return frozenset(found)


def taken(
    rollouts: Rollouts, reserved: Iterable[Holding], cluster: Callable[[], ClusterState]
) -> List[Tuple[str, Touched]]:
    """What plans and trials that are not over have for themselves, each with its words."""
    return [
        *(
            (f"plan {plan_id} is not over", touched_by(rollouts[plan_id].rollout, cluster()))
            for plan_id in open_jobs(rollouts)
        ),
        *((f"{each.words} is under way", each.touched) for each in reserved),
    ]


def domains_taken(
    reports: Mapping[str, HostReport], by_others: Iterable[Tuple[str, Touched]]
) -> Dict[Key, str]:
    """By host and cache domain: who has it for itself."""
    found: Dict[Key, str] = {}
    for words, touched in by_others:
        why = f"{words}, and has this host or OSD for itself"
        for report in reports.values():
            all_of_it = report.hostname in touched.hosts
            # of drives the OSDs are on its hosts
            for drive in report.drives if all_of_it or touched.knobs else ():
                if all_of_it or any(use.osd_id in touched.osds for use in drive.uses):
                    found[report.hostname, drive.domain_id] = why
    return found


def waits(machine: RolloutMachine, now_s: float) -> bool:
    """Whether a plan is paused, or has been held for long: `auto` goes on beside it."""
    held_s = waited_s(machine.rollout, now_s)
    return machine.paused or (not machine.mid_change and held_s >= WAITS_AFTER_S)
