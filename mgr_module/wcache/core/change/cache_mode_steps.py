"""A change of a cache mode, step by step: what the probe is asked, and what its answers mean."""

from __future__ import annotations

from dataclasses import replace
from typing import Tuple, Union

from .. import codec
from ..drive.prior import UNKNOWN, Prior, PriorDoubt, prior_from, states_by_id, told_prior
from ..errors import StorageError
from ..events import LoadRequest
from ..experiment.period import all_in
from ..experiment.run_priors import differs_from_prior
from ..model import Role
from ..protocol import (
    ApplyRequest,
    DrivesOutcome,
    FailureOutcome,
    LookRequest,
    MeasureRequest,
    RollbackRequest,
    StateOutcome,
)
from ..simulation import measured_by_probe
from .cache_mode_change import CacheModeChange, DriveWear
from .change_status import Made
from .rollout_state import Rollout

# Less than the archive takes (RECORD_BYTES_MAX): details of failures come on top.
ROLLOUT_BYTES_MAX = 6_000_000


def measure(rollout: Rollout, change: CacheModeChange) -> Union[MeasureRequest, LoadRequest]:
    """What measures the OSD before and after the change."""
    if measured_by_probe(change):
        return MeasureRequest(change.domain_id, change.osd_id, change.load_point, rollout.count)
    return LoadRequest(
        change.osd_id, change.load_point, Role.BLOCK, rollout.count, rollout.period_s,
        rollout.latency_limit_ms,
    )


def look(change: CacheModeChange) -> LookRequest:
    """What reads the drives before the change."""
    return LookRequest(change.domain_id)


def looked(
    rollout: Rollout, change: CacheModeChange, outcome: object
) -> Tuple[CacheModeChange, str]:
    """The change with what is there before it, or why that is not known."""
    prior, why = _seen(rollout, change, outcome)
    if why or change.prior.known:
        # a request went out with it: what is there now may be ours
        return change, why
    drives = outcome.drives if isinstance(outcome, DrivesOutcome) else ()
    wear = tuple(DriveWear(one.drive_id, one.wear) for one in drives if one.wear is not None)
    return replace(change, prior=prior, wear=wear), ""


def _seen(rollout: Rollout, change: CacheModeChange, outcome: object) -> Tuple[Prior, str]:
    if isinstance(outcome, DrivesOutcome):
        try:
            prior = prior_from(rollout.cluster_fsid, change.domain_id, outcome.drives)
            require_room(rollout, prior)
            return prior, ""
        except StorageError as error:
            return UNKNOWN, error.message
    if isinstance(outcome, FailureOutcome):
        return UNKNOWN, outcome.message
    return UNKNOWN, "the probe gave an unexpected answer"


def is_still(change: CacheModeChange, outcome: object) -> str:
    """Why a change that was judged is not there any more, by a look at its drives; "" where it is.

    A host that was reset brings a drive back as its firmware has it, and nobody is told.
    """
    if isinstance(outcome, FailureOutcome):
        return f"could not be read after it was judged: {outcome.message}"
    drives = outcome.drives if isinstance(outcome, DrivesOutcome) else ()
    mine = tuple(drive.state for drive in drives if drive.domain_id == change.domain_id)
    if all_in(change.mode.value, mine, change.transport):
        return ""
    return (
        f"is no longer in {change.mode.value}, the mode that was judged: a reset of the host or "
        "another program has changed it"
    )


def apply(rollout: Rollout, change: CacheModeChange) -> ApplyRequest:
    """What makes a change, with what was there before it."""
    return ApplyRequest(
        change.domain_id, change.action_id, change.expected, change.mode,
        rollout.consent_turn_on, lasts(rollout, change), rollout.throwaway, change.prior,
    )


def lasts(rollout: Rollout, change: CacheModeChange) -> bool:
    """Whether what is made now is made to last: under a gate, not before it is judged.

    There is nothing to judge where a drive is in its mode and is only to keep it.
    """
    judged = rollout.gate is None or rollout.step.last or change.expected is change.mode
    return rollout.consent_persist and judged


