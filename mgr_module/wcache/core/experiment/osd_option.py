"""An option of an OSD under a lease: what is done for the tasks of a run; sans-I/O.

The mgr does it in a probe's place.  What is leased is the value that the OSD has at run time: it
lies over what the config database says, which is never touched, and goes with the OSD's process.
What was there before, none or an admin's, is stored with the run before the first one is set.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Dict, Generator, Mapping, Optional, Sequence, Tuple, Union

from ..drive.prior import PriorDoubt
from ..errors import WcacheError
from ..hardware import OptionValue
from ..model import DriveReport, DriveState
from ..options.entries import OptionTrial
from ..options.option import Option
from ..protocol import (
    DrivesOutcome,
    FailureOutcome,
    LookRequest,
    OptionsRequest,
    Outcome,
    ReleaseRequest,
    Request,
    SetOptionRequest,
    StateOutcome,
)
from ..text import CommandLine, command, ticked

ELSEWHERE = "compare it on OSDs of which that is so"
NONE = "as configured"  # in the place of a value: the OSD has none at run time


@dataclass(frozen=True)
class ReadValue:
    """Answered with what the OSD goes by."""

    name: str


@dataclass(frozen=True)
class ReadAtRunTime:
    """Answered with the value that it was given since it started, or None."""

    name: str


@dataclass(frozen=True)
class SetAtRunTime:
    """Give it one, or with None take that away."""

    name: str
    value: Optional[str]


Step = Union[ReadValue, ReadAtRunTime, SetAtRunTime]
Program = Generator[Step, Optional[str], Outcome]


class OsdError(WcacheError):
    """An OSD did not do what it was asked for, or has not answered; thrown into a program."""


def perform(
    request: Request, trial: OptionTrial, osd_id: int, drives: Sequence[DriveReport]
) -> Program:
    """The outcome of a task; `drives` are those that hold the OSD's data, as last reported."""
    work = OnOsd(trial, osd_id, tuple(drives))
    try:
        if isinstance(request, LookRequest):
            return (yield from work.look())
        if isinstance(request, SetOptionRequest):
            return (yield from work.set(request))
        if isinstance(request, OptionsRequest):
            return (yield from work.read())
        if isinstance(request, ReleaseRequest):
            return (yield from work.release(request))
    except OsdError as error:
        untouched = isinstance(request, (LookRequest, OptionsRequest))
        return FailureOutcome(error.message, error.advice, restored=untouched)
    return FailureOutcome(f"{request.KIND} is nothing that an OSD's option needs", refused=True)


@dataclass(frozen=True)
class OnOsd:
    """The option of a trial on one OSD."""

    trial: OptionTrial
    osd_id: int
    drives: Tuple[DriveReport, ...]

    def look(self) -> Program:
        """What is there before anything is touched; refused where the option does nothing."""
        if not self.drives:
            return self._refusal(f"no drive of osd.{self.osd_id} is reported any more")
        found: Dict[str, Optional[str]] = {}
        for name, _ in self.trial.entry.needs:
            found[name] = yield ReadValue(name)
        why = unmet(self.trial.entry, self.osd_id, found)
        if why:
            return self._refusal(why, ELSEWHERE)
        held = yield from self._held()
        if held != NONE and not self.trial.entry.could_be(held):
            return self._refusal(
                f"osd.{self.osd_id} was given {self.trial.name} {held[:40]!r}, which is not "
                "understood",
                ticked(by_hand(self.trial.name, f"osd.{self.osd_id}")),
            )
        return DrivesOutcome(tuple(
            # what is changed is the OSD's, and so is said of it
            replace(drive, dev_name=f"osd.{self.osd_id}", state=self._with(drive.state, held))
            for drive in self.drives
        ))

    def set(self, request: SetOptionRequest) -> Program:
        """Give it a value; what it had is stored already, and is still there."""
        name, value, prior = self.trial.name, request.value, _prior(request, self.trial.name)
        self.trial.entry.require(value)
        before = yield from self._held()
        if prior is None or request.name != name:
            return self._refusal(f"what osd.{self.osd_id} had as {name} is not stored")
        if before not in (prior, self.trial.a, self.trial.b):
            return replace(
                self._refusal(
                    f"{name} of osd.{self.osd_id} is {before} and was {prior}",
                    "something else changed it",
                ),
                doubt=PriorDoubt.OTHER_STATE,
            )
        if before != value:
            yield SetAtRunTime(name, value)
        after = yield from self._held()
        if after != value:
            return FailureOutcome(
                f"osd.{self.osd_id} was given {name} {value} and has {after}",
                "it does not take it while it runs", refused=True, restored=False,
            )
        return self._outcome(before, after)

    def read(self) -> Program:
        """What it has now."""
        now = yield from self._held()
        return self._outcome(now, now)

    def release(self, request: ReleaseRequest) -> Program:
        """Give back what was there, and read it."""
        name, prior = self.trial.name, _prior(request, self.trial.name)
        if prior is None:
            return FailureOutcome(
                f"what osd.{self.osd_id} had as {name} is not known",
                f"{ticked(by_hand(name, f'osd.{self.osd_id}'))} takes away what it was given",
                restored=False,
            )
        before = now = yield from self._held()
        if now != prior:
            yield SetAtRunTime(name, None if prior == NONE else prior)
            now = yield from self._held()
        if now != prior:
            return FailureOutcome(
                f"{name} of osd.{self.osd_id} is {now} and was {prior}",
                "something else changes it", restored=False,
            )
        # the drives' own state was neither touched nor read
        return StateOutcome.of_prior(request.prior, changed=now != before)

    def _held(self) -> Generator[Step, Optional[str], str]:
        found = yield ReadAtRunTime(self.trial.name)
        return NONE if found is None else found

    def _with(self, state: DriveState, value: str) -> DriveState:
        return replace(state, options=(OptionValue(self.trial.name, value),))

    def _outcome(self, before: str, after: str) -> StateOutcome:
        return StateOutcome(
            tuple(self._with(drive.state, before) for drive in self.drives),
            tuple(self._with(drive.state, after) for drive in self.drives),
            (), before != after, tuple(drive.drive_id for drive in self.drives),
        )

    @staticmethod
    def _refusal(message: str, advice: str = "") -> FailureOutcome:
        return FailureOutcome(message, advice, refused=True)


def unmet(entry: Option, osd_id: int, found: Mapping[str, Optional[str]]) -> str:
    """Say why an option does nothing on an OSD, by the values that it needs and that were read."""
    return next((
        f"{entry.name} does nothing on osd.{osd_id}: {name} is {found[name]} and not {wanted}"
        for name, wanted in entry.needs if name in found and found[name] != wanted
    ), "")


def by_hand(name: str, osd: str, prior: str = NONE) -> CommandLine:
    """The command that gives an OSD (`osd.3`) back what it had, for when no mgr does."""
    if prior == NONE:
        return command("ceph tell {} config unset {}", osd, name)
    return command("ceph tell {} config set {} {}", osd, name, prior)


def _prior(request: Union[SetOptionRequest, ReleaseRequest], name: str) -> Optional[str]:
    for drive in request.prior.drives:
        for one in drive.options:
            if one.name == name:
                return one.value
    return None
