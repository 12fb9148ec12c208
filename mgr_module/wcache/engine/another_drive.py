"""Has campaigns measure other drives in the place of those whose OSDs fell ill.

Whoever calls this holds the engine's lock.
"""

from __future__ import annotations

import secrets
from dataclasses import replace

from ..core.errors import StorageError
from ..core.experiment.campaign import Campaign
from ..core.experiment.run_state import RunSpec, RunState, RunStatus
from ..core.experiment.stand_in import stand_in, wants_another
from ..core.fleet.claims import believed
from .executor import Executor
from .orders import put_runs
from .under_way import domains_taken, open_jobs, taken


def take_others(executor: Executor) -> None:
    """Add a run for each that has ended since, where another drive of its model is well.

    The cluster must be well otherwise.
    """
    over = {*executor.runs}.difference(open_jobs(executor.runs), executor.had_their_turn)
    ended = [i for i, run in executor.runs.items() if i in over and run.state.unfit]
    executor.had_their_turn.update(ended)
    if not ended or executor.frozen or executor.archive.trouble():
        return
    cluster = executor.view.cluster()
    if cluster.blocking:
        return
    reports = list(believed(executor.hosts.reports.values(), cluster))
    by_others = taken(executor.rollouts, executor.reserved, lambda: cluster)
    not_now = domains_taken(executor.hosts.reports, by_others)
    for item in executor.unrestored.disputes(cluster.fsid):
        not_now[item.key] = item.why
    for run_id in ended:
        ill = executor.runs[run_id]
        campaign = executor.campaigns.get(ill.spec.campaign_id)
        if campaign is None:
            continue
        runs = [
            machine.state for machine in executor.runs.values()
            if machine.spec.campaign_id == campaign.campaign_id
        ]
        if not wants_another(ill.state, runs):
            continue
        try:
            spec = stand_in(
                ill.state, ill.bytes_spent, campaign, runs, reports=reports, cluster=cluster,
                disputed=not_now, throwaway=executor.options().throwaway_cluster,
                nonce=secrets.token_hex(8),
            )
        except Exception:
            # whatever it is: the others go on, and what was measured stands
            executor.log.exception("no drive is taken for %s", run_id)
            continue
        if spec is None:
            said = "no other drive of its model is measured in its place"
            executor.note("mgr", run_id, said)
        else:
            _add(executor, campaign, spec)


def _add(executor: Executor, campaign: Campaign, spec: RunSpec) -> None:
    campaign_id, run_id = campaign.campaign_id, spec.run_id

    def failed(error: StorageError) -> None:
        executor.runs.pop(run_id, None)
        executor.campaigns[campaign_id] = campaign
        executor.archive.drop_run(run_id)
        executor.note("mgr", campaign_id, f"{run_id} is not begun: {error.message}")

    more = replace(campaign, run_ids=(*campaign.run_ids, run_id))
    said = f"takes the place of {spec.instead_of}, whose OSDs are not well"
    executor.note("mgr", run_id, said)
    put_runs(executor, more, [RunState(spec, RunStatus.WAITING)], lambda: None, failed)
