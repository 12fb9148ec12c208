"""Which of two values of an option experiments speak for.

Drives are pooled as those are whose cache modes are compared: from three like drives on by the
child's pool, below that by what they agree on.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import (
    Dict,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from ..hardware import NAME_CHARS_MAX, VALUE_CHARS_MAX
from ..host_report import DriveKind, OfDriveKind
from ..loads import MATERIAL_RATIO
from ..model import LoadPoint, Verdict
from ..options.entries import BY_NAME, OptionTrial
from ..options.option import Follow
from ..text import command, typed
from .hosts_by_model import HostsByModel, missing_word
from .pooling import LoadVerdict, pool_drives, pooled
from .recommend import groups, saying
from .repeated import Standing
from .result import Result

# What proves a change: the OSD's own traffic where that decided, else what did.
_PROOF_ORDER = (
    LoadPoint.OSD_TRAFFIC, LoadPoint.OSD_BENCH_DEPTH1, LoadPoint.OSD_BENCH_BATCH,
)
VERDICTS_TOLD = 3


@dataclass(frozen=True)
class OptionVerdict(OfDriveKind):
    """What is known of two values of an option on one kind of drive, at one load."""

    trial: OptionTrial
    device_class: str
    drive_model: str
    load_point: LoadPoint
    simulated: bool
    verdict: Verdict
    why: str
    drives: int
    ratio: Optional[float]
    ratio_low: Optional[float]
    ratio_high: Optional[float]
    interval: str
    record_ids: Tuple[str, ...]

    @property
    def words(self) -> str:
        """The verdict in the option's own words."""
        return self.trial.arms.said(self.verdict)


def option_verdicts(
    results: Sequence[Result], at_home: HostsByModel
) -> List[OptionVerdict]:
    """One for each option, its two values, device class, drive model and load.

    What several experiments of one drive say, and which do not count, is as for cache modes; and
    so is whose word is needed, by `at_home`.
    """
    found = [
        _of_kind(key.option, key.load_point, drives, at_home)
        for key, drives in groups(results).items() if key.option is not None
    ]
    return sorted(found, key=lambda item: (
        str(item.trial), item.device_class, item.drive_model, item.load_point.value
    ))


def _of_kind(
    trial: OptionTrial, load_point: LoadPoint, drives: Sequence[Standing], at_home: HostsByModel
) -> OptionVerdict:
    first = drives[0]
    pool = pool_drives(drives, trial.arms)
    said = pooled(load_point, drives, pool, trial.arms)
    undecided = [one.why for one in drives if not one.verdict.decided]
    why = [said.interval]
    if not said.verdict.decided:
        by_pool = [pool.why] if pool is not None else []
        why = [*by_pool, *undecided[:1], *said.notes]
    found = OptionVerdict(
        trial, first.device_class, str(first.drive_model), load_point, first.simulated,
        said.verdict, next((line for line in why if line), ""), said.drives,
        said.ratio, said.ratio_low, said.ratio_high, said.interval,
        tuple(record_id for one in drives for record_id in one.record_ids),
    )
    return _unless_one_host(found, said, drives, at_home)


def _unless_one_host(
    found: OptionVerdict, said: LoadVerdict, drives: Sequence[Standing], at_home: HostsByModel
) -> OptionVerdict:
    """Withheld where the drive model is on two hosts or more, and one alone has decided."""
    if not found.verdict.decided:
        return found
    trial = f"{found.trial.name}={found.trial.a},{found.trial.b}"
    missing = missing_word(
        saying(drives, found.verdict, [said]), {one.hostname for one in drives},
        at_home.get(found.kind.home, frozenset()), have="this drive model",
        measure=lambda host: command("ceph wcache ab {} --scope=host:{}", trial, host),
        more=", which is undecided, for longer",
    )
    return found if missing is None else replace(
        found, verdict=Verdict.INSUFFICIENT,
        why="; ".join(line for line in (found.why, missing.why) if line),
    )


class Told(NamedTuple):
    """The verdicts about one kind of drive, by option."""

    kind: DriveKind
    verdicts: Mapping[str, Sequence[OptionVerdict]]


def by_kind(verdicts: Iterable[OptionVerdict], *, on_host: bool) -> Dict[DriveKind, Told]:
    """Those about options that probes set, or about the OSDs' own."""
    found: Dict[DriveKind, Dict[str, List[OptionVerdict]]] = {}
    for one in verdicts:
        entry = BY_NAME.get(one.trial.name)  # none of an option that this version does not know
        if entry is None or entry.follow is Follow.ADMIN or entry.on_host is not on_host:
            continue
        found.setdefault(one.kind, {}).setdefault(entry.name, []).append(one)
    return {kind: Told(kind, told) for kind, told in found.items()}


@dataclass(frozen=True)
class Ground(OfDriveKind):
    """A value that was chosen for drives of a kind that had another one then."""

    device_class: str = field(metadata={"max_chars": NAME_CHARS_MAX})
    drive_model: str
    simulated: bool
    option: str = field(metadata={"max_chars": NAME_CHARS_MAX})
    now: str = field(metadata={"max_chars": VALUE_CHARS_MAX})
    value: str = field(metadata={"max_chars": VALUE_CHARS_MAX})


