"""What the automation looks at: drives, verdicts, and whether anything may be begun."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import FrozenSet, Iterable, Mapping, Optional, Tuple

from ..drive.shingled import shingled
from ..model import CacheMode, DriveReport, Verdict
from .drift import Key

ModelKey = Tuple[str, str]
"""Device class and drive model, firmware included."""


def token(drives: Iterable[DriveReport], uuids: Iterable[str]) -> str:
    """A short name of a cache domain that changes with its drives, firmware and OSDs.

    A replaced drive, another firmware and an OSD that was made anew are all new.
    """
    parts = sorted(f"{drive.drive_id}\0{drive.drive_model}" for drive in drives)
    text = "\n".join((*parts, *sorted(uuids)))
    return hashlib.sha256(text.encode()).hexdigest()[:10]


@dataclass(frozen=True)
class DriveSeen:
    """A cache domain now.  `refusal` is why it is left alone, `measured` whether it was."""

    key: Key
    token: str
    device_class: str
    drive_model: str
    mode: Optional[CacheMode]
    refusal: str = ""
    measured: bool = False
    transient: bool = False
    new: bool = False

    @property
    def model_key(self) -> ModelKey:
        """By what verdicts stand."""
        return self.device_class, self.drive_model


@dataclass(frozen=True)
class Ended:
    """How what was begun last has ended, and what it took.

    `good`: it came to its own end.  `undone`: its end says nothing of its drive models.
    `drive_models`: what a plan was to change.  They are the plan's own word, as reports of its
    hosts may still be awaited when it ends.
    """

    good: bool
    why: str = ""
    seconds: float = 0.0
    bytes_written: int = 0
    changes: int = 0
    undone: bool = False
    drive_models: FrozenSet[str] = frozenset()


@dataclass(frozen=True)
class Outdated:
    """A host that is not any more what a knob's plan was made for, with its device classes.

    `todo` goes on from "would", and `why` is for the history.
    """

    knob: str
    host: str
    device_classes: Tuple[str, ...]
    todo: str
    why: str


@dataclass(frozen=True)
class Seen:
    """Everything at one moment; `blocked` is why nothing can be begun.

    `without`: hosts that go on to call and have not reported for too long; none of their drives
    is among these.  `ended` has what was begun and has ended, by its id, and `waits` are plans
    that go on only when others have mended something, or an admin resumes them.  `of_plans` are
    the domains that plans and trials which are not over have for themselves, and `knobs` those of
    which plans set values.
    """

    drives: Tuple[DriveSeen, ...]
    verdicts: Mapping[ModelKey, Verdict] = field(default_factory=dict)
    contested: FrozenSet[Key] = frozenset()
    drifted: FrozenSet[Key] = frozenset()
    blocked: str = ""
    ended: Mapping[str, Ended] = field(default_factory=dict)
    waits: FrozenSet[str] = frozenset()
    of_plans: FrozenSet[Key] = frozenset()
    knobs: FrozenSet[str] = frozenset()
    under_way: str = ""
    outdated: Tuple[Outdated, ...] = ()
    # Plans that found a drive model to be worse for clients in the mode of its verdict.
    went_back: Mapping[ModelKey, str] = field(default_factory=dict)
    without: Tuple[str, ...] = ()


def refused(drives: Iterable[DriveReport]) -> str:
    """Why drives are never dealt with by themselves, "" where they may be."""
    for drive in drives:
        why = shingled(drive)
        if why:
            return f"{drive.dev_name}: {why}, so an admin decides"
    return ""
