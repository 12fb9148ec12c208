"""What changes of one cache domain's drives have in common, whatever of them is changed."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, AbstractSet, Mapping, Optional, Sequence, Tuple, Union

from ..cluster import ClusterState
from ..drive.prior import Prior
from ..events import LoadRequest
from ..host_report import HostReport
from ..model import DriveModel, DriveReport, LoadPoint, Role
from ..protocol import FailureOutcome, MeasureRequest
from ..scope import Scope
from ..simulation import measured_by_probe
from .change import ChangeSteps, DriveWear
from .change_status import ChangeStatus, gain

if TYPE_CHECKING:
    from .rollout_state import Rollout

UNEXPECTED = "the probe gave an unexpected answer"


class DriveChange(ChangeSteps):
    """A change that a probe makes; its kinds are dataclasses that have at least these fields."""

    action_id: str
    hostname: str
    domain_id: str
    dev_names: Tuple[str, ...]
    osd_id: int
    load_point: LoadPoint
    simulated: bool
    device_class: str
    failure_domain: str
    drive_ids: Tuple[str, ...]
    status: ChangeStatus
    before_us: Optional[float]
    after_us: Optional[float]
    prior: Prior
    osd_ids: Tuple[int, ...]
    drive_model: Optional[DriveModel]

    @abstractmethod
    def refusal(
        self, rollout: Rollout, report: HostReport, drives: Sequence[DriveReport],
        lost: Mapping[str, str],
    ) -> str:
        """Say why it must not be made, or not made to last, on drives as they are; "" where it may.

        `report` is that of its host.  `lost` is what power cuts have shown of drive models.  It
        asks what was asked when it was planned, and whether what was consented to is still that.
        """

    @abstractmethod
    def unlike(self, drive: DriveReport, planned: bool = False) -> str:
        """Say what a drive has instead of what was changed, "" where it has that.

        `planned`: instead of what the plan was made from.
        """

    def others(self, drives: Sequence[DriveReport]) -> str:
        """Say which drives and OSDs there are instead of those that the plan names; "" where none.

        A consent to a plan is one to change these.
        """
        if sorted(drive.drive_id for drive in drives) != sorted(self.drive_ids):
            return "the drive is gone or was replaced"
        osd_ids = sorted({use.osd_id for drive in drives for use in drive.uses})
        if osd_ids != sorted(self.osd_ids):
            return f"its OSDs are {osd_ids} now, and were {sorted(self.osd_ids)}"
        return ""

    @property
    @abstractmethod
    def was(self) -> str:
        """What the plan was made from: goes on from "and"."""

    @property
    def ratio(self) -> Optional[float]:
        """Latency before over latency after: above 1, the change helped."""
        return gain(self.before_us, self.after_us)

    @property
    def name(self) -> str:
        """What is changed, for people."""
        return f"{self.hostname} {', '.join(self.dev_names)}"

    @property
    def look_first(self) -> str:
        """What an admin does before a rollback where nobody knows whether it was made."""
        return "look at the drive, then, with the probe there"

    @property
    def treated(self) -> Tuple[int, ...]:
        """The OSDs whose clients the change may touch."""
        return self.osd_ids

    @property
    def prior_known(self) -> bool:
        """Whether what was there before is stored with it."""
        return self.prior.known

    def measure(self, rollout: Rollout) -> Union[MeasureRequest, LoadRequest, None]:
        """See ChangeSteps."""
        if measured_by_probe(self):
            return MeasureRequest(self.domain_id, self.osd_id, self.load_point, rollout.count)
        return LoadRequest(
            self.osd_id, self.load_point, Role.BLOCK, rollout.count, rollout.period_s,
            rollout.latency_limit_ms,
        )

    @property
    def judging_osds(self) -> Tuple[int, ...]:
        """See ChangeSteps."""
        return self.treated

    @property
    def alone_touched(self) -> bool:
        """See ChangeSteps."""
        return True

    def concerned_osds(self, cluster: ClusterState) -> AbstractSet[int]:
        """See ChangeSteps."""
        return set(self.treated)

    def is_within(self, scope: Scope) -> bool:
        """See ChangeSteps."""
        return (
            scope.has_osd(*self.treated) and scope.has_host(self.hostname)
            and scope.has_model(self.drive_model)
        )

    def moved(self, back: bool) -> str:
        """See ChangeSteps."""
        before, after = reversed(self.sides) if back else self.sides
        return f"{before} to {after}"


def wear_of(drives: Sequence[DriveReport]) -> Tuple[DriveWear, ...]:
    """What drives that tell it had written before a change."""
    return tuple(DriveWear(one.drive_id, one.wear) for one in drives if one.wear is not None)


def failure_words(outcome: FailureOutcome) -> str:
    """Why a probe did not do it, with its advice."""
    return outcome.message + (f": {outcome.advice}" if outcome.advice else "")
