"""What only looks at campaigns: `campaign ls`, `campaign show` and `campaign record`."""

from __future__ import annotations

from typing import Any, Dict, List

from ..core import codec
from ..core.errors import NotFoundError
from ..core.experiment.run import RunMachine
from ..core.experiment.run_state import RunStatus
from ..core.output_format import FORMAT_VERSION
from ..engine.engine import Engine
from ..services.campaigns import periods_of
from .compared_campaigns import compared


class CampaignViews:
    """Campaigns with their runs and results, over the engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def ls(self) -> Dict[str, Any]:
        """`campaign ls`: all campaigns, newest last."""
        with self._engine.lock:
            ids = sorted(self._engine.campaigns, key=lambda c: (len(c), c))
            return {
                "format_version": FORMAT_VERSION,
                "campaigns": [self.head(campaign_id) for campaign_id in ids],
            }

    def head(self, campaign_id: str) -> Dict[str, Any]:
        """A campaign in one row; call it under the engine's lock."""
        engine = self._engine
        campaign = engine.campaigns[campaign_id]
        machines = [engine.runs[run_id] for run_id in campaign.run_ids if run_id in engine.runs]
        open_runs = [m for m in machines if not m.over]
        aborted = [m for m in machines if m.state.status is RunStatus.ABORTED]
        progress = [periods_of(engine, machine) for machine in machines]
        # the end of the last run is not the end: its record is stored first, then analysed; what
        # was aborted does not wait for mons that do not answer
        unsaved = not aborted and any(
            r.campaign_id == campaign_id for r in engine.persistence.records.unsaved
        )
        going_on = open_runs or unsaved or engine.analyses.awaited(campaign_id)
        status = "running" if going_on else "aborted" if aborted else "done"
        results = [
            r for r in engine.analyses.results.values() if r.campaign_id == campaign_id
        ]
        observed = [one for m in machines for one in m.state.observed]
        return {
            "campaign_id": campaign_id, "status": status, "scope": campaign.options.scope,
            "observes": campaign.options.observe,
            "created_at_s": campaign.created_at_s, "seed": campaign.seed,
            "runs": len(machines), "runs_over": len(machines) - len(open_runs),
            "runs_aborted": len(aborted),
            "periods_done": sum(done for done, _ in progress),
            "periods_max": sum(most for _, most in progress),
            # a factorial is told of twice, and was measured once
            "seconds": round(
                sum(r.seconds for r in results if not r.measured_in)
                + sum(one.seconds for one in observed), 3,
            ),
            "bytes_written": sum(r.bytes_written for r in results if not r.measured_in)
            + sum(m.bytes_spent for m in machines if m.spec.observes),
        }

    def show(self, campaign_id: str) -> Dict[str, Any]:
        """`campaign show`: runs, results and what was left out."""
        engine = self._engine
        with engine.lock:
            if campaign_id not in engine.campaigns:
                raise NotFoundError(
                    f"there is no campaign {campaign_id[:40]!r}", "see `ceph wcache campaign ls`"
                )
            campaign = engine.campaigns[campaign_id]
            runs: List[Dict[str, Any]] = []
            observed: List[Dict[str, Any]] = []
            for run_id in campaign.run_ids:
                machine = engine.runs.get(run_id)
                if machine is not None:
                    done, most = periods_of(self._engine, machine)
                    observed += self._observed(machine)
                    runs.append({
                        "run_id": run_id, "hostname": machine.spec.hostname,
                        "domain_id": machine.spec.domain_id,
                        "domain_ids": list(machine.spec.domain_ids),
                        "dev_names": [
                            name for domain_id in machine.spec.domain_ids
                            for name in self._dev_names(machine.spec.hostname, domain_id)
                        ],
                        "status": machine.state.status.value, "reason": machine.state.reason,
                        "restored": machine.state.restored or not machine.over,
                        "periods_done": done, "periods_max": most,
                        "interrupted_periods": sum(w.periods for w in machine.state.waste),
                    })
            results = []
            for _, result in sorted(engine.analyses.results.items()):
                if result.campaign_id == campaign_id:
                    plain = codec.to_plain(result)
                    plain["dev_names"] = self._dev_names(result.hostname, result.domain_id)
                    results.append(plain)
            return {
                "format_version": FORMAT_VERSION, **self.head(campaign_id),
                "options": codec.to_plain(campaign.options), "skipped": list(campaign.skipped),
                "run_list": runs, "results": results, "observed": observed,
            }

    def _observed(self, machine: RunMachine) -> List[Dict[str, Any]]:
        """What a run that toggles nothing has seen, load by load."""
        spec = machine.spec
        about = {
            "run_id": spec.run_id, "hostname": spec.hostname, "domain_id": spec.domain_id,
            "dev_names": self._dev_names(spec.hostname, spec.domain_id),
        }
        models = {setup.osd_id: str(setup.drive_model) for setup in spec.experiments}
        return [
            {**codec.to_plain(one), **about, "drive_model": models.get(one.osd_id, "")}
            for one in machine.state.observed
        ]

    def _dev_names(self, hostname: str, domain_id: str) -> List[str]:
        """What the host calls the drives of a cache domain now; empty where it is gone."""
        report = self._engine.hosts.reports.get(hostname)
        drives = report.drives if report else ()
        return [drive.dev_name for drive in drives if drive.domain_id == domain_id]

    def compare(self, before: str, after: str) -> Dict[str, Any]:
        """`campaign compare`: two campaigns that toggled nothing."""
        return compared(self._engine, self.show, before, after)

    def record(self, record_id: str) -> Dict[str, Any]:
        """`campaign record`: one record with its raw samples, as `wcache analyze` takes it."""
        record = self._engine.archive.record(record_id)
        if record is None:
            raise NotFoundError(
                f"there is no record {record_id[:60]!r}", "see `ceph wcache campaign show`"
            )
        plain: Dict[str, Any] = codec.to_plain(record)
        return plain
