"""One cache domain to be put into another mode: what a plan says and keeps of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import FrozenSet, Optional, Tuple

from ..drive.prior import UNKNOWN, Prior, PriorDoubt
from ..hardware.wear import Wear
from ..model import CacheMode, DriveModel, LoadPoint, Transport
from .change_status import ChangeStatus, gain


@dataclass(frozen=True)
class DriveWear:
    """What a drive had written before a change."""

    drive_id: str
    wear: Wear


@dataclass(frozen=True)
class CacheModeChange:
    """One cache domain to be put into another mode.

    `failure_domain` names the CRUSH buckets that the plan goes by, the widest first.
    """

    action_id: str
    hostname: str
    domain_id: str
    dev_names: Tuple[str, ...]
    osd_id: int
    device_class: str
    transport: Transport
    expected: CacheMode
    mode: CacheMode
    why: str
    manual: Tuple[str, ...]
    load_point: LoadPoint
    simulated: bool = False
    status: ChangeStatus = ChangeStatus.PLANNED
    detail: str = ""
    before_us: Optional[float] = None
    before_error: float = 0.0  # standard error of its logarithm
    after_us: Optional[float] = None
    seconds: float = 0.0
    bytes_written: int = 0
    failure_domain: str = ""
    # what was there, stored before the request goes out; unknown where an older version made it
    prior: Prior = UNKNOWN
    doubt: PriorDoubt = PriorDoubt.NONE  # why it cannot be gone back to
    # what its drives keep over a power cycle, as read after a change that was to last
    kept: Optional[CacheMode] = None
    # SMART's figures of its drives before the change, by drive id
    wear: Tuple[DriveWear, ...] = ()
    at_s: float = 0.0  # when it came to its end
    osd_ids: Tuple[int, ...] = ()  # all OSDs on the domain; older plans name `osd_id` alone
    drive_ids: Tuple[str, ...] = ()
    drive_model: Optional[DriveModel] = None

    @property
    def ratio(self) -> Optional[float]:
        """Latency before over latency after: above 1, the change helped."""
        return gain(self.before_us, self.after_us)

    @property
    def name(self) -> str:
        """What is changed, for people."""
        return f"{self.hostname} {', '.join(self.dev_names)}"

    @property
    def words(self) -> str:
        """From what to what, for people."""
        return f"{self.expected.value} to {self.mode.value}"

    @property
    def what(self) -> str:
        """What is changed."""
        return "cache mode"

    @property
    def goal(self) -> str:
        """What it is changed to."""
        return self.mode.value

    @property
    def look_first(self) -> str:
        """What an admin does before a rollback where nobody knows whether it was made."""
        return "look at the drive, then, with the probe there"

    @property
    def touches(self) -> FrozenSet[Tuple[str, str]]:
        """What it changes: two plans that share one must be rolled back in order."""
        return frozenset({(self.hostname, self.domain_id)})

    @property
    def treated(self) -> Tuple[int, ...]:
        """The OSDs whose clients the change may touch."""
        return self.osd_ids or (self.osd_id,)

    @property
    def prior_known(self) -> bool:
        """Whether what was there before is stored with it."""
        return self.prior.known
