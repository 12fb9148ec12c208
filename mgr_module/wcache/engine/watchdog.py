"""Stops machines that wait for what will not come, or measure what must not be measured now."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Dict, Iterator, List, Mapping, Optional, Tuple

from ..core import events
from ..core.change.preconditions import no_longer_met
from ..core.cluster import ClusterState
from ..core.drive.proofs import lost_writes
from ..core.drive.safety import writeback_refusal
from ..core.experiment.run import RunMachine
from ..core.experiment.run_state import RunSpec, RunStatus
from ..core.fleet.agents import RESTORE_GRACE_S
from ..core.hardware import WRITTEN_FOR
from ..core.host_report import lost_models
from ..core.jobs import Job, Trial
from ..core.record import Precondition
from .hosts import key_of
from .under_way import Shared

# A machine that has heard nothing at all for this long is stopped.  Longer than the longest
# measurement: 32 benches of 30 s each (`ceph/command.py`, COMMAND_TIMEOUT_S).
STALL_S = 1200.0
# How often the cluster is looked at while something is measured.
CLUSTER_EVERY_S = 5.0


@dataclass
class Watchdog:
    """Says what a machine must be told, from the time alone; guarded by the engine's lock."""

    _shared: Shared
    _may_not_stop: Callable[[RunSpec, float], Optional[str]]
    _heard_at_s: Dict[str, float] = field(default_factory=dict, init=False)
    cluster_at_s: float = 0.0  # when the cluster is looked at next
    trusted_from_s: float = 0.0  # until then only an upgrade counts, which needs no OSD's word

    def heard(self, owner: str, now_s: float) -> None:
        """Something has happened to a machine."""
        self._heard_at_s[owner] = now_s

    def forget(self, owner: str) -> None:
        """A machine is over."""
        self._heard_at_s.pop(owner, None)

    def due(self, owner: str, machine: Job, now_s: float) -> Iterator[events.Event]:
        """What a job must be told now, one after the other.

        Each follows from what the machine has made of the one before.
        """
        if not machine.over:
            yield from self._lost_writes(machine)
        if machine.under_way:
            # no probe has a part in a change of the config database
            hostname = machine.waited_for
            silent = self._silent(hostname, now_s) if hostname else None
            if silent is not None:
                self._shared.hosts.tasks.pop(hostname, None)
                yield silent
            # for what waits for an answer that will not come: no lease may be held for ever
            heard_at_s = self._heard_at_s.setdefault(owner, now_s)
            if not machine.waits_long and now_s - heard_at_s > STALL_S:
                self._heard_at_s[owner] = now_s
                yield machine.stalled(f"nothing has happened for {STALL_S:.0f} s")
        if machine.wake_at_s is not None and machine.wake_at_s <= now_s:
            yield events.Tick()

    def _lost_writes(self, machine: Job) -> Iterator[events.Halt]:
        """A drive model that was shown to lose writes is not turned on: stopped, and goes back."""
        lost = lost_writes(self._shared.hosts.reports.values())
        if not lost:
            return
        for kind in machine.may_turn_on & set(lost):
            yield events.Halt(f"{lost[kind]}: its cache is not turned on")
            return

    def _unsafe(self, spec: RunSpec) -> str:
        """Why a run must not have more of what is acknowledged on a cache device alone."""
        reports = self._shared.hosts.reports
        report = reports.get(spec.hostname)
        if report is None:
            return ""
        drives = [drive for drive in report.drives if drive.domain_id == spec.domain_id]
        lost = lost_models(reports.values())[spec.simulated]
        return writeback_refusal(report, drives, lost)

    def _silent(self, hostname: str, now_s: float) -> Optional[events.AgentSilent]:
        """A machine that waits for a probe does not wait for ever.

        One of another protocol restores, and does nothing else.
        """
        other = self._shared.hosts.agents.other(hostname, now_s)
        limit_s = self._shared.options().lease_ttl_s + RESTORE_GRACE_S
        if other is not None:
            pending = self._shared.hosts.tasks.get(hostname)
            goes_back = pending is not None and key_of(pending.task.request) is not None
            if goes_back and (other.speaks or now_s - other.since_s <= limit_s):
                return None
            return events.AgentSilent(other.words)
        agent = self._shared.hosts.agents.get(hostname)
        if agent is not None and now_s - agent.seen_at_s <= limit_s:
            return None
        if self._shared.hosts.is_removed(hostname):
            return events.AgentSilent(f"host {hostname} was removed", removed=True)
        blocked = self._shared.hosts.agents.blocked(now_s).get(hostname)
        waits = f", and waits: {blocked.what}" if blocked is not None else ""
        return events.AgentSilent(
            f"the probe on {hostname} has not responded for {limit_s:.0f} s{waits}"
        )

    def unfit(
        self, runs: Mapping[str, RunMachine], trials: Mapping[str, Trial], now_s: float
    ) -> List[Tuple[str, events.Event]]:
        """What runs and trials hear of the cluster: to stop, as a precondition broke; who is ill.

        Benches would make it worse.  A cluster that is not healthy is waited for as an OSD is that
        is ill: one that goes down shows in all of it.  What is borne is told too, for the records.
        """
        running = [item for item in runs.items() if item[1].state.status is RunStatus.RUNNING]
        measuring = [item for item in running if item[1].spec.heeds_cluster]
        dirtying = [(i, m.spec) for i, m in running if m.spec.dirty in WRITTEN_FOR]
        held = ((job_id, trial.holds) for job_id, trial in trials.items())
        trying = {job_id: holding.touched.osds for job_id, holding in held if holding is not None}
        if not (measuring or dirtying or trying) or now_s < self.cluster_at_s:
            return []
        self.cluster_at_s = now_s + CLUSTER_EVERY_S
        told = ((run_id, self._unsafe(spec)) for run_id, spec in dirtying)
        found: List[Tuple[str, events.Event]] = [
            (run_id, events.Halt(f"stopped: {why}", unfit=True)) for run_id, why in told if why
        ]
        if not (measuring or trying):
            return found
        cluster = self._shared.view.cluster()
        broken, trusted = cluster.blocking, now_s >= self.trusted_from_s
        if not trusted:
            broken = tuple(item for item in broken if item is Precondition.NO_UPGRADE)
        if broken:
            why = no_longer_met(broken, cluster.sick)
            for owner in (*dict(measuring), *trying):
                halt = events.Halt(why if owner in trying else f"stopped: {why}", unfit=True)
                found.append((owner, events.Ill(why) if cluster.only_sick else halt))
            return found
        for run_id, machine in measuring:
            if trusted:
                found += ((run_id, ill) for ill in self._health(machine, cluster, now_s))
            found.append((run_id, beside(machine.spec, cluster)))
        for job_id, osd_ids in trying.items() if trusted else ():
            ill = cluster.illness(osd_ids)
            why = "; ".join(f"osd.{osd_id} {said}" for osd_id, said in ill.items())
            found.append((job_id, events.Ill(why)))
        return found

    def _health(
        self, machine: RunMachine, cluster: ClusterState, now_s: float
    ) -> Iterator[events.Ill]:
        """Whether its OSDs are well; where they are so again, whether they may stop at once.

        Nothing is said until the mons have answered that.
        """
        spec = machine.spec
        why: Optional[str] = cluster.illness_of(spec, spec.osd_ids, spec.bears)
        if not why and machine.state.ill_since_s:
            why = self._may_not_stop(spec, now_s)
        if why is not None:
            yield events.Ill(why)


def beside(spec: RunSpec, cluster: ClusterState) -> events.Unmet:
    """What goes on elsewhere while a run measures, and on its own OSDs."""
    return events.Unmet(cluster.beside(spec.osd_ids), cluster.checks)
