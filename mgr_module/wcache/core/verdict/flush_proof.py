"""Whether a drive model may be recommended `write back`: its flushes must reach the medium.

With the cache on, an acknowledged write is kept by the flush alone.  So what was seen of a
drive model's flushes counts over all drives, loads and device classes.  A power cut that lost
writes withholds `write back` whoever saw it: that costs a recommendation.  One that lost none
lifts a doubt, and so needs the word of two hosts, or an admin's (`accepted_proofs`).
"""

from __future__ import annotations

from typing import AbstractSet, Dict, Iterable, NamedTuple, Protocol, Sequence, Tuple

from ..drive.proofs import HOSTS_MIN, AcceptedProof, is_accepted
from ..drive_kind import DriveKind
from ..host_report import HostReport, PowerCut, lost_words
from ..model import CacheMode, Finding, FindingCode, LoadPoint, Verdict


class FlushEvidence(Protocol):
    """What an experiment has seen of a drive's flushes."""

    @property
    def hostname(self) -> str:
        """The host of the drive."""

    @property
    def drive_id(self) -> str:
        """The drive."""

    @property
    def load_point(self) -> LoadPoint:
        """The load under which its flushes were seen."""

    @property
    def findings(self) -> Tuple[Finding, ...]:
        """What was wrong with them."""


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


def withheld_for(
    verdict: Verdict, seen: Sequence[FlushEvidence], power_cuts: Sequence[ToldCut] = (),
    homes: AbstractSet[str] = frozenset(),
) -> str:
    """Why `write back` is not recommended on what was seen of a drive model; '' where it is.

    `homes` are the hosts that have it beside those in `seen`.

    Whatever load counts, and however rare the other is: a flush that is ignored at one load
    keeps nothing safe at another.
    """
    if verdict is not Verdict.WRITE_BACK or not seen:
        return ""
    lost = [told for told in power_cuts if told.cut.lost]
    if lost:
        return f"{lost_words(*lost[0][:2])}, so write back is not recommended"
    unsent = [one for one in seen if has_finding(one, FindingCode.FLUSH_MISSING)]
    if unsent:
        return (
            f"no flush reached {_named(unsent[0])} ({FindingCode.FLUSH_MISSING.value}), so write "
            "back is not recommended"
        )
    kept = [
        told for told in power_cuts
        if told.cut.host_booted and told.cut.checked and told.cut.mode is CacheMode.WRITE_BACK
    ]
    fast = [one for one in seen if has_finding(one, FindingCode.FLUSH_TOO_FAST)]
    if fast:
        more = f" (and {len(fast) - 1} more)" if len(fast) > 1 else ""
        return (
            f"{_named(fast[0])} raised {FindingCode.FLUSH_TOO_FAST.value} at "
            f"{fast[0].load_point.short}{more}: the drive may be ignoring flushes, so write back "
            "is not recommended; if you know that it has power-loss protection, say so with `ceph "
            "wcache drive-model trust-plp`"
        )
    if all(has_finding(one, FindingCode.FLUSH_NOT_COUNTED) for one in seen):
        kept_by = {told.hostname for told in kept}
        concerned = homes | {one.hostname for one in seen}
        if any(told.accepted for told in kept) or len(kept_by) >= HOSTS_MIN:
            return ""
        if kept and concerned <= kept_by:
            return ""  # whoever has that host's key harms that host alone
        if kept:
            return (
                f"only {kept[0].hostname} says that a power cut lost nothing, and the kernel "
                "counted no flushes: witness one on a second host, or accept that proof with `ceph "
                "wcache drive-model accept-proof`"
            )
        return (
            "nothing shows that the drive carries out its flushes: the kernel counted none (from "
            "Linux 5.5 on it does), and no load was measured in which each sample is one "
            f"commit; measure {LoadPoint.OSD_BENCH_DEPTH1.value} too, or pull a spare drive's "
            "plug under `wcache-probe witness`"
        )
    return ""


def has_finding(one: FlushEvidence, code: FindingCode) -> bool:
    """Whether an experiment raised a finding."""
    return any(finding.code is code for finding in one.findings)


def _named(one: FlushEvidence) -> str:
    return f"{one.hostname} {one.drive_id}"
