"""What an experiment came to, given what is known of its drive model's flushes.

A drive with power-loss protection may answer a flush at once and keep its promise, so a flush
that looks too fast is no doubt about a drive model that is trusted.  Nothing that a drive says of
itself proves the protection: only an admin's word, with a reason, lifts the doubt.

With the cache on, an acknowledged write is kept by the flush alone.  So what was seen of a
drive model's flushes counts over all drives, loads and device classes.  A power cut that lost
writes withholds `write back` whoever saw it: that costs a recommendation.  One that lost none
lifts a doubt, and so needs the word of two hosts, or an admin's (`AcceptedProofs`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import (
    AbstractSet,
    Any,
    ClassVar,
    Mapping,
    Optional,
    Sequence,
    Tuple,
)

from ..codec import one_line
from ..drive.proofs import HOSTS_MIN, ToldCut
from ..experiment.factorial import measured_in
from ..host_report import OfDriveKind, lost_words
from ..loads import MATERIAL_RATIO
from ..model import (
    CacheMode,
    DriveModel,
    Finding,
    FindingCode,
    LoadPoint,
    PlpHint,
    Role,
    Transport,
    Verdict,
)
from ..options.entries import CACHE_MODES, OptionTrial
from ..record import Record
from ..text import gained, latency, relative, typed

DOUBTS = (FindingCode.FLUSH_MISSING, FindingCode.FLUSH_TOO_FAST, FindingCode.CARRYOVER)


@dataclass(frozen=True)
class Estimate:
    """What was measured at one load point; the ratio is arm A over arm B.

    Where there is no interval both of its ends are open: 0 and infinite.
    `finding`: a transient or a flush too fast was found: what was measured was no cache mode.
    """

    verdict: Verdict
    ratio_low: float = 0.0
    ratio_high: float = math.inf
    finding: bool = False
    ratio: Optional[float] = None

    @property
    def bounded(self) -> bool:
        """Whether there is an interval."""
        return self.ratio_low > 0.0 and self.ratio_high < math.inf

    def flagged(self, material: float = MATERIAL_RATIO) -> bool:
        """Whether its interval proves nothing.

        Also where no finding says why: what lies beyond the margin and is undecided all the
        same waits for something, such as a check for transients.
        """
        beyond = self.ratio_low > material or self.ratio_high < 1 / material
        return self.finding or (self.verdict is Verdict.INSUFFICIENT and beyond)

    @property
    def span(self) -> str:
        """The interval in words."""
        if not self.bounded:
            return "no interval yet"
        return f"{gained(self.ratio_high)} to {gained(self.ratio_low)}"

    def overlaps(self, other: Estimate) -> bool:
        """Whether both may be of one ratio; what has no interval may be of any."""
        return self.ratio_low <= other.ratio_high and other.ratio_low <= self.ratio_high

    def allows(self, mode: Verdict) -> bool:
        """Whether the interval leaves room for a material gain in `mode`."""
        if mode is Verdict.B:
            return self.ratio_high > MATERIAL_RATIO
        return self.ratio_low < 1 / MATERIAL_RATIO

    def loss(self, mode: Verdict) -> float:
        """How many times slower `mode` is proven to be here; 1 where it is not."""
        if mode is Verdict.B:
            return max(1.0, 1 / self.ratio_high)
        return max(1.0, self.ratio_low)


def estimate(
    verdict: Verdict, ratio: Optional[float], low: Optional[float], high: Optional[float],
    finding: bool = False,
) -> Estimate:
    """What was measured, of stored fields: an interval counts where both of its ends are there."""
    if low is None or high is None or low <= 0 or high <= 0:
        return Estimate(verdict, finding=finding, ratio=ratio)
    return Estimate(verdict, low, high, finding, ratio)


@dataclass(frozen=True)
class PoolTerm:
    """What pooling needs of an experiment beside its verdict.

    `log_ratio` is the mean of its pairs and `pair_sd` their spread, `tail_log_ratio` and
    `tail_pair_sd` those of the 90th percentiles where there are any; the other fields are
    those in which experiments must agree, with drive model, load and class.
    """

    log_ratio: float
    pair_sd: float
    transport: Transport
    role: Role
    ceph_release: str
    unit: int = field(metadata={"min": 1})  # pairs that one difference stands for
    rotational: Optional[bool] = None
    tail_log_ratio: Optional[float] = None
    tail_pair_sd: Optional[float] = None
    apart: str = ""  # the roles that the OSD has on other drives than its block
    slow_ops: bool = False  # the cluster had slow operations meanwhile


@dataclass(frozen=True)
class ArmSummary:
    """Descriptive numbers of one arm, in microseconds; None where n does not allow one.

    `level_us`: the geometric mean of its periods.  Both arms' have the ratio of the result.
    """

    n: int
    mean_us: Optional[float] = None
    std_us: Optional[float] = None
    min_us: Optional[float] = None
    p25_us: Optional[float] = None
    p50_us: Optional[float] = None
    p75_us: Optional[float] = None
    p90_us: Optional[float] = None
    max_us: Optional[float] = None
    level_us: Optional[float] = None


@dataclass(frozen=True)
class Trusted:
    """What an experiment says where the drive's power-loss protection is taken as proven."""

    verdict: Verdict
    why: str


