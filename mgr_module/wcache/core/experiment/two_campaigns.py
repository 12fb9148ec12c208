"""Two observed campaigns side by side: one from before, one from after.

Nothing was taken in turn, so whatever else changed in between counts as well: it is told that
something differs, and not why.  Of a load only its table is kept.  The standard error of the log
of a median is taken from it: 1 / (2 f sqrt(n)), where half of the samples lie within the
interquartile range, so that f is 0.5 / range.  Samples whose order is unknown are taken for AR(1)
with 0.9, of which 19 are worth one.  The medians of one drive at two times are taken to spread by
5% besides; over three drives and more of a model the drive is the unit.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, fields
from statistics import mean, stdev
from typing import Any, Dict, List, Optional, Sequence, Tuple

from .. import codec
from ..codec import one_line
from ..errors import MalformedError
from ..figures.latency_table import LatencyTable
from ..figures.student_t import t95
from ..model import CacheMode, KernelView, LoadPoint, Role
from ..text import gained, latency, named, roughly, table

SAMPLES_WORTH_ONE = 19.0
SPREAD_LN = math.log1p(0.05)
DRIVES_MIN = 3
# From here on the load was another one.
LOAD_RATIO = 2.0
NAMED_MAX = 12
ROWS_MAX = 100_000


@dataclass(frozen=True)
class ObservedLoad:
    """One load of an observed campaign, and on what; `note` says what made it useless."""

    hostname: str
    osd_id: int
    domain_id: str
    drive: str  # as it is shown
    role: Role
    load_point: LoadPoint
    table: LatencyTable
    drive_model: str = ""
    mode: Optional[CacheMode] = None
    kernel_view: KernelView = KernelView.UNKNOWN
    beside: Optional[LoadPoint] = None
    writes_per_s: Optional[float] = None
    note: str = ""

    @property
    def key(self) -> Tuple[str, int, str, str, str, str]:
        """What is compared with its like."""
        beside = self.beside.value if self.beside is not None else ""
        return (
            self.hostname, self.osd_id, self.domain_id, self.role.value, self.load_point.value,
            beside,
        )

    @property
    def name(self) -> str:
        """For people."""
        return f"osd.{self.osd_id}/{self.role.value} {self.drive} {self.load}"

    @property
    def load(self) -> str:
        """The load, and what was kept up beside it."""
        return _load(self.load_point, self.beside)


@dataclass(frozen=True)
class Ratio:
    """Before over after, above 1 where it is faster now, with its 95% interval."""

    value: float
    low: Optional[float] = None
    high: Optional[float] = None


@dataclass(frozen=True)
class Compared:
    """One load before and after."""

    before: ObservedLoad
    after: ObservedLoad
    ratio: Optional[Ratio]
    notes: Tuple[str, ...]


@dataclass(frozen=True)
class ComparedModel:
    """The drives of a drive model at one load, the drive as the unit."""

    drive_model: str
    load_point: LoadPoint
    beside: Optional[LoadPoint]
    drives: int
    ratio: Ratio


@dataclass(frozen=True)
class Comparison:
    """Everything that both campaigns have, and what only one of them has."""

    rows: Tuple[Compared, ...]
    models: Tuple[ComparedModel, ...]
    only_before: Tuple[str, ...]
    only_after: Tuple[str, ...]


def compare(before: Sequence[ObservedLoad], after: Sequence[ObservedLoad]) -> Comparison:
    """The loads of two campaigns, each with its like."""
    then, now = ({one.key: one for one in side} for side in (before, after))
    rows = tuple(
        Compared(then[key], now[key], *_judged(then[key], now[key]))
        for key in sorted(then) if key in now
    )
    return Comparison(
        rows, _by_model(rows), _left(then, now), _left(now, then)
    )


def _left(
    these: Dict[Tuple[str, int, str, str, str, str], ObservedLoad],
    others: Dict[Tuple[str, int, str, str, str, str], ObservedLoad],
) -> Tuple[str, ...]:
    return tuple(
        f"{these[key].hostname} {these[key].name}" for key in sorted(these) if key not in others
    )


def _judged(before: ObservedLoad, after: ObservedLoad) -> Tuple[Optional[Ratio], Tuple[str, ...]]:
    notes = [
        f"{when}: {one.note}" for when, one in (("before", before), ("after", after)) if one.note
    ]
    if before.kernel_view is not after.kernel_view:
        notes.append(
            f"the kernel's view was {before.kernel_view.value}, and is {after.kernel_view.value}"
        )
    writes = [one.writes_per_s for one in (before, after)]
    if None not in writes and _differ(*(one or 0.0 for one in writes)):
        notes.append("the drive had another load: see WRITES/S")
    useless = any(one.note or not one.table.p50 for one in (before, after))
    return None if useless else _ratio(before.table, after.table), tuple(notes)


def _differ(one: float, other: float) -> bool:
    low, high = sorted((max(one, 1.0), max(other, 1.0)))
    return high > LOAD_RATIO * low


def _ratio(before: LatencyTable, after: LatencyTable) -> Optional[Ratio]:
    ln = math.log(before.p50 or 1.0) - math.log(after.p50 or 1.0)
    errors = [_error(table) for table in (before, after)]
    if any(error is None for error in errors):
        return Ratio(math.exp(ln))
    freedom = min(_worth(table) for table in (before, after)) - 1.0
    half = t95(max(1, int(freedom))) * math.hypot(*(error or 0.0 for error in errors))
    half += SPREAD_LN
    return Ratio(math.exp(ln), math.exp(ln - half), math.exp(ln + half))


def _worth(table: LatencyTable) -> float:
    return table.n / SAMPLES_WORTH_ONE


def _error(table: LatencyTable) -> Optional[float]:
    """The standard error of the logarithm of a median; None where it is not known."""
    if not table.p25 or not table.p75 or table.p25 <= 0 or _worth(table) < 2:
        return None
    return (math.log(table.p75) - math.log(table.p25)) / math.sqrt(_worth(table))


def _by_model(rows: Sequence[Compared]) -> Tuple[ComparedModel, ...]:
    found: Dict[Tuple[str, str, str], List[Compared]] = defaultdict(list)
    for row in rows:
        if row.ratio is not None:
            beside = row.after.beside.value if row.after.beside is not None else ""
            key = (row.after.drive_model, row.after.load_point.value, beside)
            found[key].append(row)
    models = []
    for (model, _, _), of_model in sorted(found.items()):
        by_drive: Dict[Tuple[str, str], List[float]] = defaultdict(list)
        for row in of_model:
            if row.ratio is not None:
                drive = (row.after.hostname, row.after.domain_id)
                by_drive[drive].append(math.log(row.ratio.value))
        if len(by_drive) < DRIVES_MIN:
            continue
        lns = [mean(values) for values in by_drive.values()]
        half = t95(len(lns) - 1) * stdev(lns) / math.sqrt(len(lns))
        middle = mean(lns)
        models.append(ComparedModel(
            model, of_model[0].after.load_point, of_model[0].after.beside, len(lns),
            Ratio(math.exp(middle), math.exp(middle - half), math.exp(middle + half)),
        ))
    return tuple(models)


def of_shown(rows: Any) -> List[ObservedLoad]:
    """The loads of `campaign show` as it answers in JSON; raises MalformedError."""
    if not isinstance(rows, list) or len(rows) > ROWS_MAX:
        raise MalformedError(f"what was observed must be a list of at most {ROWS_MAX} loads")
    found = []
    for row in rows:
        if not isinstance(row, dict):
            raise MalformedError("what was observed must be a list of objects")
        names = row.get("dev_names")
        drive = ",".join(map(str, names)) if isinstance(names, list) else ""
        plain = {item.name: row[item.name] for item in fields(ObservedLoad) if item.name in row}
        plain["drive"] = one_line(drive or str(row.get("domain_id", "")), 200)
        found.append(codec.decode(ObservedLoad, plain, "what was observed"))
    return found


def lines(found: Comparison, passed_s: float) -> List[str]:
    """The table, and what it can and cannot say."""
    rows, notes = [], []
    for one in found.rows:
        then, now = one.before, one.after
        rows.append((
            f"osd.{now.osd_id}/{now.role.value}", now.drive, now.load,
            _change(_mode(then), _mode(now)), latency(then.table.p50), latency(now.table.p50),
            words(one.ratio), latency(then.table.p90), latency(now.table.p90),
            _change(_writes(then), _writes(now)),
        ))
        notes += [f"{now.hostname} {now.name}: {note}" for note in one.notes]
    heads = ("OSD", "DRIVE", "LOAD", "CACHE MODE", "P50 BEFORE", "P50 AFTER",
             "CHANGE (95%)", "P90 BEFORE", "P90 AFTER", "WRITES/S")
    shown = [table(heads, rows)] if rows else ["no load was observed in both"]
    for model in found.models:
        load = _load(model.load_point, model.beside)
        shown.append(
            f"{model.drive_model}, {load}, over {model.drives} drives: {words(model.ratio)}"
        )
    lefts = (("before", found.only_before), ("after", found.only_after))
    return [
        *shown, "",
        "the change is of the median: below 0, it is faster now. Of one drive the interval takes "
        "5% for how measurements differ by themselves",
        time_passed(passed_s), *notes,
        *(f"only {side}: {named(names, NAMED_MAX)}" for side, names in lefts if names),
    ]


def time_passed(passed_s: float) -> str:
    """What no interval of two times can hold."""
    return (
        f"{roughly(max(0.0, passed_s))} passed between the two, and what else changed meanwhile "
        "(load, data, temperature, versions) counts as well: this tells that something differs, "
        "and not why. Only modes taken in turn tell that: `ceph wcache campaign start`"
    )


def words(found: Optional[Ratio]) -> str:
    """How latency changed, with its interval."""
    if found is None:
        return "-"
    if found.low is None or found.high is None:
        return f"{gained(found.value)} (too few samples)"
    return f"{gained(found.value)} ({gained(found.high)} to {gained(found.low)})"


def _load(load_point: LoadPoint, beside: Optional[LoadPoint]) -> str:
    return load_point.short + (f", beside {beside.short}" if beside is not None else "")


def _mode(one: ObservedLoad) -> str:
    return one.mode.value if one.mode is not None else "unknown"


def _writes(one: ObservedLoad) -> str:
    return "-" if one.writes_per_s is None else f"{one.writes_per_s:.1f}"


def _change(before: str, after: str) -> str:
    return before if before == after else f"{before} > {after}"
