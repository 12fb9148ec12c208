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
from .orders import Orders
from .under_way import domains_taken, open_jobs, taken


def take_others(engine: Orders) -> None:
    """Add a run for each that has ended since, where another drive of its model is well.

    The cluster must be well otherwise.
    """
    over = {*engine.runs}.difference(open_jobs(engine.runs), engine.had_their_turn)
    ended = [i for i, run in engine.runs.items() if i in over and run.state.unfit]
    engine.had_their_turn.update(ended)
    if not ended or engine.frozen or engine.archive.trouble():
        return
    cluster = engine.view.cluster()
    if cluster.blocking:
        return
    reports = list(believed(engine.hosts.reports.values(), cluster))
    by_others = taken(engine.rollouts, engine.reserved, lambda: cluster)
    not_now = domains_taken(engine.hosts.reports, by_others)
    for item in engine.unrestored.disputes(cluster.fsid):
        not_now[item.key] = item.why
    for run_id in ended:
        ill = engine.runs[run_id]
        campaign = engine.campaigns.get(ill.spec.campaign_id)
        if campaign is None:
            continue
        runs = [
            machine.state for machine in engine.runs.values()
            if machine.spec.campaign_id == campaign.campaign_id
        ]
        if not wants_another(ill.state, runs):
            continue
        try:
            spec = stand_in(
                ill.state, ill.bytes_spent, campaign, runs, reports=reports, cluster=cluster,
                disputed=not_now, throwaway=engine.options().throwaway_cluster,
                nonce=secrets.token_hex(8),
            )
        except Exception:
            # whatever it is: the others go on, and what was measured stands
            engine.log.exception("no drive is taken for %s", run_id)
            continue
        if spec is None:
            said = "no other drive of its model is measured in its place"
            engine.note("mgr", run_id, said)
        else:
            _add(engine, campaign, spec)


def _add(engine: Orders, campaign: Campaign, spec: RunSpec) -> None:
    campaign_id, run_id = campaign.campaign_id, spec.run_id

    def failed(error: StorageError) -> None:
        engine.runs.pop(run_id, None)
        engine.campaigns[campaign_id] = campaign
        engine.archive.drop_run(run_id)
        engine.note("mgr", campaign_id, f"{run_id} is not begun: {error.message}")

    more = replace(campaign, run_ids=(*campaign.run_ids, run_id))
    said = f"takes the place of {spec.instead_of}, whose OSDs are not well"
    engine.note("mgr", run_id, said)
    engine.put_runs(more, [RunState(spec, RunStatus.WAITING)], failed)
