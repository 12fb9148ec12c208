"""The cache mode of one domain's drives: set for now, and once it is judged, made to last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, FrozenSet, Mapping, Sequence, Tuple

from ..drive.journal import PriorDrive
from ..drive.prior import not_back
from ..drive.safety import may_toggle
from ..drive_kind import DriveKind
from ..experiment.period import all_in
from ..host_report import HostReport
from ..model import CacheMode, DriveReport, DriveState
from ..protocol import ApplyRequest, RollbackRequest
from .drive_setting import CacheDomain, DriveSetting
from .setting import Verdicts, Warrant


@dataclass(frozen=True)
class CacheModeSetting(DriveSetting):
    """The cache mode of one domain's drives."""

    CAN_LAST: ClassVar[bool] = True
    STANDS: ClassVar[str] = "in"
    WAS: ClassVar[str] = "was in "
    knob: ClassVar[str] = "cache_mode"
    what: ClassVar[str] = "cache mode"

    domain: CacheDomain
    before: CacheMode
    after: CacheMode
    manual: Tuple[str, ...] = ()

    # ---- what drives have: see DriveSetting

    def is_there(self, states: Tuple[DriveState, ...]) -> bool:
        """See DriveSetting."""
        return all_in(self.after.value, states, self.domain.transport)

    def unlike(self, drive: DriveReport, planned: bool = False) -> str:
        """See DriveSetting."""
        if drive.mode is (self.before if planned else self.after):
            return ""
        now = drive.mode.value if drive.mode else "an unknown mode"
        return f"{drive.dev_name} is in {now}"

    def differs(self, prior: Sequence[PriorDrive], read: Mapping[str, DriveState]) -> str:
        """See DriveSetting; what is kept over a power cycle is part of it."""
        return not_back(prior, read)

    def not_kept(self, states: Sequence[DriveState]) -> str:
        """See DriveSetting."""
        if all(state.page.saved is self.after for state in states):
            return ""
        return f"{self.goal} did not read back as what the drive keeps over a power cycle"

    def refusal(
        self, warrant: Warrant, report: HostReport, drives: Sequence[DriveReport],
        lost: Mapping[str, str],
    ) -> str:
        """See DriveSetting."""
        return may_toggle(
            drives, self.after, throwaway=warrant.throwaway, consent_turn_on=warrant.turn_on,
            experiment=False, lasts=warrant.persist, lost=lost,
        ) or ""

    @property
    def gone(self) -> str:
        """See DriveSetting: a host that was reset brings a drive back as its firmware has it."""
        return (
            f"is no longer in {self.goal}, the mode that was judged: a reset of the host or "
            "another program has changed it"
        )

    # ---- see Setting

    def apply(self, warrant: Warrant) -> ApplyRequest:
        """See Setting; with what was there before it."""
        return ApplyRequest(
            self.domain.domain_id, warrant.action_id, self.before, self.after, warrant.turn_on,
            warrant.lasts, warrant.throwaway, warrant.prior,
        )

    def back(self, warrant: Warrant) -> RollbackRequest:
        """See Setting."""
        return RollbackRequest(
            self.domain.domain_id, warrant.action_id, warrant.throwaway, warrant.prior
        )

    def verdict_moved(self, kind: DriveKind, verdicts: Verdicts) -> str:
        """See Setting."""
        for item in verdicts.recommendations:
            if item.kind == kind:
                if item.mode is self.after:
                    return ""
                return f"the verdict of its drive model is {item.verdict.value} now"
        return "its drive model no longer has a verdict"

    @property
    def touches(self) -> FrozenSet[Tuple[str, str]]:
        """What it changes: two plans that share one must be rolled back in order."""
        return frozenset({(self.domain.hostname, self.domain.domain_id)})

    @property
    def only_lasts(self) -> bool:
        """See Setting."""
        return self.before is self.after
