"""What a rollout knows of the drives before its changes, and what it concludes from readings."""

from __future__ import annotations

from typing import Tuple

from .. import codec
from ..drive.prior import UNKNOWN, Prior, PriorDoubt, prior_from, states_by_id, told_prior
from ..errors import StorageError
from ..experiment.run_priors import differs_from_prior
from ..protocol import ApplyRequest, DrivesOutcome, FailureOutcome, RollbackRequest, StateOutcome
from .rollout_state import Change, Rollout

# Less than the archive takes (RECORD_BYTES_MAX): details of failures come on top.
ROLLOUT_BYTES_MAX = 6_000_000


def apply_request(rollout: Rollout, change: Change) -> ApplyRequest:
    """What makes a change, with what was there before it."""
    return ApplyRequest(
        change.domain_id, change.action_id, change.expected, change.mode,
        rollout.consent_turn_on, rollout.consent_persist, rollout.throwaway, change.prior,
    )


def rollback_request(rollout: Rollout, change: Change) -> RollbackRequest:
    """What takes a change back; a plan of an older version knows no more than `expected`."""
    return RollbackRequest(
        change.domain_id, change.action_id, rollout.throwaway, change.prior,
        None if change.prior.known else change.expected,
    )


def seen(rollout: Rollout, change: Change, outcome: object) -> Tuple[Prior, str]:
    """What is there before a change by the answer to a look, or why that is not known."""
    if isinstance(outcome, DrivesOutcome):
        try:
            prior = prior_from(rollout.cluster_fsid, change.domain_id, outcome.drives)
            require_room(rollout, prior)
            return prior, ""
        except StorageError as error:
            return UNKNOWN, error.message
    if isinstance(outcome, FailureOutcome):
        return UNKNOWN, outcome.message
    return UNKNOWN, "the probe gave an odd answer"


def require_room(rollout: Rollout, prior: Prior = UNKNOWN) -> None:
    """Raise StorageError where a plan would become too large to be stored with `prior`."""
    if len(codec.dumps(rollout)) + len(codec.dumps(prior)) > ROLLOUT_BYTES_MAX:
        raise StorageError(
            f"plan {rollout.plan_id} would have more than {ROLLOUT_BYTES_MAX} bytes",
            "see which host reports many drives or long names in `ceph wcache drive ls`",
        )


def as_it_was(change: Change, outcome: FailureOutcome) -> bool:
    """Whether a change that failed has left the drive as it was, by what was read of it."""
    read = states_by_id(outcome.drive_ids, outcome.after)
    equal = not outcome.after or not differs_from_prior(change.prior, read)
    return outcome.restored and equal


def judged_back(
    rollout: Rollout, change: Change, outcome: object
) -> Tuple[str, PriorDoubt, Prior]:
    """(why the drive is not back, the doubt, the prior state), by the answer to a rollback.

    Back is what was read and equals the prior state; the first value is empty then.
    """
    prior = change.prior
    if isinstance(outcome, FailureOutcome):
        return outcome.message, outcome.doubt, prior
    if not isinstance(outcome, StateOutcome):
        return "an odd answer", PriorDoubt.NONE, prior
    told = outcome.prior and all(item.mode is change.expected for item in outcome.prior)
    if not prior.known and told:
        # an older version kept no more than `expected`; the journal agrees with that
        prior = told_prior(rollout.cluster_fsid, change.domain_id, outcome.prior)
    differs = differs_from_prior(prior, states_by_id(outcome.drive_ids, outcome.after))
    lost = differs and not prior.known
    return differs, PriorDoubt.LOST if lost else PriorDoubt.NONE, prior