@dataclass(frozen=True)
class Choice:
    """The value to give it with the verdicts that say so, or "" and why it stays as it is.

    Where it has the better value already, neither is there.
    """

    value: str = ""
    verdicts: Tuple[OptionVerdict, ...] = ()
    why_not: str = ""

    @property
    def why(self) -> str:
        """Why that value, for people."""
        return "; ".join(
            f"{one.words} at {one.load_point.short} ({one.trial}: {one.interval})"
            for one in self.verdicts[:VERDICTS_TOLD]
        )

    @property
    def proof(self) -> LoadPoint:
        """The load that shows what the change does: the first of those that decided."""
        decided = [one.load_point for one in self.verdicts]
        return next(point for point in (*_PROOF_ORDER, *decided) if point in decided)


def choose(now: str, verdicts: Sequence[OptionVerdict]) -> Choice:
    """What verdicts about one option of a kind of drive say, where it has a value now.

    A value is left for one that was found to be better at some load and worse at none, wherever
    bcache's dirty data was.  A loss counts though it was withheld, or contradicted.  One that was
    not compared stays: nobody knows what it would gain to leave it.
    """
    mine = [one for one in verdicts if now in (one.trial.a, one.trial.b)]
    decided = [one for one in verdicts if one.verdict.decided]
    if decided and not mine:
        first = decided[0].trial
        return Choice(why_not=(
            f"{now} was not compared: " + typed("ceph wcache ab {}={},{}", first.name, now, first.a)
        ))
    if not any(one in mine for one in decided):
        return Choice(why_not="; ".join(dict.fromkeys(
            f"{one.trial}: {_told(one)}" for one in mine or verdicts
        )))
    better = _better(verdicts)
    if now not in better:
        torn = (told for told in _pairs(mine).values() if len(_winners(told)) > 1)
        return Choice(why_not=_torn(next(torn, [])))
    value, passed = now, {now}
    while value in better:
        above = better[value]
        best = [one for one in above if not set(better.get(one, ())) & set(above)]
        if len(best) != 1 or best[0] in passed:
            names = " and ".join(sorted(above))
            return Choice(why_not=f"which of {names} is best is not known: compare them")
        value, told = best[0], above[best[0]]
        passed.add(value)
    lost = _pairs(mine).get(tuple(sorted((now, value))), [])
    return Choice(why_not=_torn(lost)) if now in _winners(lost) else Choice(value, tuple(told))


def fallen(ground: Ground, verdicts: Iterable[OptionVerdict]) -> str:
    """Say why verdicts no longer speak for a value, "" where they do."""
    mine = [
        one for one in verdicts
        if one.trial.name == ground.option
        and one.kind == ground.kind
    ]
    if not mine:
        return f"no verdict about {ground.option} of its drive model is left"
    choice = choose(ground.now, mine)
    if choice.value == ground.value:
        return ""
    told = choice.why_not or f"{choice.value or ground.now} is better now"
    return (
        f"verdicts of its drive model no longer speak for {ground.option} {ground.value}: {told}"
    )


def _told(one: OptionVerdict) -> str:
    return one.words + (f", {one.why}" if one.why else "")


def _winners(verdicts: Iterable[OptionVerdict]) -> Set[str]:
    """The values that are better by one of them: both where that conflicts.

    What its whole interval shows was shown, also where it was withheld since no second host says
    so, or for what was found on a drive.
    """
    found: Set[str] = set()
    for one in verdicts:
        low, high = one.ratio_low or 0.0, one.ratio_high
        if one.verdict is Verdict.CONFLICTING:
            found |= {one.trial.a, one.trial.b}
        elif one.verdict.arm is not None:
            found.add(one.trial.value(one.verdict.arm))
        elif not one.verdict.decided and low > MATERIAL_RATIO:
            found.add(one.trial.b)
        elif not one.verdict.decided and high is not None and high < 1 / MATERIAL_RATIO:
            found.add(one.trial.a)
    return found


def _pairs(verdicts: Iterable[OptionVerdict]) -> Dict[Tuple[str, ...], List[OptionVerdict]]:
    """Those by which one of two values is better, by the two."""
    found: Dict[Tuple[str, ...], List[OptionVerdict]] = defaultdict(list)
    for one in verdicts:
        if _winners([one]):
            found[tuple(sorted((one.trial.a, one.trial.b)))].append(one)
    return found


def _better(verdicts: Iterable[OptionVerdict]) -> Dict[str, Dict[str, List[OptionVerdict]]]:
    """By value, those that are better, with the verdicts; loads that disagree say nothing."""
    found: Dict[str, Dict[str, List[OptionVerdict]]] = {}
    for values, told in _pairs(verdicts).items():
        winners, decided = _winners(told), [one for one in told if one.verdict.decided]
        if len(winners) == 1 and decided:
            (winner,), (loser,) = winners, set(values) - winners
            found.setdefault(loser, {})[winner] = decided
    return found


def _torn(told: Sequence[OptionVerdict]) -> str:
    """Two values of which each is better at some load, in words, with what did not decide it."""
    if not told:
        return ""
    values = " against ".join(sorted((told[0].trial.a, told[0].trial.b)))
    more = "; ".join(
        f"{one.load_point.short}: {_told(one)}" for one in told if not one.verdict.decided
    )
    return (
        f"{values} is better at one load, or from one starting state, and worse at another"
        + (f" ({more})" if more else "")
    )
