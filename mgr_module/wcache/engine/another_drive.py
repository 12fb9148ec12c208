"""Has campaigns measure other drives in the place of those whose OSDs fell ill."""

from __future__ import annotations

import logging
import secrets
from dataclasses import dataclass, field, replace
from typing import Callable, Dict, Iterable, List, Mapping, Set

from ..core.cluster import ClusterState
from ..core.errors import StorageError
from ..core.experiment.campaign import Campaign
from ..core.experiment.observing.machines import machine_of
from ..core.experiment.run import RunMachine
from ..core.experiment.run_state import RunSpec, RunState, RunStatus
from ..core.experiment.slots import Periods
from ..core.experiment.stand_in import stand_in, wants_another
from ..core.fleet.disputes import Key
from ..core.host_report import HostReport
from .storing.archive import Archive
from .storing.store_gate import StoreGate
from .under_way import open_jobs


@dataclass
class StandIns:
    """Guarded by the engine's lock; what it is made of is the executor's."""

    archive: Archive
    gate: StoreGate
    runs: Dict[str, RunMachine]
    campaigns: Callable[[], Dict[str, Campaign]]
    unstored: Set[str]
    note: Callable[[str, str, str], None]
    log: logging.Logger
    _seen: Set[str] = field(default_factory=set)  # runs that ended before, or were seen to

    def load(self) -> None:
        """What ended under the last mgr has had its turn."""
        self._seen = {*self.runs}.difference(open_jobs(self.runs))

    def ended(self) -> List[str]:
        """Runs that have ended since, and whose OSDs may have been ill."""
        over = {*self.runs}.difference(open_jobs(self.runs), self._seen)
        found = [run_id for run_id in self.runs if run_id in over]
        found = [run_id for run_id in found if self.runs[run_id].state.unfit]
        self._seen.update(found)
        return found

    def take(
        self, run_ids: Iterable[str], reports: Iterable[HostReport], cluster: ClusterState,
        not_now: Mapping[Key, str], epoch: str, *, throwaway: bool,
    ) -> None:
        """Add a run for each, where there is another drive of its model that is well.

        `not_now`: by host and cache domain, why nothing is begun there.
        """
        reports = list(reports)
        for run_id in run_ids:
            ill = self.runs[run_id]
            campaign = self.campaigns().get(ill.spec.campaign_id)
            if campaign is None:
                continue
            runs = [
                machine.state for machine in self.runs.values()
                if machine.spec.campaign_id == campaign.campaign_id
            ]
            if not wants_another(ill.state, runs):
                continue
            try:
                spec = stand_in(
                    ill.state, ill.bytes_spent, campaign, runs, reports=reports, cluster=cluster,
                    disputed=not_now, throwaway=throwaway, nonce=secrets.token_hex(8),
                )
            except Exception:
                # whatever it is: the others go on, and what was measured stands
                self.log.exception("no drive is taken for %s", run_id)
                continue
            if spec is None:
                self.note("mgr", run_id, "no other drive of its model is measured in its place")
            else:
                self._add(campaign, spec, epoch)

    def _add(self, campaign: Campaign, spec: RunSpec, epoch: str) -> None:
        campaign_id, run_id = campaign.campaign_id, spec.run_id
        state = RunState(spec, RunStatus.WAITING)
        periods: List[Periods] = [{} for _ in spec.experiments]

        def failed(error: StorageError) -> None:
            self.unstored.discard(campaign_id)
            self.runs.pop(run_id, None)
            self.campaigns()[campaign_id] = campaign
            self.archive.drop_run(run_id)
            self.note("mgr", campaign_id, f"{run_id} is not begun: {error.message}")

        more = replace(campaign, run_ids=(*campaign.run_ids, run_id))
        self.campaigns()[campaign_id] = more
        self.runs[run_id] = machine_of(state, periods, epoch)
        self.unstored.add(campaign_id)
        self.note(
            "mgr", run_id,
            f"takes the place of {spec.instead_of}, whose OSDs are not well",
        )
        self.archive.put_campaign(more, [state], self.gate.expect(
            campaign_id, lambda: self.unstored.discard(campaign_id), failed
        ))
