"""Settings of a domain's drives: the cache mode, an option, or bcache's mode above them.

What the kernel resets along with the option is part of what was there before, and goes back with
it.  A value in sysfs is gone after a reboot of the host: what is set here never lasts.

bcache's mode is otherwise.  Its backing drive keeps it.  Towards writeback it has a consent of its
own, with what shares the cache device named; away from it, it is made when no dirty data is left,
and its effect on clients, who wait for the backing drive from then on, does not take it back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, FrozenSet, Mapping, Sequence, Tuple

from ..drive.prior import Prior
from ..drive.safety import may_toggle, writeback_refusal
from ..errors import RefusedError
from ..hardware import NAME_CHARS_MAX, VALUE_CHARS_MAX
from ..host_report import HostReport
from ..model import CacheMode, DriveReport, DriveState, mode_of
from ..options.entries import BY_NAME, kept_from, left_dirty, left_words, names_of
from ..options.option import Follow, SharedCache
from ..protocol import (
    ApplyOptionRequest,
    ApplyRequest,
    CountersRequest,
    DrivesOutcome,
    OptionsRequest,
    SetModeRequest,
    SetOptionRequest,
    StateOutcome,
)
from .drive_setting import OF_DRIVES, DriveSetting
from .setting import HOW_FAR, CacheDomain, Looked, Warrant


@dataclass(frozen=True)
class CacheModeSetting(DriveSetting):
    """The cache mode of one domain's drives."""

    SHOWN: ClassVar[str] = (
        f"{OF_DRIVES} expected mode why manual load_point osd_ids drive_ids simulated {HOW_FAR} "
        "expected_before_us expected_after_us failure_domain prior doubt kept wear at_s "
        "drive_model"
    )
    CAN_LAST: ClassVar[bool] = True
    STANDS: ClassVar[str] = "in"
    WAS: ClassVar[str] = "was in "
    knob: ClassVar[str] = "cache_mode"
    what: ClassVar[str] = "cache mode"

    domain: CacheDomain = field()
    before: CacheMode
    after: CacheMode
    manual: Tuple[str, ...] = ()

    # ---- what drives have: see DriveSetting

    def is_there(self, states: Tuple[DriveState, ...]) -> bool:
        switch = self.domain.transport
        return bool(states) and all(mode_of(switch, one) is self.after for one in states)

    def unlike(self, drive: DriveReport, planned: bool = False) -> str:
        if drive.mode is (self.before if planned else self.after):
            return ""
        now = drive.mode.value if drive.mode else "an unknown mode"
        return f"{drive.dev_name} is in {now}"

    def not_kept(self, states: Sequence[DriveState]) -> str:
        if all(state.page.saved is self.after for state in states):
            return ""
        return f"{self.goal} did not read back as what the drive keeps over a power cycle"

    def refusal(
        self, warrant: Warrant, report: HostReport, drives: Sequence[DriveReport],
        lost: Mapping[str, str],
    ) -> str:
        return may_toggle(
            drives, self.after, throwaway=warrant.throwaway, consent_turn_on=warrant.turn_on,
            experiment=False, lasts=warrant.persist, lost=lost,
        ) or ""

    @property
    def gone(self) -> str:
        """Words for a mode that a reset of the host or another program has taken."""
        return (
            f"is no longer in {self.goal}, the mode that was judged: a reset of the host or "
            "another program has changed it"
        )

    # ---- under a lease: see DriveSetting

    def lease(self, warrant: Warrant) -> SetModeRequest:
        return SetModeRequest(
            self.domain.domain_id, self.after, warrant.turn_on, warrant.throwaway, warrant.prior
        )

    def read(self) -> CountersRequest:
        return CountersRequest(self.domain.domain_id)

    # ---- see Setting

    def apply(self, warrant: Warrant) -> ApplyRequest:
        return ApplyRequest(
            self.domain.domain_id, warrant.action_id, self.before, self.after, warrant.turn_on,
            warrant.lasts, warrant.throwaway, warrant.prior,
        )

    @property
    def mode_wanted(self) -> CacheMode:
        return self.after

    @property
    def touches(self) -> FrozenSet[Tuple[str, str]]:
        """What it changes: two plans that share one must be rolled back in order."""
        return frozenset({(self.domain.hostname, self.domain.domain_id)})

    @property
    def only_lasts(self) -> bool:
        return self.before is self.after


