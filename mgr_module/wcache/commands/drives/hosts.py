"""What follows from one host's report, worked out once for each report.

`status` and the health checks are asked for at every tick; at 1,000 hosts only the hosts
that changed since are looked at again.  Reports are immutable, so identity is enough.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Dict, FrozenSet, Iterable, List, Mapping, Set, Tuple

from ...core.drive.safety import judge
from ...core.fleet.findings import modes_of, of_drive, of_power_cuts
from ...core.fleet.loaded_off import touched_domains
from ...core.host_report import HostReport
from ...core.model import DriveReport, Finding, Role

# (drive model, device cache, kernel view, safety)
ModelKey = Tuple[str, str, str, str]


@dataclass(frozen=True)
class HostView:
    """One host's share of the fleet's views."""

    report: HostReport
    throwaway: bool
    leased: FrozenSet[str]
    changing: FrozenSet[str]
    touched: FrozenSet[str]
    findings: Tuple[Finding, ...]
    models: Mapping[ModelKey, int]
    osds: Mapping[str, Tuple[int, ...]]  # those with their data on drives of a model, by its name
    modes: Mapping[Tuple[str, str], int]


class HostViews:
    """The views of all hosts; `take` keeps what has not changed."""

    def __init__(self) -> None:
        self._views: Dict[str, HostView] = {}

    def take(
        self,
        reports: Mapping[str, HostReport],
        *,
        throwaway: bool,
        leased: Iterable[Tuple[str, str]],
        changing: Iterable[Tuple[str, str]],
        touched: Iterable[Tuple[str, str]] = (),
    ) -> List[HostView]:
        """Views by host name; the others are (hostname, domain id) pairs.

        `touched`: what plans have changed; what the probes' journals name is touched too.
        """
        by_host, moving, changed = map(_by_host, (leased, changing, touched))
        none: FrozenSet[str] = frozenset()
        kept: Dict[str, HostView] = {}
        for hostname in sorted(reports):
            report, old = reports[hostname], self._views.get(hostname)
            held, open_ = by_host.get(hostname, none), moving.get(hostname, none)
            ours = changed.get(hostname, none)
            if (
                old is not None and old.report is report and old.throwaway == throwaway
                and old.leased == held and old.changing == open_ and old.touched == ours
            ):
                kept[hostname] = old
            else:
                kept[hostname] = _look(report, throwaway, held, open_, ours)
        self._views = kept
        return list(kept.values())


def _by_host(pairs: Iterable[Tuple[str, str]]) -> Dict[str, FrozenSet[str]]:
    found: Dict[str, Set[str]] = {}
    for hostname, domain_id in pairs:
        found.setdefault(hostname, set()).add(domain_id)
    return {hostname: frozenset(ids) for hostname, ids in found.items()}


def _look(
    report: HostReport, throwaway: bool, leased: FrozenSet[str], changing: FrozenSet[str],
    touched: FrozenSet[str],
) -> HostView:
    found = [*report.findings, *of_power_cuts(report)]
    ours = touched | touched_domains(report)
    for drive in report.drives:
        found += of_drive(
            drive, throwaway=throwaway, leased=drive.domain_id in leased,
            touched=drive.domain_id in ours,
        )
    named = tuple(
        replace(item, subject=f"{report.hostname} {item.subject}".strip()) for item in found
    )
    models = Counter(_model_key(drive) for drive in report.drives)
    return HostView(
        report, throwaway, leased, changing, touched, named, models, _osds_by_model(report),
        modes_of(report, leased | changing),
    )


def _osds_by_model(report: HostReport) -> Mapping[str, Tuple[int, ...]]:
    found: Dict[str, Set[int]] = {}
    for drive in report.drives:
        mine = found.setdefault(_name_of(drive), set())
        mine |= {use.osd_id for use in drive.uses if use.role is Role.BLOCK}
    return {name: tuple(sorted(osds)) for name, osds in found.items() if osds}


def _name_of(drive: DriveReport) -> str:
    return str(drive.drive_model) or drive.transport.value


def _model_key(drive: DriveReport) -> ModelKey:
    return (
        _name_of(drive), drive.state.device_cache.value,
        drive.state.kernel_view.value, judge(drive.state).value,
    )
