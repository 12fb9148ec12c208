"""Whether a drive model may be recommended `write back`: its flushes must reach the medium.

With the cache on, an acknowledged write is kept by the flush alone.  So what was seen of a
drive model's flushes counts over all drives, loads and device classes.
"""

from __future__ import annotations

from typing import Dict, Iterable, Protocol, Sequence, Tuple

from ..host_report import HostReport, PowerCut
from ..model import CacheMode, Finding, FindingCode, LoadPoint, Verdict


class Seen(Protocol):
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


def power_cuts_by_model(
    reports: Iterable[HostReport],
) -> Dict[Tuple[str, bool], Tuple[PowerCut, ...]]:
    """The witnessed power cuts by (drive model, whether simulated)."""
    found: Dict[Tuple[str, bool], Tuple[PowerCut, ...]] = {}
    for report in reports:
        for cut in report.power_cuts:
            key = (str(cut.drive_model), report.simulated)
            found[key] = (*found.get(key, ()), cut)
    return found


def withheld_for(
    verdict: Verdict, seen: Sequence[Seen], power_cuts: Sequence[PowerCut] = ()
) -> str:
    """Why `write back` is not recommended on what was seen of a drive model; '' where it is.

    Whatever load counts, and however rare the other is: a flush that is ignored at one load
    keeps nothing safe at another.
    """
    if verdict is not Verdict.WRITE_BACK or not seen:
        return ""
    lost = [cut for cut in power_cuts if cut.lost]
    if lost:
        return (
            f"{lost[0].drive_id} lost {lost[0].lost} acknowledged writes in a power cut "
            f"({FindingCode.FLUSH_LOST.value}), so write back is not recommended"
        )
    kept = any(
        cut.host_booted and cut.checked and cut.mode is CacheMode.WRITE_BACK for cut in power_cuts
    )
    fast = [one for one in seen if _has(one, FindingCode.FLUSH_TOO_FAST)]
    if fast:
        more = f" (and {len(fast) - 1} more)" if len(fast) > 1 else ""
        return (
            f"{_named(fast[0])} raised {FindingCode.FLUSH_TOO_FAST.value} at "
            f"{fast[0].load_point.value}{more}: the drive may be ignoring flushes, so write back "
            "is not recommended; if you know that it has power-loss protection, say so with `ceph "
            "wcache drive-model trust-plp`"
        )
    if not kept and all(_has(one, FindingCode.FLUSH_NOT_COUNTED) for one in seen):
        return (
            "nothing shows that the drive carries out its flushes: the kernel does not count them "
            "(it does from Linux 5.5 on), and no load was measured in which each sample is one "
            f"commit; measure {LoadPoint.OSD_BENCH_DEPTH1.value} too, or pull a spare drive's "
            "plug under `wcache-probe witness`"
        )
    return ""


def _has(one: Seen, code: FindingCode) -> bool:
    return any(finding.code is code for finding in one.findings)


def _named(one: Seen) -> str:
    return f"{one.hostname} {one.drive_id}"