@dataclass(frozen=True)
class OptionSetting(DriveSetting):
    """An option of one domain's drives; `shared` is what an admin was told of its cache device."""

    KIND: ClassVar[str] = "option"
    SHOWN: ClassVar[str] = (
        f"kind {OF_DRIVES} option expected value why manual load_point osd_ids drive_ids wait_s "
        f"simulated {HOW_FAR} failure_domain prior doubt wear at_s drive_model shared"
    )
    READS_TOO: ClassVar[bool] = True
    knob: ClassVar[str] = "options"

    domain: CacheDomain = field()
    option: str = field(metadata={"max_chars": NAME_CHARS_MAX})
    before: str = field(metadata={"max_chars": VALUE_CHARS_MAX})
    after: str = field(metadata={"max_chars": VALUE_CHARS_MAX})
    manual: Tuple[str, ...] = ()
    shared: SharedCache = SharedCache()  # noqa: RUF009  frozen

    # ---- its entry, of which this version may have none

    @property
    def _dirty_in(self) -> str:
        entry = BY_NAME.get(self.option)
        return entry.dirty_in if entry is not None else ""

    @property
    def assigned(self) -> str:
        return f"{self.option}={self.after}" if self._dirty_in else ""

    @property
    def needs_consent(self) -> str:
        asked = self._dirty_in and self.after == self._dirty_in
        # it is asked whatever there is to say of the cache device
        return (self.shared.words or self.goal) if asked else ""

    @property
    def unjudged(self) -> bool:
        """Whether it ends bcache's write back: then clients wait for the backing drive."""
        return bool(self._dirty_in) and self.before == self._dirty_in

    @property
    def kept_by(self) -> str:
        entry = BY_NAME.get(self.option)
        outlives = entry is not None and entry.outlives_boot
        return "the drive: bcache saves it there" if outlives else ""

    @property
    def not_tried(self) -> str:
        entry = BY_NAME.get(self.option)
        if entry is None or entry.follow is not Follow.ADMIN:
            return ""
        return f"{self.option} is not tried: its way back may take as long as writing back does"

    @property
    def reset_too(self) -> Tuple[str, ...]:
        return names_of(self.option)

    # ---- what drives have: see DriveSetting

    def is_there(self, states: Tuple[DriveState, ...]) -> bool:
        return bool(states) and all(one.option(self.option) == self.after for one in states)

    def unlike(self, drive: DriveReport, planned: bool = False) -> str:
        now = drive.state.option(self.option)
        if now == (self.before if planned else self.after):
            return ""
        return f"{self.option} of {drive.dev_name} is {now or 'unknown'}"

    def over_others(self, drives: Sequence[DriveReport]) -> str:
        values = [one.state.option(self.option) for one in drives]
        others = [value for value in values if value not in (self.before, self.after, None)]
        return f" to {self.before}, over {others[0]}, which others have set" if others else ""

    def differs(self, prior: Prior, read: Mapping[str, DriveState]) -> str:
        """Compare options alone: the cache mode is a setting of its own."""
        if not prior.known:
            return super().differs(prior, read)
        for drive in prior.drives:
            state = read.get(drive.drive_id)
            if state is None:
                return f"{drive.dev_name} was not read"
            for one in drive.options:
                now = state.option(one.name)
                if now != one.value:
                    return f"{one.name} of {drive.dev_name} is {now or 'unknown'} and was " \
                           f"{one.value}"
        return ""

    def refusal(
        self, warrant: Warrant, report: HostReport, drives: Sequence[DriveReport],
        lost: Mapping[str, str],
    ) -> str:
        try:
            kept = [(one, kept_from(one, self.option)) for one in drives]
        except RefusedError as error:  # this version has no entry of it
            return error.message
        why = [f"{one.dev_name}: {reason}" for one, reason in kept if reason]
        if self.needs_consent:
            why.append(writeback_refusal(report, drives, lost, self.shared))
        return "; ".join(filter(None, why))

    def not_agreed(self, warrant: Warrant) -> str:
        if self.needs_consent and not warrant.writeback:
            return f"nobody has agreed to {self.goal}"
        return ""

    def left(self, value: str, outcome: StateOutcome) -> str:
        """Say how much dirty data is still to be written back."""
        left = [left_dirty(self.option, value, state) for state in outcome.after]
        rates = [one.rate_bytes_s or 0 for one in outcome.bcache if not one.is_cache]
        known = [count for count in left if count is not None]
        total = None if len(known) < len(left) else sum(known)
        return left_words(self.domain.name, total, max(rates, default=0))

    @property
    def gone(self) -> str:
        """Words for a value that a reboot of the host or another program has taken."""
        reboot = "" if self.kept_by else "a reboot of the host or "
        return (
            f"no longer has {self.goal}, which was judged: {reboot}another program has changed it"
        )

    # ---- under a lease: see DriveSetting

    def lease(self, warrant: Warrant) -> SetOptionRequest:
        return SetOptionRequest(self.domain.domain_id, self.option, self.after, warrant.prior)

    def read(self) -> OptionsRequest:
        return OptionsRequest(self.domain.domain_id)

    # ---- see Setting

    def looked(self, outcome: object, warrant: Warrant) -> Looked:
        """Refuse too where drives no longer have what the plan was made from."""
        found = super().looked(outcome, warrant)
        if not found.prior.known or not isinstance(outcome, DrivesOutcome):
            return found
        moved = filter(None, (self.unlike(one, planned=True) for one in outcome.drives))
        why = next(moved, "")
        return Looked(f"{why} and {self.WAS}{self.before}; make a new plan") if why else found

    def apply(self, warrant: Warrant) -> ApplyOptionRequest:
        return ApplyOptionRequest(
            self.domain.domain_id, warrant.action_id, self.option, self.before, self.after,
            warrant.prior, self.shared if self.needs_consent and warrant.writeback else None,
        )

    @property
    def touches(self) -> FrozenSet[Tuple[str, str]]:
        """What it changes: two plans that share one must be rolled back in order.

        That is also what the kernel resets with it; the cache mode of the drives is something else.
        """
        try:
            names = self.reset_too
        except RefusedError:  # this version has no entry of it
            names = (self.option,)
        return frozenset(
            (self.domain.hostname, f"{self.domain.domain_id} {name}") for name in names
        )

    @property
    def what(self) -> str:
        return self.option

    @property
    def prefix(self) -> str:
        return f"{self.option} "
