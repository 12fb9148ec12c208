"""What all of it would gain, as one figure over the drive models of a cluster.

Only verdicts that are decided count.  The figure is the 99% interval of what decided: from the
lowest end of all drive models that would change to the highest, never a single measurement.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import FrozenSet, Iterable, List, Mapping, Optional, Sequence, Tuple

from ..host_report import DriveKind
from ..model import CacheMode, LoadPoint, Verdict
from ..text import many
from .hosts_by_model import Counted
from .recommend import Recommendation

Interval = Tuple[float, float]
WAITING = "waiting"
_VERBS = ("went back in a rollout", "cannot be changed as things are")  # these say all of it
_OFF_ON = {CacheMode.WRITE_THROUGH: "off", CacheMode.WRITE_BACK: "on"}


@dataclass(frozen=True)
class Position:
    """A drive model by what is to be done about it; `drives` are those that are to be changed.

    `group` is `waiting` or the field of `Outlook` that it is counted in.
    """

    kind: DriveKind
    group: str
    found: Optional[Recommendation] = None
    drives: int = 0

    @property
    def mode(self) -> Optional[CacheMode]:
        """The recommended mode, if one is."""
        return None if self.found is None else self.found.mode

    @property
    def times(self) -> Optional[Interval]:
        """How many times as fast the recommended mode commits."""
        return None if self.found is None else times_as_fast(self.found)

    @property
    def text(self) -> str:
        """What waits of a drive model, in words."""
        mode = self.mode
        off_on = "" if mode is None else f" with the cache {_OFF_ON[mode]}"
        return f"{many(self.drives, 'drive')} would commit {gain(self.times)}{off_on}"


@dataclass(frozen=True)
class Backlog:
    """Drive models that are better in `mode`, with drives that are in the other one.

    `times_low` to `times_high`: how many times as fast they would commit; None where a verdict
    stands on no interval.
    """

    mode: CacheMode
    models: int = 0
    drives: int = 0
    times_low: Optional[float] = None
    times_high: Optional[float] = None

    @property
    def gain(self) -> str:
        """How much faster, in words."""
        known = self.times_low is not None and self.times_high is not None
        return gain((self.times_low or 0.0, self.times_high or 0.0) if known else None)


@dataclass(frozen=True)
class Outlook:
    """The drive models of a cluster by what is to be done about them; each is in one group.

    `right`: in the mode that is better, or in either where that does not matter.  `went_back`:
    a rollout found the recommended mode to be worse.  `fixed`: what they are in cannot be
    changed as things are.  `ask_about` is a drive model that is undecided, `to_measure` are those
    that are not measured.
    """

    models: int
    drives: int
    off: Backlog
    on: Backlog
    right: int = 0
    undecided: int = 0
    unmeasured: int = 0
    went_back: int = 0
    fixed: int = 0
    simulated: bool = False
    ask_about: str = ""
    to_measure: FrozenSet[DriveKind] = frozenset()

    @property
    def waiting(self) -> Tuple[Backlog, ...]:
        """The directions in which drives are to be changed."""
        return tuple(side for side in (self.off, self.on) if side.models)

    @property
    def text(self) -> str:
        """The sentence, without what to do next."""
        if not self.models:
            return "no probe has reported a drive yet"
        several, drives = self.models > 1, many(self.drives, "drive")
        models = many(self.models, "drive model")
        if self.right == self.models:
            every = f"all {self.models} drive models are" if several else "the only drive model is"
            return self._told([f"{every} right as {_it(self.right)} ({drives})"])
        groups = [
            (self.right, f"right as {_it(self.right)}"), (self.undecided, "undecided"),
            (self.unmeasured, "not measured yet"), (self.went_back, "went back in a rollout"),
            (self.fixed, "cannot be changed as things are"),
        ]
        rest = [f"{n} {_verb(n, words)}{words}" for n, words in groups if n]
        parts = self._gains(f" of {models}" if several else " drive model", self.drives)
        if not parts and not several:
            words = next(words for n, words in groups if n)
            is_ = "" if words in _VERBS else "is "
            return self._told([f"the only drive model ({drives}) {is_}{words}"])
        if not parts:
            parts = [f"{models} on {drives}: {rest.pop(0)}"]
        return self._told([*parts, *rest])

    @property
    def gains(self) -> str:
        """What waits, in words; '' where nothing does."""
        return "; ".join(self._gains())

    def _gains(self, of: str = "", drives: int = 0) -> List[str]:
        """A part for each direction; `of` and `drives` say in the first of how many."""
        parts: List[str] = []
        for side in self.waiting:
            models = f"{side.models}{of}" if of and not parts else many(side.models, "drive model")
            total = f" of {drives}" if drives and not parts else ""
            counted = f"{side.drives}{total} drive{'' if max(side.drives, drives) == 1 else 's'}"
            parts.append(
                f"{models} would commit {side.gain} with the cache {_OFF_ON[side.mode]} ({counted})"
            )
        return parts

    def _told(self, parts: Sequence[str]) -> str:
        return "; ".join(parts) + (" (simulated drives)" if self.simulated else "")


def outlook(rows: Sequence[Position], drives: int) -> Outlook:
    """The sums over `rows`; `drives` are those of all of them, each counted once."""
    sums = dict.fromkeys(("right", "undecided", "unmeasured", "went_back", "fixed"), 0)
    ask_about = ""
    for row in rows:
        if row.group != WAITING:
            sums[row.group] += 1
        if row.group == "undecided":
            ask_about = ask_about or row.kind.drive_model
    return Outlook(
        len(rows), drives, _side(CacheMode.WRITE_THROUGH, rows), _side(CacheMode.WRITE_BACK, rows),
        **sums, simulated=bool(rows) and not any(row.kind.real for row in rows),
        ask_about=ask_about,
        to_measure=frozenset(row.kind for row in rows if row.group == "unmeasured"),
    )


def standings(
    counted: Mapping[DriveKind, Counted], advice: Iterable[Recommendation],
    went_back: Iterable[DriveKind] = (),
) -> List[Position]:
    """One row for each drive model; simulated ones only where there are no others.

    `counted` is by `DriveKind.home`.  `went_back` are the kinds of drive whose recommended mode
    a rollout took back.
    """
    by_kind = {item.kind.home: item for item in advice}
    back = {kind.home for kind in went_back}
    return [
        _standing(kind, counted[kind], by_kind.get(kind), kind in back)
        for kind in sorted([kind for kind in counted if kind.real] or counted)
    ]


def times_as_fast(found: Recommendation) -> Optional[Interval]:
    """How many times as fast the recommended mode commits, by the loads that its verdict is of.

    The OSD's own traffic alone where that decided it; else over all loads that have an interval,
    also one that gains nothing or loses: what is recommended has to be worth its worst.
    """
    loads = [load for load in found.loads if load.load_point is not LoadPoint.FDATASYNC_TIMER]
    own = [
        load for load in loads
        if load.load_point is LoadPoint.OSD_TRAFFIC and load.verdict is found.verdict
    ]
    known = [x.estimate for x in own or loads if x.estimate.bounded and not x.estimate.flagged()]
    if found.mode is None or not known:
        return None
    low = min(item.ratio_low for item in known)
    high = max(item.ratio_high for item in known)
    # the ratio is write back over write through
    return (low, high) if found.verdict is Verdict.B else (1 / high, 1 / low)


def _standing(
    kind: DriveKind, counted: Counted, found: Optional[Recommendation], went_back: bool
) -> Position:
    if not any(counted.changeable.values()):
        return Position(kind, "fixed", found)
    if found is None:
        return Position(kind, "unmeasured")
    if not found.verdict.decided:
        return Position(kind, "undecided", found)
    if found.mode is None:
        return Position(kind, "right", found)
    moving = counted.changeable[found.mode]
    if moving:
        return Position(kind, "went_back" if went_back else WAITING, found, moving)
    return Position(kind, "fixed" if counted.stuck[found.mode] else "right", found)


def _side(mode: CacheMode, rows: Iterable[Position]) -> Backlog:
    mine = [row for row in rows if row.group == WAITING and row.mode is mode]
    spans = [row.times for row in mine]
    known = [span for span in spans if span is not None]
    whole = bool(spans) and len(known) == len(spans)
    return Backlog(
        mode, len(mine), sum(row.drives for row in mine),
        min(low for low, _ in known) if whole else None,
        max(high for _, high in known) if whole else None,
    )


def gain(times: Optional[Interval]) -> str:
    """How much faster, in words; the part of an interval that gains nothing is called no gain."""
    if times is None:
        return "faster"
    digits = 2 if times[0] < 2 else 1 if times[1] < 10 else 0
    first, last = (f"{end:.{digits}f}" for end in times)
    if times[0] <= 1.0:
        return f"up to {last} times as fast"
    return f"{first if first == last else f'{first} to {last}'} times as fast"


def _verb(count: int, words: str) -> str:
    return "" if words in (*_VERBS, "undecided") else "is " if count == 1 else "are "


def _it(count: int) -> str:
    return "it is" if count == 1 else "they are"
