"""What a host's last report says of its cache domains, worked out once for each report.

The automation looks at all drives every few seconds; a report comes every ten minutes.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Dict, FrozenSet, List, Optional, Tuple

from ...core.automation.drift import Key
from ...core.automation.seen import refused, token
from ...core.cluster import ClusterState
from ...core.drive.safety import may_toggle
from ...core.host_report import HostReport
from ...core.model import CacheMode, DriveReport, Severity


@dataclass
class Domain:
    """A cache domain with OSDs, by its host's report alone.

    `refusal` is why it is never toggled by itself; `faulty`: a finding about it is an error.
    """

    key: Key
    drives: Tuple[DriveReport, ...]
    first: DriveReport
    osd_ids: Tuple[int, ...]
    names: FrozenSet[Tuple[str, str]]
    mode: Optional[CacheMode]
    refusal: str
    faulty: bool
    _token: Optional[Tuple[Tuple[str, ...], str]] = None  # of which OSDs' uuids it was made

    def token(self, cluster: ClusterState) -> str:
        """See `core.automation.seen.token`; an OSD that is made anew has another uuid."""
        uuids = tuple(cluster.osds[i].uuid for i in self.osd_ids if i in cluster.osds)
        known = self._token
        if known is None or known[0] != uuids:
            known = self._token = uuids, token(self.drives, uuids)
        return known[1]


@dataclass
class Domains:
    """A report is told from another by which object it is."""

    _known: Dict[Tuple[str, bool], Tuple[HostReport, Tuple[Domain, ...]]] = field(
        default_factory=dict
    )
    _modes: Dict[str, Tuple[HostReport, Dict[Key, CacheMode]]] = field(default_factory=dict)

    def of(self, report: HostReport, *, throwaway: bool) -> Tuple[Domain, ...]:
        """The cache domains of a report that have OSDs."""
        known = self._known.get((report.hostname, throwaway))
        if known is None or known[0] is not report:
            domains: Dict[str, List[DriveReport]] = defaultdict(list)
            for drive in report.drives:
                domains[drive.domain_id].append(drive)
            known = report, tuple(
                _domain(report.hostname, tuple(drives), throwaway)
                for drives in domains.values() if any(drive.uses for drive in drives)
            )
            self._known[report.hostname, throwaway] = known
        return known[1]

    def modes(self, report: HostReport) -> Dict[Key, CacheMode]:
        """The mode of each cache domain whose mode is known."""
        known = self._modes.get(report.hostname)
        if known is None or known[0] is not report:
            known = report, {
                (report.hostname, drive.domain_id): drive.mode
                for drive in report.drives if drive.mode is not None
            }
            self._modes[report.hostname] = known
        return known[1]


def _domain(hostname: str, drives: Tuple[DriveReport, ...], throwaway: bool) -> Domain:
    first = next(drive for drive in drives if drive.uses)
    mode = first.mode
    refusal = refused(drives)
    if not refusal and mode is not None:
        refusal = may_toggle(drives, mode.other, throwaway=throwaway, consent_turn_on=False) or ""
    if mode is None:
        refusal = refusal or "its cache state is unknown"
    return Domain(
        (hostname, first.domain_id), drives, first,
        tuple(sorted({use.osd_id for drive in drives for use in drive.uses})),
        frozenset((drive.drive_id, str(drive.drive_model)) for drive in drives), mode, refusal,
        any(f.severity is Severity.ERROR for drive in drives for f in drive.findings),
    )
