"""Whose word is missing before a drive model is changed on all the hosts that have it.

Whoever holds one host's key can make up that host's reports and timings, so one host alone
decides for no other.  Each knob asks `missing_word`.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import (
    AbstractSet,
    Callable,
    Dict,
    FrozenSet,
    Iterable,
    Iterator,
    Mapping,
    NamedTuple,
    Optional,
    Set,
    Tuple,
)

from ..cluster import ClusterState
from ..drive.proofs import HOSTS_MIN
from ..drive.safety import may_toggle
from ..host_report import DriveKind, HostReport
from ..model import CacheMode, DriveReport
from ..text import CommandLine, named, ticked

NAMED_MAX = 3  # hosts in one line
HostsByModel = Mapping[DriveKind, FrozenSet[str]]
"""By `DriveKind.home`, the hosts that have drives which could be measured and changed."""


@dataclass(frozen=True)
class Counted:
    """Drives of one kind: how many could be changed to each mode, and how many could not."""

    changeable: Dict[CacheMode, int] = field(default_factory=lambda: dict.fromkeys(CacheMode, 0))
    stuck: Dict[CacheMode, int] = field(default_factory=lambda: dict.fromkeys(CacheMode, 0))


class MissingWord(NamedTuple):
    """The host to measure next, and why, in words."""

    host: str
    why: str


def missing_word(
    says: AbstractSet[str], measured: AbstractSet[str], at_home: AbstractSet[str], *,
    have: str, measure: Callable[[str], CommandLine], more: str = "", what: str = "verdict",
) -> Optional[MissingWord]:
    """Whose word is missing before what hosts say decides for all; None where it does.

    `says` are the hosts that have reached it by themselves, `measured` those with a result, and
    `at_home` those for which it would decide: what only one host has, that host decides alone.
    Several OSDs of a host are one word.  `have` is what they have in common, `measure` the
    command for a host, `more` what a measured one that is undecided needs.
    """
    hosts = {*at_home, *measured}
    if len(hosts) < HOSTS_MIN or len(says) >= HOSTS_MIN:
        return None
    new, undecided = sorted(hosts - measured), sorted(measured - says)
    host = (new or undecided or sorted(hosts))[0]
    said = (
        f"only {', '.join(sorted(says))} reached this {what}, and a second host must confirm it"
        if says else f"no host alone reached this {what}, and two hosts must confirm it"
    )
    return MissingWord(host, (
        f"{said} ({named(sorted(hosts), NAMED_MAX)} have {have}): measure on {host}"
        f"{'' if new else more}: {ticked(measure(host))}"
    ))


def counted(
    reports: Iterable[HostReport], cluster: ClusterState, *, throwaway: bool
) -> Dict[DriveKind, Counted]:
    """By `DriveKind.home`, the drives of each kind by what they could be changed to."""
    found: Dict[DriveKind, Counted] = defaultdict(Counted)
    for kind, _, drive in at_home(reports, cluster):
        of_kind, mode = found[kind], drive.mode
        if mode is not None:
            can = _switchable(drive, throwaway)
            (of_kind.changeable if can else of_kind.stuck)[mode.other] += 1
    return dict(found)


def hosts_by_model(
    reports: Iterable[HostReport], cluster: ClusterState, *, throwaway: bool,
    switchable: bool = True,
) -> HostsByModel:
    """Where each drive model is at home, by the last reports.

    Only drives count whose cache mode could be changed, where that is what is asked about.
    """
    found: Dict[DriveKind, Set[str]] = defaultdict(set)
    for kind, hostname, drive in at_home(reports, cluster):
        # one drive that can be switched is enough: what cannot is changed nowhere
        known = kind in found and hostname in found[kind]
        if not known and (not switchable or _switchable(drive, throwaway)):
            found[kind].add(hostname)
    return {key: frozenset(names) for key, names in found.items()}


def at_home(
    reports: Iterable[HostReport], cluster: ClusterState
) -> Iterator[Tuple[DriveKind, str, DriveReport]]:
    """Each drive of each host, once for each device class of its OSDs."""
    for report in reports:
        for drive in report.drives:
            for device_class in _classes(drive, report, cluster):
                yield report.kind_of(drive.drive_model, device_class), report.hostname, drive


def _classes(drive: DriveReport, report: HostReport, cluster: ClusterState) -> Set[str]:
    if not report.real:
        return {""}
    return cluster.classes_of(report, (use.osd_id for use in drive.uses))


def _switchable(drive: DriveReport, throwaway: bool) -> bool:
    mode = drive.mode
    return mode is not None and not may_toggle(
        [drive], mode.other, throwaway=throwaway, consent_turn_on=True
    )
