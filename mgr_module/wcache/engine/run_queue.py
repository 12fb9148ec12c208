"""Which waiting runs begin now: one for each host, a few at a time, on OSDs that are well."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import (
    AbstractSet,
    Callable,
    Dict,
    Iterator,
    List,
    Mapping,
    Optional,
    Tuple,
)

from ..core import events
from ..core.change.preconditions import precondition_text
from ..core.cluster import ClusterState
from ..core.experiment.comparing_run import ComparingRun
from ..core.experiment.design import Periods
from ..core.experiment.observing_run import CapacityRun, ObservingRun, benches_capacity
from ..core.experiment.run import ILL_WAIT_S, RunMachine
from ..core.experiment.run_state import RunSpec, RunState, RunStatus
from ..core.record import Precondition
from ..core.text import named
from .gate.looking import Stops
from .under_way import Shared, begun_jobs
from .watchdog import beside

# What a mgr says of the PGs means nothing until the OSDs have reported (mgr_stats_period).
CLUSTER_GRACE_S = 60.0
# How old the word of the mons may be by which a run begins, and how often they are asked for it.
STOPS_EVERY_S = 30.0


def machine_of(state: RunState, periods: List[Periods], epoch: str) -> RunMachine:
    """The machine that carries out a stored run."""
    if benches_capacity(state.spec):
        return CapacityRun(state, periods, epoch)
    return (ObservingRun if state.spec.observes else ComparingRun)(state, periods, epoch)


@dataclass
class _Question:
    """What the mons were asked of a run, and `denied`: what they have said against it last."""

    at_s: float
    denied: str = ""
    answered: bool = False


class RunQueue:
    """Looks over the waiting runs, which wait for the end of an orchestrated upgrade.

    The cluster's word that something does not hold counts from `trusted_from_s` on; until
    then runs wait.  They wait too where it is not healthy, as long as a run that is under way does.
    """

    def __init__(self, shared: Shared, stops: Stops) -> None:
        self._shared = shared
        self._stops = stops
        self._asked: Dict[str, _Question] = {}
        self.trusted_from_s = 0.0
        self._sick_since_s: Optional[float] = None

    def may_not_stop(self, spec: RunSpec, now_s: float) -> Optional[str]:
        """Why the OSDs of a run may not stop at once, "" where they may; None until it is known.

        A drive that hangs stops all of them.  The mons are asked for a word that is not old; of
        one OSD alone nobody is asked: that it is well says as much.
        """
        if not (spec.heeds_cluster and spec.toggles) or len(spec.osd_ids) < 2:
            return ""
        asked = self._asked.get(spec.run_id)
        if asked is None or now_s - asked.at_s >= STOPS_EVERY_S:
            asked = _Question(now_s, asked.denied if asked is not None else "")
            self._asked[spec.run_id] = asked
            self._stops.ask((tuple(sorted(spec.osd_ids)),), partial(self._answer, spec, asked))
        return asked.denied if asked.answered else None

    def _answer(self, spec: RunSpec, asked: _Question, together: int, _: bool) -> None:
        osds = named([f"osd.{osd_id}" for osd_id in sorted(spec.osd_ids)])
        said = f"`ceph osd ok-to-stop` does not allow {osds}, which share a drive"
        asked.denied = "" if together else said
        asked.answered = True
        self._shared.wake()

    def _may_get_well(self, cluster: ClusterState, now_s: float) -> bool:
        """Whether nothing but the cluster's health forbids to begin, and not for long yet."""
        if not cluster.only_sick:
            self._sick_since_s = None
            return False
        if self._sick_since_s is None:
            self._sick_since_s = now_s
        return now_s < self._sick_since_s + ILL_WAIT_S

    def due(
        self, runs: Mapping[str, RunMachine], now_s: float, benched: AbstractSet[str],
        apart: Callable[[], Mapping[str, str]],
    ) -> Iterator[Tuple[str, events.Event]]:
        """(run id, Begin or the Halt that says why not) of each run whose turn has come.

        What it bears and does not hold is said before.
        On hosts that are `benched` a call goes on, though its run may be over.  Runs that are
        kept `apart` wait, for what that says.
        """
        waiting = {i: m for i, m in runs.items() if m.state.status is RunStatus.WAITING}
        self._asked = {
            run_id: asked for run_id, asked in self._asked.items()
            if run_id in waiting or (run_id in runs and runs[run_id].state.ill_since_s)
        }
        if not waiting:
            self._sick_since_s = None
            return
        cluster, kept_apart = self._shared.view.cluster(), apart()
        upgrade = ""
        if Precondition.NO_UPGRADE in cluster.blocking:
            upgrade = f"waiting: {precondition_text([Precondition.NO_UPGRADE])}"
            # OSDs restart in it, and the mgr needs a while to see all PGs clean again
            self.trusted_from_s = now_s + CLUSTER_GRACE_S
        unmet = precondition_text(cluster.blocking, sick=cluster.sick)
        sick = f"waiting: {unmet}" if self._may_get_well(cluster, now_s) else ""
        throwaway = self._shared.options().throwaway_cluster
        busy = {*benched, *(runs[run_id].spec.hostname for run_id in begun_jobs(runs))}
        for run_id, machine in sorted(waiting.items(), key=_run_order):
            spec, hostname = machine.spec, machine.spec.hostname
            free = hostname not in busy and len(busy) < self._shared.options().parallel_hosts_max
            missed = cluster.blocking if spec.heeds_cluster else ()
            held = (upgrade or (sick if free else "")) if spec.heeds_cluster else ""
            asked = self._asked.get(run_id)
            denied = asked.denied if asked is not None else ""
            waits = held or kept_apart.get(run_id, "") or (denied and f"waiting: {denied}")
            if machine.state.reason != waits and (waits or not missed):
                yield run_id, events.Waits(waits)
            if held or run_id in kept_apart or not free:
                continue
            agent = self._shared.hosts.agents.get(hostname)
            if agent is None or agent.silent(now_s):
                yield run_id, events.Halt(f"the probe on {hostname} is not responding")
                continue
            if spec.throwaway and not throwaway:
                yield run_id, events.Halt("throwaway_cluster was set when this was planned")
                continue
            ill = "" if spec.forced else cluster.illness_of(spec, spec.osd_ids, spec.bears)
            if missed or ill:
                if now_s < self.trusted_from_s:
                    continue
                said = f"not measured: {unmet if missed else ill}"
                yield run_id, events.Halt(said, unfit=True)
                continue
            if self.may_not_stop(spec, now_s) != "":
                continue
            busy.add(hostname)
            if spec.has_clients:
                yield run_id, beside(spec, cluster)
            yield run_id, events.Begin()


def _run_order(item: Tuple[str, RunMachine]) -> Tuple[float, str]:
    campaign, _, index = item[0].partition(".")
    number = campaign[1:]
    return (
        float(number if number.isdecimal() else 0) * 1e6 + float(index if index.isdecimal() else 0),
        item[0],
    )
