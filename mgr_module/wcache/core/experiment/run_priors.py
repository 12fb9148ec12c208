"""The prior states of a run's cache domains: stored before a domain is touched, held to at the end.

They are part of what is stored of a run.  A domain without one has never been touched.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Mapping, Optional, Sequence, Tuple

from ..codec import one_line
from ..drive.journal import PriorDrive
from ..drive.prior import (
    UNKNOWN,
    Prior,
    entry_differs,
    not_back,
    prior_from,
    states_by_id,
    told_prior,
)
from ..model import DriveReport, DriveState
from ..options.entries import leased_names
from ..protocol import FailureOutcome, ReleaseRequest, StateOutcome
from .run_state import RunSpec, RunState


def prior_of(state: RunState, domain_id: str) -> Prior:
    """What is known of a domain before the run; UNKNOWN where nothing is."""
    for prior in state.priors:
        if prior.domain_id == domain_id:
            return prior
    return UNKNOWN


def next_unknown(state: RunState) -> Optional[str]:
    """The first domain that has to be looked at before it may be touched."""
    for domain_id in state.spec.domain_ids:
        if not prior_of(state, domain_id).known:
            return domain_id
    return None


def with_look(state: RunState, domain_id: str, drives: Sequence[DriveReport]) -> RunState:
    """The state with what was just read as the prior; raises StorageError for unknown modes."""
    trial = state.spec.option
    names = () if trial is None else leased_names(trial.name)
    return _with(state, prior_from(_fsid(state.spec), domain_id, drives, names))


def with_told(state: RunState, domain_id: str, drives: Tuple[PriorDrive, ...]) -> RunState:
    """The state with what a journal entry said, where the mgr itself kept nothing."""
    if prior_of(state, domain_id).known or not drives:
        return state
    told = told_prior(_fsid(state.spec), domain_id, drives)
    return _with(state, told) if told.known else state


def without(state: RunState, domain_id: str) -> RunState:
    """The state without the prior of a domain that was found to be in another one."""
    return replace(state, priors=tuple(p for p in state.priors if p.domain_id != domain_id))


def given_back(state: RunState, domain_id: str) -> RunState:
    """The state of a run whose domain was read to be back: it is looked at before it is touched."""
    told_back = tuple(name for name in state.told_back if name != domain_id)
    return replace(without(state, domain_id), told_back=told_back)


def touched(state: RunState, domain_id: str) -> bool:
    """Whether the run may have touched a domain: what was there is stored before it does."""
    return prior_of(state, domain_id).known


def release_request(state: RunState, domain_id: str) -> ReleaseRequest:
    """What ends the run's lease on a domain."""
    spec = state.spec
    return ReleaseRequest(
        domain_id, spec.lease_id, spec.throwaway, prior_of(state, domain_id)
    )


def words_of_release(state: RunState, domain_id: str, outcome: StateOutcome) -> str:
    """Why a domain is not known to be as it was, by what was read of it; empty where it is."""
    return differs_from_prior(
        prior_of(state, domain_id), states_by_id(outcome.drive_ids, outcome.after)
    )


def words_of_failure(state: RunState, domain_id: str, outcome: FailureOutcome) -> str:
    """The same of a release that failed."""
    read = states_by_id(outcome.drive_ids, outcome.after)
    if outcome.restored and not differs_from_prior(prior_of(state, domain_id), read):
        return ""
    return outcome.message + (f": {outcome.advice}" if outcome.advice else "")


def differs_from_prior(prior: Prior, read: Mapping[str, DriveState]) -> str:
    """How a reading differs from a prior state; an unknown one is never equal to anything."""
    if not prior.known:
        return "the prior state is not known"
    return not_back(prior.drives, read)


def with_dispute(
    state: RunState, domain_id: str, told: Tuple[PriorDrive, ...]
) -> RunState:
    """The state with a dispute where a journal entry said something else than the mgr knows."""
    prior = prior_of(state, domain_id)
    wrong = entry_differs(told, prior) if told and prior.known else ""
    if not wrong:
        return state
    return replace(state, dispute=one_line(f"the journal has another prior state: {wrong}"))


def with_told_back(state: RunState, domain_id: str) -> RunState:
    """The state of a run whose probe said that a domain is back."""
    if domain_id in state.told_back:
        return state
    return replace(state, told_back=(*state.told_back, domain_id))


def with_changed_since(state: RunState, domain_id: str, how: str) -> RunState:
    """The state with a dispute: no journal entry is left, and a domain is not as it was."""
    return replace(state, dispute=one_line(
        f"the probe's journal has no entry of {state.spec.run_id} for {domain_id} any more, but "
        f"{domain_id} is not in its prior state: {how}"
    ))


def _with(state: RunState, prior: Prior) -> RunState:
    return replace(without(state, prior.domain_id), priors=(
        *without(state, prior.domain_id).priors, prior,
    ))


def _fsid(spec: RunSpec) -> str:
    return spec.experiments[0].fsid if spec.experiments else ""