@dataclass(frozen=True)
class Result(OfDriveKind):
    """One analysed experiment, as the module keeps it.

    `ratio` is arm A over arm B: above 1, B is faster.  `tail` is what the 90th percentiles alone
    would say; None where periods hold too little.
    """

    VERSION: ClassVar[int] = 6
    STORED_BY: ClassVar[str] = "record_id"
    record_id: str
    campaign_id: str
    hostname: str
    osd_id: int
    device_class: str
    domain_id: str
    drive_id: str
    drive_model: DriveModel
    load_point: LoadPoint
    verdict: Verdict
    pairs: int
    seconds: float
    bytes_written: int
    ended: str
    ratio: Optional[float] = None
    ratio_low: Optional[float] = None
    ratio_high: Optional[float] = None
    why: str = ""
    a: ArmSummary = ArmSummary(0)
    b: ArmSummary = ArmSummary(0)
    warnings: Tuple[str, ...] = field(default=(), metadata={"max_items": 64})
    simulated: bool = False
    throwaway: bool = False
    forced: bool = False
    ended_at_s: float = 0.0
    analysed: bool = True
    findings: Tuple[Finding, ...] = field(default=(), metadata={"max_items": 8})
    pool_term: Optional[PoolTerm] = None
    # the record whose periods these are, seen from the other drive of a factorial
    measured_in: str = ""
    # what it would be but for FLUSH_TOO_FAST, maybe the same; None where that was not raised
    if_trusted: Optional[Trusted] = None
    pin_price_us: Optional[float] = None  # of one no-op flush in write through
    # of one commit that waits for such a flush
    write_through_commit_us: Optional[float] = None
    # what was compared in place of the cache modes: such a result is no verdict about them
    option: Optional[OptionTrial] = None
    tail: Optional[Verdict] = None

    @property
    def drive_name(self) -> str:
        """The drive, for people."""
        return f"{self.hostname} {self.drive_id}"

    @property
    def estimate(self) -> Estimate:
        """Its verdict with its interval."""
        return estimate(self.verdict, self.ratio, self.ratio_low, self.ratio_high)

    @property
    def doubts(self) -> Tuple[FindingCode, ...]:
        """What its drive is flagged for: then its interval proves nothing.

        A flush too fast that no verdict rests on here only keeps `write back` from its model.
        """
        withheld = self.verdict is Verdict.INSUFFICIENT and (
            self.if_trusted is None or self.if_trusted.verdict is not self.verdict)
        rests = withheld or self.verdict is Verdict.A
        return tuple(
            finding.code for finding in self.findings if finding.code in DOUBTS
            and (rests or finding.code is not FindingCode.FLUSH_TOO_FAST)
        )


BEING_ANALYSED = "being analysed"


def not_analysed(record: Record, why: str) -> Result:
    """The Result of a record that nobody could analyse yet."""
    setup = record.setup
    return Result(
        record.record_id, record.campaign_id, setup.hostname, setup.osd_id, setup.device_class,
        setup.domain_id, setup.drive_id, setup.drive_model, setup.load_point,
        Verdict.INSUFFICIENT, len(record.pairs), record.seconds, record.bytes_written,
        record.ended, why=one_line(why), simulated=setup.simulated, throwaway=setup.throwaway,
        forced=record.forced, ended_at_s=record.ended_at_s, analysed=False,
        measured_in=measured_in(record.record_id), option=setup.option,
    )


@dataclass(frozen=True)
class Analysed:
    """What the analysis says of a record, and whether its experiment is to go on.

    `seems_same`: the levels lie so near that it would go on to show that nothing differs.
    """

    result: Result
    stop: bool = False
    seems_same: bool = False


