"""Whose word counts for hosts that have not seen it themselves.

`wcache-probe prove` and a witnessed power cut show something of a drive model on one host.
Whoever holds that host's key can make it up.  So what would open something on other hosts
counts there when two hosts have shown it, or when an admin accepts the word of one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import ClassVar, Dict, Iterable, List, Sequence, Tuple, Union

from .. import codec
from ..host_report import HostReport, PowerCut, ToggleProof

# What concerns several hosts needs the word of as many.
HOSTS_MIN = 2
ACCEPTED_MAX = 200
REASON_CHARS_MAX = 200
SHOWN_MAX = 128

Evidence = Union[ToggleProof, PowerCut]


@dataclass(frozen=True)
class AcceptedProof:
    """An admin's word for what one host had shown of a drive model by then.

    `shown` are digests of that evidence: what the host says later is not accepted by it.
    """

    hostname: str
    drive_model: str  # as `str(DriveModel)` has it
    reason: str = field(metadata={"max_chars": REASON_CHARS_MAX})
    shown: Tuple[str, ...] = field(metadata={"max_items": SHOWN_MAX})
    since_s: float = 0.0  # wall clock


@dataclass(frozen=True)
class AcceptedProofs:
    """All of them, as they are stored."""

    VERSION: ClassVar[int] = 1
    items: Tuple[AcceptedProof, ...] = field(default=(), metadata={"max_items": ACCEPTED_MAX})


def digest(evidence: Evidence) -> str:
    """What stands for one piece of evidence."""
    return hashlib.sha256(codec.dumps(evidence).encode()).hexdigest()


def shown_of(report: HostReport, drive_model: str) -> Tuple[Evidence, ...]:
    """What a host has shown of a drive model; of all of them with ""."""
    everything: List[Evidence] = [*report.proofs, *report.power_cuts]
    return tuple(one for one in everything if drive_model in ("", str(one.drive_model)))


def is_accepted(accepted: Iterable[AcceptedProof], hostname: str, evidence: Evidence) -> bool:
    """Whether an admin accepts this piece of a host's evidence."""
    return any(
        one.hostname == hostname and one.drive_model == str(evidence.drive_model)
        and digest(evidence) in one.shown
        for one in accepted
    )


def counts_elsewhere(
    said_by: Dict[str, Evidence], accepted: Sequence[AcceptedProof] = ()
) -> bool:
    """Whether what hosts have shown counts on other hosts; one piece of evidence of each."""
    return len(said_by) >= HOSTS_MIN or any(
        is_accepted(accepted, hostname, one) for hostname, one in said_by.items()
    )
