"""What an experiment came to, as the module keeps it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Optional, Tuple

from ..drive_kind import OfDriveKind
from ..model import DriveModel, Finding, LoadPoint, Verdict
from ..options.trial import OptionTrial
from .pooling import PoolTerm


@dataclass(frozen=True)
class ModeSummary:
    """Descriptive numbers of one mode, in microseconds; None where n does not allow one."""

    n: int
    mean_us: Optional[float] = None
    std_us: Optional[float] = None
    min_us: Optional[float] = None
    p25_us: Optional[float] = None
    p50_us: Optional[float] = None
    p75_us: Optional[float] = None
    p90_us: Optional[float] = None
    max_us: Optional[float] = None


@dataclass(frozen=True)
class Trusted:
    """What an experiment says where the drive's power-loss protection is taken as proven."""

    verdict: Verdict
    why: str


@dataclass(frozen=True)
class Result(OfDriveKind):
    """One analysed experiment, as the module keeps it.

    `ratio` is write back over write through: above 1, write through is faster.
    """

    VERSION: ClassVar[int] = 3
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
    write_back: ModeSummary = ModeSummary(0)
    write_through: ModeSummary = ModeSummary(0)
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
    # what it would be but for FLUSH_TOO_FAST; None where that was not raised
    if_trusted: Optional[Trusted] = None
    pin_price_us: Optional[float] = None  # of one no-op flush in write through
    # of one commit that waits for such a flush
    write_through_commit_us: Optional[float] = None
    # what was compared in place of the cache modes: such a result is no verdict about them
    option: Optional[OptionTrial] = None

    @property
    def drive_name(self) -> str:
        """The drive, for people."""
        return f"{self.hostname} {self.drive_id}"