def made(
    rollout: Rollout, change: CacheModeChange, outcome: object, again: bool
) -> Tuple[CacheModeChange, Made, str]:
    """The change with what was read of it, what the answer to `apply` means, and why.

    `again`: it may have been asked for before.
    """
    verdict, why = _made(rollout, change, outcome, again)
    kept = lasts(rollout, change) and verdict in (Made.YES, Made.ALREADY)
    return replace(change, kept=change.mode) if kept else change, verdict, why


def _made(
    rollout: Rollout, change: CacheModeChange, outcome: object, again: bool
) -> Tuple[Made, str]:
    if isinstance(outcome, FailureOutcome):
        said = outcome.message + (f": {outcome.advice}" if outcome.advice else "")
        if outcome.doubt is PriorDoubt.OTHER_STATE:
            # somebody else's change, or ours and the journal is lost
            return Made.OTHERS, said
        return (Made.UNSURE if again or not as_it_was(change, outcome) else Made.NOT), said
    if not isinstance(outcome, StateOutcome):
        return Made.WRONG, "the probe gave an unexpected answer to a change"
    if not all_in(change.mode.value, outcome.after, change.transport):
        return Made.WRONG, f"the drive did not read back as {change.mode.value}"
    kept = [state.page.saved for state in outcome.after]
    if lasts(rollout, change) and any(mode is not change.mode for mode in kept):
        return Made.WRONG, (
            f"{change.mode.value} did not read back as what the drive keeps over a power cycle"
        )
    return (Made.YES if outcome.changed else Made.ALREADY), ""


def back(rollout: Rollout, change: CacheModeChange) -> RollbackRequest:
    """What takes a change back; a plan of an older version knows no more than `expected`."""
    return RollbackRequest(
        change.domain_id, change.action_id, rollout.throwaway, change.prior,
        None if change.prior.known else change.expected,
    )


def require_room(rollout: Rollout, prior: Prior = UNKNOWN) -> None:
    """Raise StorageError where a plan would become too large to be stored with `prior`."""
    if len(codec.dumps(rollout)) + len(codec.dumps(prior)) > ROLLOUT_BYTES_MAX:
        raise StorageError(
            f"plan {rollout.plan_id} would have more than {ROLLOUT_BYTES_MAX} bytes",
            "see which host reports many drives or long names in `ceph wcache drive ls`",
        )


def as_it_was(change: CacheModeChange, outcome: FailureOutcome) -> bool:
    """Whether a change that failed has left the drive as it was, by what was read of it."""
    read = states_by_id(outcome.drive_ids, outcome.after)
    equal = not outcome.after or not differs_from_prior(change.prior, read)
    return outcome.restored and equal


def went_back(
    rollout: Rollout, change: CacheModeChange, outcome: object
) -> Tuple[CacheModeChange, str]:
    """The change with what its way back has told, and why the drive is not back.

    Back is what was read and equals the prior state; the second value is empty then.
    """
    prior = change.prior
    if isinstance(outcome, FailureOutcome):
        return replace(change, doubt=outcome.doubt), outcome.message
    if not isinstance(outcome, StateOutcome):
        return replace(change, doubt=PriorDoubt.NONE), "an unexpected answer"
    told = outcome.prior and all(item.mode is change.expected for item in outcome.prior)
    if not prior.known and told:
        # an older version kept no more than `expected`; the journal agrees with that
        prior = told_prior(rollout.cluster_fsid, change.domain_id, outcome.prior)
    differs = differs_from_prior(prior, states_by_id(outcome.drive_ids, outcome.after))
    if differs:
        lost = PriorDoubt.NONE if prior.known else PriorDoubt.LOST
        return replace(change, doubt=lost), differs
    return replace(change, prior=prior, doubt=PriorDoubt.NONE, kept=None), ""