def turned_off(result: Mapping[str, Any]) -> str:
    """What turning the cache off does to latency, of a result: levels, percent, interval, tail."""
    levels = [(result.get(mode) or {}).get("level_us") for mode in ("write_back", "write_through")]
    told = "" if None in levels else " -> ".join(map(latency, levels))
    tail = {
        None: "", result["verdict"]: "; p90 too",
        Verdict.NO_DIFFERENCE.value: "; p90 by less than a tenth: the gain is in the middle",
    }.get(result.get("tail"), "; p90 undecided") if CACHE_MODES.meant(result["verdict"]).arm else ""
    return (told + relative(result)).strip() + tail or "-"


UNKNOWN = "unknown"
REASON_CHARS_MAX = 200
MODELS_MAX = 1000
TRUSTED_WARNING = (
    "its flushes look too fast to be true; an admin vouches for its power-loss protection"
)


@dataclass(frozen=True)
class TrustedModel:
    """One drive model (vendor, model and firmware, as `str(DriveModel)` has them)."""

    drive_model: str
    reason: str = field(metadata={"max_chars": REASON_CHARS_MAX})
    since_s: float = 0.0  # wall clock


@dataclass(frozen=True)
class TrustedModels:
    """All of them, as they are stored."""

    VERSION: ClassVar[int] = 1
    items: Tuple[TrustedModel, ...] = field(default=(), metadata={"max_items": MODELS_MAX})


def lifted(result: Result, trusted: AbstractSet[str]) -> Result:
    """The result with FLUSH_TOO_FAST lifted where its drive model is trusted."""
    fast = [item for item in result.findings if item.code is FindingCode.FLUSH_TOO_FAST]
    if not fast or str(result.drive_model) not in trusted:
        return result
    findings = tuple(item for item in result.findings if item not in fast)
    trusted_as = result.if_trusted
    if trusted_as is None:  # the analysis that raised it did not say
        return result
    return replace(
        result, verdict=trusted_as.verdict, why=trusted_as.why, findings=findings,
        warnings=(*result.warnings, TRUSTED_WARNING),
    )


def plp_cell(hints: Sequence[PlpHint], trusted: bool) -> str:
    """What is known of a drive, in a cell of a table: that an admin vouches for it, or a hint."""
    if trusted:
        return "trusted"
    for hint in hints:
        return f"{'hinted' if hint.protected else 'denied'}: {hint.source}"
    return UNKNOWN


def withheld_for(
    verdict: Verdict, seen: Sequence[Result], power_cuts: Sequence[ToldCut] = (),
    homes: AbstractSet[str] = frozenset(),
) -> str:
    """Why `write back` is not recommended on what was seen of a drive model; '' where it is.

    `homes` are the hosts that have it beside those in `seen`.

    Whatever load counts, and however rare the other is: a flush that is ignored at one load
    keeps nothing safe at another.
    """
    if verdict is not Verdict.A or not seen:
        return ""
    lost = [told for told in power_cuts if told.cut.lost]
    if lost:
        return f"{lost_words(*lost[0][:2])}, so write back is not recommended"
    unsent = [one for one in seen if has_finding(one, FindingCode.FLUSH_MISSING)]
    if unsent:
        one, load = unsent[0], unsent[0].load_point.short
        again = typed(
            "ceph wcache campaign start --scope=host:{} --loads={}", one.hostname, load)
        return (
            f"no flush reached {one.drive_name} at {load} ({FindingCode.FLUSH_MISSING.value}), so "
            "write back is not recommended; once nothing drops them between OSD and drive, "
            f"measure there again: {again}"
        )
    kept = [
        told for told in power_cuts
        if told.cut.host_booted and told.cut.checked and told.cut.mode is CacheMode.WRITE_BACK
    ]
    # one that counts, and is not forgotten either, is in `seen` twice
    raised = {one.record_id: one for one in seen if has_finding(one, FindingCode.FLUSH_TOO_FAST)}
    fast = list(raised.values())
    if fast:
        more = f" (and {len(fast) - 1} more)" if len(fast) > 1 else ""
        return (
            f"{fast[0].drive_name} raised {FindingCode.FLUSH_TOO_FAST.value} at "
            f"{fast[0].load_point.short}{more}: the drive may be ignoring flushes, so write back "
            "is not recommended; if you know that it has power-loss protection, say so with `ceph "
            "wcache drive-model trust`"
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
                "wcache drive-model trust --hostname`"
            )
        return (
            "nothing shows that the drive carries out its flushes: the kernel counted none (from "
            "Linux 5.5 on it does), and no load was measured in which each sample is one "
            f"commit; measure {LoadPoint.OSD_BENCH_DEPTH1.value} too, or pull a spare drive's "
            "plug under `wcache-probe witness`"
        )
    return ""


def has_finding(one: Result, code: FindingCode) -> bool:
    """Whether an experiment raised a finding."""
    return any(finding.code is code for finding in one.findings)
