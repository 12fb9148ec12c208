"""Another drive of the same model in the place of one whose OSDs were ill, in the same campaign."""

from __future__ import annotations

from dataclasses import replace
from typing import Iterable, List, Mapping, Optional, Sequence, Tuple

from ..cluster import ClusterState
from ..errors import WcacheError
from ..host_report import DriveKind, HostReport
from ..loads import WRITE_BYTES
from ..record import ExperimentSetup, Precondition
from ..scope import parse_scope
from .campaign import (
    Campaign,
    Candidate,
    Selection,
    candidates,
    select,
)
from .forecast import forecast
from .observing_run import benches_capacity
from .run_state import RunSpec, RunState, RunStatus
from .schedule import make_runs

# So many drives are looked at for one whose OSDs are well.
LOOKED_AT = 8


def wants_another(ill: RunState, runs: Sequence[RunState]) -> bool:
    """Whether a campaign of these runs takes another drive for one whose OSDs were ill.

    At most as many drives are taken so as were sampled.  A run that crosses two drives of an OSD
    has none like it, and no capacity is of a drive model.
    """
    taken = [state for state in runs if state.spec.instead_of]
    return (
        ill.status is RunStatus.ABORTED and ill.unfit and 2 * len(taken) < len(runs)
        and not any(state.by_will for state in runs)
        and ill.spec.run_id not in {state.spec.instead_of for state in taken}
        and len(ill.spec.domain_ids) == 1 and not benches_capacity(ill.spec)
    )


def stand_in(
    state: RunState, bytes_spent: int, campaign: Campaign, runs: Sequence[RunState], *,
    reports: Iterable[HostReport], cluster: ClusterState,
    disputed: Mapping[Tuple[str, str], str], throwaway: bool, nonce: str,
) -> Optional[RunSpec]:
    """The run that takes the place of one; None where no other such drive is well.

    It measures the same, and may write what the other one has left of what it might.
    """
    ill, options = state.spec, campaign.options
    touched = {
        (one.spec.hostname, domain_id) for one in runs for domain_id in one.spec.domain_ids
    }
    kind = ill.experiments[0].kind
    found = [
        one for one in candidates(reports, cluster, parse_scope(options.scope))
        if one.key not in touched and _is_of(one, kind, cluster)
    ]
    gentle = Precondition.NO_SLOW_OPS in ill.bears
    try:
        chosen = select(
            found, cluster, replace(options, drives_per_model=LOOKED_AT),
            throwaway=throwaway, disputed=disputed, gentle=gentle,
        ).chosen
    except WcacheError:
        return None
    number = max(int(one.spec.run_id.rpartition(".")[2]) for one in runs) + 1
    for one in chosen:
        made = make_runs(
            campaign.campaign_id, Selection((one,), ()), cluster, options, seed=campaign.seed,
            throwaway=throwaway, nonce=nonce, first=number,
        )
        for spec in made:
            setups = _as_in(ill, spec)
            if setups and setups[0].kind == kind:
                return _within(
                    replace(
                        spec, experiments=setups, seconds_max=ill.seconds_max, trial=ill.trial,
                        observes=ill.observes, consent_turn_on=ill.consent_turn_on,
                        instead_of=ill.run_id,
                    ),
                    ill, bytes_spent, cluster,
                )
    return None


def _is_of(candidate: Candidate, kind: DriveKind, cluster: ClusterState) -> bool:
    classes = {
        cluster.osds[osd_id].device_class for osd_id in candidate.osd_ids if osd_id in cluster.osds
    }
    model = str(candidate.drives[0].drive_model)
    return (model, candidate.simulated) == (kind.drive_model, kind.simulated) and (
        candidate.simulated or kind.device_class in classes
    )


def _as_in(ill: RunSpec, spec: RunSpec) -> Tuple[ExperimentSetup, ...]:
    """The same loads, as long and as often; none where not all of them touch the drive."""
    made = {setup.load_point: setup for setup in spec.experiments}
    found: List[ExperimentSetup] = []
    for old in ill.experiments:
        if old.load_point not in made:
            return ()
        found.append(replace(
            made[old.load_point], pairs_max=old.pairs_max, period_s=old.period_s,
            samples_per_period=old.samples_per_period, settle_s=old.settle_s,
            watch_samples=old.watch_samples, beside=old.beside,
        ))
    return tuple(found)


def _within(
    spec: RunSpec, ill: RunSpec, bytes_spent: int, cluster: ClusterState
) -> Optional[RunSpec]:
    """The run, within what was consented to; None where nothing is left of that."""
    allowed = forecast([ill], cluster, ())
    writing = sum(WRITE_BYTES[setup.load_point] > 0 for setup in spec.experiments)
    if not allowed.bytes_written or not writing:
        return spec
    if cluster.bench_empties_caches:
        return None  # the OSD was not named when that was consented to
    each = (allowed.bytes_written - bytes_spent) // writing
    if spec.observes:  # it has no budget, and writes as much as the other one would have
        return spec if not bytes_spent else None
    return replace(spec, bytes_max=min(ill.bytes_max, each)) if each > 0 else None
