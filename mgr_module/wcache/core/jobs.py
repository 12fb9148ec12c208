"""What is carried out from event to event: a run, a rollout, or what a knob tries by itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import AbstractSet, Any, FrozenSet, List, NamedTuple, Optional, Protocol, Tuple

from . import events
from .host_report import DriveKind
from .text import NOTHING, CommandLine


@dataclass(frozen=True)
class Touched:
    """What a plan, a run or a trial has for itself until it is over.

    Its hosts, as a probe does one thing after the other; the OSDs whose clients may notice; the
    knobs of which it sets values, which are worked out for a host as a whole; and the OSDs that it
    compares with, which nobody else may change meanwhile.
    """

    hosts: FrozenSet[str] = frozenset()
    osds: FrozenSet[int] = frozenset()
    knobs: FrozenSet[str] = frozenset()
    controls: FrozenSet[int] = frozenset()

    @property
    def own(self) -> Touched:
        """The same without what it compares with, which is free again after its step."""
        return replace(self, controls=frozenset())


class Holding(NamedTuple):
    """What has OSDs for itself, in words, which they are, and the commands that show and end it.

    `stop` is NOTHING where it ends by itself alone.
    """

    words: str
    touched: Touched
    show: CommandLine
    stop: CommandLine = NOTHING


class Job(Protocol):
    """A machine: it takes an event and the time, and returns what is to be done.

    `Halt` ends it: what it has changed goes back, however long that takes.  What it tells
    others of is replaced, never changed in place: a copy of it holds still.  One that names this
    as its base has what most of them answer.
    """

    @property
    def over(self) -> bool:
        """Whether nothing is under way and nothing waits for an admin."""

    @property
    def under_way(self) -> bool:
        """Whether something of it is under way."""
        return not self.over

    @property
    def wake_at_s(self) -> Optional[float]:
        """When it wants its next Tick, or None."""

    @property
    def waits_long(self) -> bool:
        """Whether it may well hear nothing for as long as it takes."""
        return False

    @property
    def waited_for(self) -> str:
        """The host whose probe must answer for it to go on; "" for none."""
        return ""

    @property
    def hostnames(self) -> AbstractSet[str]:
        """The hosts whose drives it may have touched."""
        return frozenset()

    @property
    def may_turn_on(self) -> AbstractSet[DriveKind]:
        """The drive models whose caches it may yet turn on that are off otherwise."""
        return frozenset()

    def handle(self, event: events.Event, now_s: float) -> List[events.Action]:
        """Take one event at wall-clock time `now_s`; return what is to be done, in order."""

    def stalled(self, said: str) -> events.Event:
        """Return what it is told where an answer that it waits for does not come."""
        return events.Halt(said)

    def abandoned(self, reason: str) -> Job:
        """Return it as it ends where its own code raised: what it touched is not restored."""


class Trial(Job, Protocol):
    """What a knob tries by itself, on OSDs that its own adapter asks; its last one is kept.

    One that is abandoned, or was stored under way, takes everything back at `Begin`.
    """

    @property
    def state(self) -> Any:
        """Where it stands, as it is stored."""

    @property
    def job_id(self) -> str:
        """Its id."""
        return str(self.state.trial_id)

    @property
    def plan_id(self) -> str:
        """The plan whose changes it tries; "" where it was asked for by itself."""
        return str(self.state.plan_id)

    @property
    def status(self) -> str:
        """Where it stands, in a word."""
        return str(self.state.status.value)

    @property
    def reason(self) -> str:
        """Why it stands there, or ""."""
        return str(self.state.reason)

    @property
    def shown_by(self) -> CommandLine:
        """The command that shows all of it."""

    @property
    def key(self) -> str:
        """Where it is stored."""

    def abandoned(self, reason: str) -> Trial:
        """Return it as it ends where its own code raised; at `Begin` it takes everything back."""

    @property
    def holds(self) -> Optional[Holding]:
        """What it has for itself: nothing else is begun on that meanwhile."""

    @property
    def owed(self) -> Tuple[int, ...]:
        """The OSDs that may have what it gave them; it is not over before none is left."""
        return tuple(self.state.owed)

    @property
    def failed(self) -> str:
        """Why it came to nothing; "" where it goes on, or did what it should."""

    def progress(self, now_s: float) -> Tuple[str, float]:
        """What `ceph progress` shows of it: words, and the fraction of the time that is over."""
