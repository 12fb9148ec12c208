"""What follows from one host's report, worked out once for each report.

`status` and the health checks are asked for at every tick; of 10,000 hosts only those that
changed since are looked at again.  Reports are immutable, so identity is enough.  What follows
from results, advice, OSDs and settings too is looked at again now and then.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import (
    AbstractSet,
    Dict,
    FrozenSet,
    Iterable,
    List,
    Mapping,
    Optional,
    Tuple,
    TypeVar,
)

from ..core.drive.safety import judge
from ..core.fleet import foreign_rules, set_up
from ..core.fleet.findings import modes_of, of_drive, of_power_cuts
from ..core.fleet.foreign_rules import touched_domains
from ..core.host_report import DriveKind, HostReport
from ..core.model import CacheMode, DriveReport, Finding, FindingCode, Role
from ..core.text import grouped
from ..core.verdict.recommend import Recommendation, recommended_for
from ..engine.world import World

# (drive model, device cache, kernel view, safety)
ModelKey = Tuple[str, str, str, str]
Key = TypeVar("Key")
# Advice over a whole fleet takes long to put together, and OSDs' metadata are many.
KEEP_S = 60.0


@dataclass(frozen=True)
class HostView:
    """One host's share of the fleet's views."""

    report: HostReport
    leased: FrozenSet[str]
    changing: FrozenSet[str]
    touched: FrozenSet[str]
    findings: Tuple[Finding, ...]
    rules: Tuple[Finding, ...]  # of others, that set write caches
    models: Mapping[ModelKey, int]
    osds: Mapping[str, Tuple[int, ...]]  # those with their data on drives of a model, by its name
    modes: Mapping[Tuple[str, str], int]


@dataclass(frozen=True)
class FleetView:
    """The views of all hosts in the order of their names, and what they make up together.

    `told` are the hosts of which something is found, and `named` those that something held,
    changing or touched was of.
    """

    throwaway: bool = False
    reports: Mapping[str, HostReport] = field(default_factory=dict)
    named: FrozenSet[str] = frozenset()
    views: Mapping[str, HostView] = field(default_factory=dict)
    told: Mapping[str, HostView] = field(default_factory=dict)
    models: Mapping[ModelKey, int] = field(default_factory=dict)
    modes: Mapping[Tuple[str, str], int] = field(default_factory=dict)

    def modes_of(self, hostnames: AbstractSet[str]) -> Mapping[Tuple[str, str], int]:
        """Return the drives of some hosts by (drive model, mode)."""
        others = self.views.keys() - hostnames
        most = len(others) * 2 < len(self.views)
        found = dict(self.modes) if most else {}
        for hostname in others if most else self.views.keys() - others:
            _add(found, self.views[hostname].modes, -1 if most else 1)
        return found


class HostViews:
    """The views of all hosts; `take` looks again at what has changed alone."""

    def __init__(self) -> None:
        self._fleet = FleetView()

    def take(
        self,
        reports: Mapping[str, HostReport],
        *,
        throwaway: bool,
        leased: Iterable[Tuple[str, str]],
        changing: Iterable[Tuple[str, str]],
        touched: Iterable[Tuple[str, str]] = (),
    ) -> FleetView:
        """Return the views of all hosts; the others are (hostname, domain id) pairs.

        `touched`: what plans have changed; what the probes' journals name is touched too.
        """
        old = self._fleet  # at once: several threads look
        if old.throwaway != throwaway:
            old = FleetView(throwaway)
        by_host, moving, changed = map(_by_host, (leased, changing, touched))
        none: FrozenSet[str] = frozenset()
        named = frozenset((*by_host, *moving, *changed))
        again = {name for name, report in reports.items() if old.reports.get(name) is not report}
        again |= (named | old.named) & reports.keys()
        gone = old.views.keys() - reports.keys()
        if not again and not gone:
            return old
        views, told = dict(old.views), dict(old.told)
        models, modes = dict(old.models), dict(old.modes)
        for name in sorted(again | gone):
            before, view = views.get(name), None
            if name in reports:
                view = _look(
                    reports[name], throwaway, by_host.get(name, none), moving.get(name, none),
                    changed.get(name, none), before,
                )
            if view is before:
                continue
            for one, sign in (before, -1), (view, 1):
                if one is not None:
                    _add(models, one.models, sign)
                    _add(modes, one.modes, sign)
            told.pop(name, None)
            if view is None:
                del views[name]
                continue
            views[name] = view
            if view.findings:
                told[name] = view
        if views.keys() - old.views.keys():
            views = dict(sorted(views.items()))  # in one order, whoever came first
        fleet = FleetView(throwaway, dict(reports), named, views, told, models, modes)
        self._fleet = fleet
        return fleet


class FindingsOfHosts:
    """What reports show beside results, advice, OSDs and settings; kept for a while.

    That is whether others' rules agree with the advice, and what a set-up costs.
    """

    def __init__(self) -> None:
        self._kept = _Found()

    def take(self, fleet: FleetView, world: World) -> List[Finding]:
        """Return those of all hosts, by host: they are asked for at each tick."""
        now_s, of = world.now_s, (len(world.results), world.config_read_at_s)
        old = self._kept  # at once: several threads look
        if old.of != of or now_s - old.at_s > KEEP_S:
            old = _Found(now_s, of)
        again = [name for name, view in fleet.views.items() if old.views.get(name) is not view]
        told, advice = dict(old.told), old.advice
        for name in (*again, *(old.views.keys() - fleet.views.keys())):
            told.pop(name, None)
        mine = world.believed_results if again else ()
        results = grouped((one.hostname, one) for one in mine)
        for name in again:
            view = fleet.views[name]
            if view.rules and advice is None:
                advice = {item.kind: item for item in world.recommendations}
            found = [_judged(rule, view.report, world, advice or {}) for rule in view.rules]
            if view.report.real:
                found += set_up.of_report(
                    view.report, world.cluster.osds, results.get(name, ()), world.config
                )
            if found:
                told[name] = found
        self._kept = _Found(old.at_s, of, fleet.views, told, advice)
        return [item for name in sorted(told) for item in told[name]]


@dataclass(frozen=True)
class _Found:
    """What was found, when at first, on how many results, by which reading of the config."""

    at_s: float = -math.inf
    of: Tuple[int, Optional[float]] = (0, None)
    views: Mapping[str, HostView] = field(default_factory=dict)  # that it was found of
    told: Mapping[str, List[Finding]] = field(default_factory=dict)  # where there is something
    advice: Optional[Mapping[DriveKind, Recommendation]] = None  # once a rule was held against it


def _judged(
    rule: Finding, report: HostReport, world: World, wanted: Mapping[DriveKind, Recommendation]
) -> Finding:
    drives = [drive for drive in report.drives if drive.uses]
    modes: List[Optional[CacheMode]] = []
    for drive in drives:
        advice = recommended_for(drive, report, world.cluster, wanted)
        modes.append(None if advice is None else advice.mode)
    return foreign_rules.judged(rule, report.hostname, drives, modes)


def _add(counts: Dict[Key, int], more: Mapping[Key, int], sign: int) -> None:
    for key, count in more.items():
        counts[key] = counts.get(key, 0) + sign * count
        if not counts[key]:
            del counts[key]


def _by_host(pairs: Iterable[Tuple[str, str]]) -> Dict[str, FrozenSet[str]]:
    return {hostname: frozenset(ids) for hostname, ids in grouped(pairs).items()}


def _look(
    report: HostReport, throwaway: bool, leased: FrozenSet[str], changing: FrozenSet[str],
    touched: FrozenSet[str], before: Optional[HostView],
) -> HostView:
    """Return the view of a host; the one before, where nothing of it has changed."""
    if before is not None and before.report is report and (
        (before.leased, before.changing, before.touched) == (leased, changing, touched)
    ):
        return before
    found = [*report.findings, *of_power_cuts(report)]
    ours = touched | touched_domains(report)
    for drive in report.drives:
        found += of_drive(
            drive, throwaway=throwaway, leased=drive.domain_id in leased,
            touched=drive.domain_id in ours,
        )
    named = [replace(one, subject=f"{report.hostname} {one.subject}".strip()) for one in found]
    models = Counter(
        (_name_of(drive), drive.state.device_cache.value, drive.state.kernel_view.value,
         judge(drive.state).value) for drive in report.drives
    )
    return HostView(
        report, leased, changing, touched,
        tuple(one for one in named if one.code is not FindingCode.FOREIGN_RULE),
        tuple(one for one in named if one.code is FindingCode.FOREIGN_RULE),
        models, _osds_by_model(report), modes_of(report, leased | changing),
    )


def _osds_by_model(report: HostReport) -> Mapping[str, Tuple[int, ...]]:
    found = grouped(
        (_name_of(drive), use.osd_id) for drive in report.drives
        for use in drive.uses if use.role is Role.BLOCK
    )
    return {name: tuple(sorted({*osds})) for name, osds in found.items()}


def _name_of(drive: DriveReport) -> str:
    return str(drive.drive_model) or drive.transport.value
