"""What a knob is to the rest: its name, the options it goes by, what a plan of it is.

The cache domains of hosts in the order in which plans go through them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from importlib import import_module
from typing import (
    Any,
    Callable,
    Dict,
    FrozenSet,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

from ..core.change.change import Change
from ..core.change.rollout_state import Rollout
from ..core.cluster import ClusterState, failure_domains
from ..core.host_report import HostReport
from ..core.model import DriveReport, FindingCode
from ..core.scope import Scope
from ..core.setting.setting import CacheDomain
from ..core.text import many

# Changes of one plan: as many as a large cluster has drives.
CHANGES_MAX = 12_000


@dataclass(frozen=True)
class Knob:
    """Something that wcache observes, tries, recommends and changes.

    `options` are those of the config database that it reads or sets; the cache mode has none.
    `advice` says of each finding code of its own what is wrong, for `ceph health`, and what to do.
    `together`: `plan --knob=all` has it.  `assigns`: `plan --option` may name
    what it changes.
    """

    name: str
    options: Tuple[str, ...] = ()
    advice: Tuple[Tuple[FindingCode, str, str], ...] = ()
    together: bool = True
    assigns: bool = False

    @property
    def room(self) -> Any:
        """What of it runs in a mgr: `make` its planner, and ROWS of the table of commands."""
        return import_module(f"{__package__}.{self.name}.mgr.room")


@dataclass(frozen=True)
class Asked:
    """What a plan is asked for.

    `nonce` is random and makes the ids of actions unique for ever: a journal may still have
    an entry of a plan that had the same number.  `take_over` are hosts of which somebody else
    sets the values by itself, and is to leave them.  `by_itself`: no admin asks for it.
    `option`: OPTION=VALUE, where an admin names what is to be changed.
    """

    plan_id: str = ""
    nonce: str = ""
    scope: Scope = Scope()  # noqa: RUF009  frozen
    consent_turn_on: bool = False
    persist: bool = False
    only: Optional[FrozenSet[Tuple[str, str]]] = None  # these hosts and cache domains
    take_over: Tuple[str, ...] = ()
    by_itself: bool = False
    option: str = ""
    # by host and cache domain, why they are left out: an admin named them, or they are disputed
    without: Mapping[Tuple[str, str], str] = field(default_factory=dict)
    first: int = 0  # how many changes the plan has before those that are asked for

    def wants(self, host: str, device_class: str) -> bool:
        """Whether a device class of a host is asked for, with any of its cache domains."""
        named = self.only is None or any(name == host for name, _ in self.only)
        return named and self.scope.has_host(host) and self.scope.has_class(device_class)

    def action_id(self, index: int) -> str:
        """The id of a change by its place among those that are asked for."""
        return f"{self.plan_id}.{self.first + index}.{self.nonce}"


@dataclass(frozen=True)
class Wanted:
    """Changes in the order they will be made, the canary first; what is left alone, a line each.

    `remember` keeps what a knob wants kept beside the plan.  It is called with the changes that
    the plan has, none where there is no plan, and not at all by a dry run.  `drives_in_place` are
    as they should be; None where a knob does not go drive by drive.  `doubts` are about what is
    changed all the same.
    """

    changes: Tuple[Change, ...]
    left_alone: Tuple[str, ...] = ()
    remember: Callable[[Sequence[Change]], None] = lambda changes: None
    drives_in_place: Optional[int] = None
    doubts: Tuple[str, ...] = ()


def option_names(knobs: Iterable[Knob]) -> Tuple[str, ...]:
    """All options of the config database that some knob goes by."""
    return tuple(dict.fromkeys(name for knob in knobs for name in knob.options))


def knobs_of(rollout: Rollout) -> Tuple[str, ...]:
    """The names of the knobs that a plan changes."""
    return tuple(dict.fromkeys(change.setting.knob for change in rollout.changes))


class Domain(NamedTuple):
    """A cache domain with its failure domains, the widest first, and its host's report."""

    where: Tuple[str, ...]
    report: HostReport
    drives: Tuple[DriveReport, ...]

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
                left.append(f"{domain.planned.name}: {reason}")
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
        for drives in report.domains.values():
            ids = [use.osd_id for drive in drives for use in drive.uses]
            osd = cluster.osd_of(report, ids[0]) if ids else None
            where = failure_domains(osd, cluster) if osd else (f"host {report.hostname}",)
            found.append(Domain(where, report, tuple(drives)))
    return sorted(
        found, key=lambda one: (one.where, one.report.hostname, one.drives[0].domain_id)
    )
