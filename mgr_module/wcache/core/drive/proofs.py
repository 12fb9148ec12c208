"""Whose word counts for hosts that have not seen it themselves.

`wcache-probe prove` and a witnessed power cut show something of a drive model on one host.
Whoever holds that host's key can make it up.  So what would open something on other hosts
counts there when two hosts have shown it, or when an admin accepts the word of one.

A proof opens a toggle.  Where the adapter swallows flushes, a proof that is not true may cost
data: the cache of a drive could be turned on that nothing empties in time.  So a host goes by
its own proof at once, and by that of others as this has it.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass, field
from typing import ClassVar, DefaultDict, Dict, Iterable, List, NamedTuple, Sequence, Tuple, Union

from .. import codec
from ..host_report import EVIDENCE_MAX, DriveKind, HostReport, PowerCut, ToggleProof, lost_words
from ..model import DriveModel, Transport

# What concerns several hosts needs the word of as many.
HOSTS_MIN = 2
ACCEPTED_MAX = 200
REASON_CHARS_MAX = 200
SHOWN_MAX = 128

Evidence = Union[ToggleProof, PowerCut]
Combination = Tuple[str, DriveModel]


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


def proofs_for(
    hostname: str, reports: Iterable[HostReport], accepted: Sequence[AcceptedProof] = ()
) -> Tuple[ToggleProof, ...]:
    """What counts on a host of what others have shown; one for each combination that it has.

    A combination is closed where two hosts have seen it fail, whatever others have seen.  One
    host that saw it fail closes it for itself alone.
    """
    known = [report for report in reports if report.proofs or report.hostname == hostname]
    wanted = {
        (drive.host_driver, drive.drive_model)
        for report in known if report.hostname == hostname
        for drive in report.drives if drive.transport is Transport.SATA_HBA
    }
    held: DefaultDict[Combination, Dict[str, ToggleProof]] = defaultdict(dict)
    failed: DefaultDict[Combination, Dict[str, ToggleProof]] = defaultdict(dict)
    for report in sorted((one for one in known if one.real), key=lambda one: one.hostname):
        if report.hostname == hostname:
            continue
        for proof in report.proofs:
            key = (proof.host_driver, proof.drive_model)
            if key in wanted and _makes_sense(proof):
                # by whose report it came: what it says of its host is that host's word too
                (failed if proof.disagreed else held)[key].setdefault(report.hostname, proof)
    found: List[ToggleProof] = []
    for key in sorted(wanted, key=str):
        if len(failed[key]) >= HOSTS_MIN:
            found.append(next(iter(failed[key].values())))
            continue
        # a host that saw both is no word for it
        sure = {name: one for name, one in held[key].items() if name not in failed[key]}
        word = [one for name, one in sure.items() if is_accepted(accepted, name, one)]
        if word or len(sure) >= HOSTS_MIN:
            found.append([*word, *sure.values()][0])
    return tuple(found)[:EVIDENCE_MAX]


def _makes_sense(proof: ToggleProof) -> bool:
    """Whether a host can have seen it: all it claims to have compared is there."""
    if not proof.host_driver or not proof.drive_model.model:
        return False
    times = (*proof.write_back_us, *proof.write_through_us)
    return bool(proof.disagreed) or (len(times) == 6 and all(us > 0 for us in times))


class ToldCut(NamedTuple):
    """A witnessed power cut, by whose report, and whether an admin accepts it for all hosts."""

    hostname: str
    cut: PowerCut
    accepted: bool = False


def power_cuts_by_model(
    reports: Iterable[HostReport], accepted: Sequence[AcceptedProof] = ()
) -> Dict[DriveKind, Tuple[ToldCut, ...]]:
    """The witnessed power cuts by drive model: `DriveKind.in_any_class`."""
    found: Dict[DriveKind, Tuple[ToldCut, ...]] = {}
    for report in reports:
        for cut in report.power_cuts:
            key = report.kind_of(cut.drive_model)
            told = ToldCut(report.hostname, cut, is_accepted(accepted, report.hostname, cut))
            found[key] = (*found.get(key, ()), told)
    return found


def lost_writes(reports: Iterable[HostReport]) -> Dict[DriveKind, str]:
    """What was lost, in words, by drive model (`DriveKind.in_any_class`), whoever saw it."""
    return {
        kind: lost_words(told.hostname, told.cut)
        for kind, cuts in power_cuts_by_model(reports).items()
        for told in cuts if told.cut.lost
    }
