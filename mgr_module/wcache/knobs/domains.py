"""The cache domains of hosts in the order in which plans go through them."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Callable, Dict, Iterable, List, NamedTuple, Optional, Tuple

from ..core.change.change import Change
from ..core.change.drive_setting import CacheDomain
from ..core.cluster import ClusterState, failure_domains
from ..core.host_report import HostReport
from ..core.model import DriveReport
from ..core.scope import Scope
from ..core.text import many
from .knob import CHANGES_MAX, Wanted


class Domain(NamedTuple):
    """A cache domain with its failure domains, the widest first, and its host's report."""

    where: Tuple[str, ...]
    report: HostReport
    drives: Tuple[DriveReport, ...]

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.report.hostname} {', '.join(drive.dev_name for drive in self.drives)}"

    @property
    def osd_ids(self) -> Tuple[int, ...]:
        """All OSDs on it."""
        return tuple(sorted({use.osd_id for drive in self.drives for use in drive.uses}))

    @property
    def planned(self) -> CacheDomain:
        """Its drives and OSDs, as a plan names them."""
        first = next((drive for drive in self.drives if drive.uses), self.drives[0])
        return CacheDomain(
            self.report.hostname, first.domain_id, tuple(drive.dev_name for drive in self.drives),
            first.transport, self.osd_ids, tuple(drive.drive_id for drive in self.drives),
            self.report.simulated, first.drive_model,
        )


class Fate(NamedTuple):
    """What a plan does with a cache domain: it changes it, leaves it alone, or finds it in place.

    Without a change it is left alone where there is a reason, else it is as it should be.  Reasons
    `of` something are told once, with the number of domains that they are true of.
    """

    change: Optional[Change] = None
    reasons: Tuple[str, ...] = ()
    of: str = ""


def by_fate(domains: Iterable[Domain], fate_of: Callable[[Domain, int], Fate]) -> Wanted:
    """Whatever a plan is asked for about domains: none of them goes without being told.

    `fate_of` takes the number of changes before it.
    """
    changes: List[Change] = []
    left: List[str] = []
    together: Dict[Tuple[str, str], int] = Counter()
    in_place = more = 0
    for domain in domains:
        fate = fate_of(domain, len(changes))
        for reason in fate.reasons:
            if fate.of:
                together[fate.of, reason] += 1
            else:
                left.append(f"{domain.name}: {reason}")
        if fate.change is not None and len(changes) < CHANGES_MAX:
            changes.append(fate.change)
        elif fate.change is not None:
            more += 1
        elif not fate.reasons:
            in_place += len(domain.drives)
    counted = [
        f"{many(count, 'cache domain')} of {of}: {reason}"
        for (of, reason), count in sorted(together.items())
    ]
    if more:
        left.append(f"{more} more cache domains: plan again when this plan is done")
    return Wanted(tuple(changes), (*counted, *left), drives_in_place=in_place)


def within(domain: Domain, scope: Scope, cluster: ClusterState) -> bool:
    """Whether a domain is asked for; one of whose OSDs the cluster knows none is in any class."""
    asked = [osd_id for osd_id in domain.osd_ids if scope.has_osd(osd_id)]
    known = [cluster.osd_of(domain.report, osd_id) for osd_id in asked]
    classes = {osd.device_class for osd in known if osd is not None}
    return (
        (not scope.device_class or not classes or scope.device_class in classes)
        and scope.has_host(domain.report.hostname) and scope.has_osd(*domain.osd_ids)
        and scope.has_model(domain.drives[0].drive_model)
    )


def in_order(reports: Iterable[HostReport], cluster: ClusterState) -> List[Domain]:
    """All of them, those of one failure domain before those of the next."""
    found = []
    for report in reports:
        domains: Dict[str, List[DriveReport]] = defaultdict(list)
        for drive in report.drives:
            domains[drive.domain_id].append(drive)
        for drives in domains.values():
            ids = [use.osd_id for drive in drives for use in drive.uses]
            osd = cluster.osd_of(report, ids[0]) if ids else None
            where = failure_domains(osd, cluster) if osd else (f"host {report.hostname}",)
            found.append(Domain(where, report, tuple(drives)))
    return sorted(
        found, key=lambda one: (one.where, one.report.hostname, one.drives[0].domain_id)
    )
