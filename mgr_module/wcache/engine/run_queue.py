"""Which waiting runs begin now: one for each host, a few at a time, on a cluster that is well."""

from __future__ import annotations

from typing import Callable, Collection, Iterator, Mapping, Tuple

from ..core import events
from ..core.agents import Agents
from ..core.cluster import ClusterView
from ..core.experiment.run import RunMachine
from ..core.experiment.run_state import RunStatus
from ..core.precondition_text import precondition_text
from ..core.record import Precondition
from ..core.simulation import has_clients, illness
from ..options import Options
from .under_way import begun_runs
from .watchdog import beside

# What a mgr says of the PGs means nothing until the OSDs have reported (mgr_stats_period).
CLUSTER_GRACE_S = 60.0


class RunQueue:
    """Looks over the waiting runs, which wait for the end of an orchestrated upgrade.

    The cluster's word that something does not hold counts from `trusted_from_s` on; until
    then runs wait.
    """

    def __init__(
        self, *, agents: Agents, view: ClusterView, options: Callable[[], Options]
    ) -> None:
        self._agents = agents
        self._view = view
        self._options = options
        self.trusted_from_s = 0.0

    def due(
        self, runs: Mapping[str, RunMachine], now_s: float, going_on: Collection[str] = ()
    ) -> Iterator[Tuple[str, events.Event]]:
        """(run id, Begin or the Halt that says why not) of each run whose turn has come.

        What it bears and does not hold is said before.
        Of runs in `going_on` a bench call goes on, though they may be over.
        """
        if all(m.state.status is not RunStatus.WAITING for m in runs.values()):
            return
        cluster = self._view.cluster()
        upgrade = ""
        if Precondition.NO_UPGRADE in cluster.blocking:
            upgrade = f"waiting: {precondition_text([Precondition.NO_UPGRADE])}"
            # OSDs restart in it, and the mgr needs a while to see all PGs clean again
            self.trusted_from_s = now_s + CLUSTER_GRACE_S
        throwaway = self._options().throwaway_cluster
        busy = {
            runs[run_id].spec.hostname for run_id in (*begun_runs(runs), *going_on)
            if run_id in runs
        }
        for run_id, machine in sorted(runs.items(), key=_run_order):
            if machine.state.status is not RunStatus.WAITING:
                continue
            waits = upgrade if has_clients(machine.spec) and not machine.spec.forced else ""
            if machine.state.reason != waits:
                yield run_id, events.Waits(waits)
            if waits:
                continue
            hostname = machine.spec.hostname
            if hostname in busy or len(busy) >= self._options().parallel_hosts_max:
                continue
            agent = self._agents.get(hostname)
            if agent is None or agent.silent(now_s):
                yield run_id, events.Halt(f"the probe on {hostname} is not responding")
                continue
            if machine.spec.throwaway and not throwaway:
                yield run_id, events.Halt("throwaway_cluster was set when this was planned")
                continue
            spec = machine.spec
            missed = cluster.blocking if has_clients(spec) and not spec.forced else ()
            ill = "" if spec.forced else illness(spec, spec.osd_ids, cluster, spec.bears)
            if missed or ill:
                if now_s < self.trusted_from_s:
                    continue
                said = f"not measured: {precondition_text(missed) if missed else ill}"
                yield run_id, events.Halt(said, unfit=True)
                continue
            busy.add(hostname)
            if has_clients(spec):
                yield run_id, beside(spec, cluster)
            yield run_id, events.Begin()


def _run_order(item: Tuple[str, RunMachine]) -> Tuple[float, str]:
    campaign, _, index = item[0].partition(".")
    number = campaign[1:]
    return (
        float(number if number.isdecimal() else 0) * 1e6 + float(index if index.isdecimal() else 0),
        item[0],
    )
