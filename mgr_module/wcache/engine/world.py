"""What there is at one moment: the frozen value that views, guards or planners go by.

`Engine.world` makes one: the engine's lock is held only for that.  The maps are fetched and what
follows is worked out on first use, once, and without the lock.  A test makes one by hand, with no
engine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import (
    Any,
    Callable,
    Dict,
    FrozenSet,
    Generic,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
)

from ..core.change.change import Change
from ..core.change.history import FoundWorse, marked
from ..core.change.rollout_state import Rollout
from ..core.cluster import ClusterState, OsdNow
from ..core.config_database import Config
from ..core.drive.journal import Acceptance
from ..core.drive.proofs import AcceptedProof
from ..core.experiment.campaign import Campaign
from ..core.experiment.forecast import ExpectedPairs, expected_pairs
from ..core.fleet.agents import Agent, Blocked, OtherVersion
from ..core.fleet.claims import believed, osds_now
from ..core.fleet.disputes import Dispute, Key, disputes
from ..core.hardware import HostMemory
from ..core.host_report import DriveKind, HostReport
from ..core.jobs import Holding, Touched, Trial
from ..core.model import DriveReport
from ..core.verdict.foreign import Evidence, ForeignVerdict
from ..core.verdict.hosts_by_model import hosts_by_model
from ..core.verdict.option_choice import OptionVerdict, option_verdicts
from ..core.verdict.recommend import OsdProfiles, Recommendation, recommend
from ..core.verdict.result import Result, TrustedModel, lifted
from ..deployment.places import Deployment
from ..options import Options
from .under_way import Rollouts, Runs, domains_taken, leased, open_jobs, taken

__all__ = ["Once", "World"]
T = TypeVar("T")
# See Planner.objection.
Objection = Callable[[Rollout, bool, Any], str]


class Once(Generic[T]):
    """A property that is worked out when it is asked for first, and holds no lock meanwhile.

    `functools.cached_property` has one lock for all instances before Python 3.12: whoever
    works something out waits for the engine's lock in it, and whoever has that lock would
    wait for it.
    """

    def __init__(self, work: Callable[[Any], T]) -> None:
        self._work = work
        self.__doc__ = work.__doc__

    def __get__(self, world: Any, owner: object = None) -> T:
        # the value in the instance comes before this
        found = self._work(world)
        world.__dict__[self._work.__name__] = found
        return found


_ADVICE_FOLLOWS_FROM = ("options", "reports", "results", "trusted", "accepted")


@dataclass(frozen=True, eq=False)
class World:
    """The cluster and all that wcache knows of it at one moment.

    `maps` and `loads` fetch the cluster's maps and what OSDs carry, by device class and drive
    model.
    A host that is not in `reported_at_s` is asked for a report next: its last one may tell of
    what was there before.  Until `awaited_until_s` others wait for that.  `only_stored` are hosts
    whose probe has not called since this mgr started.  `blocked` is what probes that call wait for.
    `host_memory` is what hosts whose memory is watched have told, and when.  `trials`
    are the last of each knob that tries by itself, by id.  `reserved` is what has OSDs for itself
    and is neither run nor plan.  `awaited` are campaigns
    of which a record is still to be stored or analysed.  `acceptances` are what an admin has
    accepted and probes have still to drop, by domain.  `trouble` is why the mons do not store what
    is begun, and `store_error` what they have refused.
    """

    now_s: float
    maps: Callable[[], ClusterState]
    loads: Callable[[], OsdProfiles] = dict
    options: Options = Options()  # noqa: RUF009  frozen
    reports: Mapping[str, HostReport] = field(default_factory=dict)
    reported_at_s: Mapping[str, float] = field(default_factory=dict)
    journal_known: FrozenSet[str] = frozenset()
    host_memory: Mapping[str, Tuple[float, HostMemory]] = field(default_factory=dict)
    agents: Tuple[Agent, ...] = ()
    only_stored: FrozenSet[str] = frozenset()
    other_versions: Tuple[OtherVersion, ...] = ()
    deployments: Mapping[str, Deployment] = field(default_factory=dict)
    runs: Runs = field(default_factory=dict)
    rollouts: Rollouts = field(default_factory=dict)
    trials: Mapping[str, Trial] = field(default_factory=dict)
    campaigns: Mapping[str, Campaign] = field(default_factory=dict)
    awaited: FrozenSet[str] = frozenset()
    all_results: Mapping[str, Result] = field(default_factory=dict)
    trusted: Tuple[TrustedModel, ...] = ()
    accepted: Tuple[AcceptedProof, ...] = ()
    acceptances: Mapping[Key, Acceptance] = field(default_factory=dict)
    foreign: Mapping[str, Evidence] = field(default_factory=dict)
    frozen: bool = False
    reserved: Tuple[Holding, ...] = ()
    broken: Mapping[str, str] = field(default_factory=dict)
    trouble: str = ""
    store_error: str = ""
    unreadable: Mapping[str, str] = field(default_factory=dict)
    analysis_error: str = ""
    unticked_s: float = 0.0
    config: Config = Config(())  # noqa: RUF009  frozen
    config_read_at_s: Optional[float] = None
    config_error: str = ""
    blocked: Mapping[str, Blocked] = field(default_factory=dict)
    objections: Mapping[str, Objection] = field(default_factory=dict)
    awaited_until_s: Mapping[str, float] = field(default_factory=dict)

    @Once
    def cluster(self) -> ClusterState:
        """The cluster's maps: those of a big cluster take a moment, and not all need them."""
        return self.maps()

    # ---- hosts

    @Once
    def real_reports(self) -> Tuple[HostReport, ...]:
        """Those of real hosts, whose drives and OSDs are not made up."""
        return tuple(report for report in self.reports.values() if report.real)

    @Once
    def believed_reports(self) -> Tuple[HostReport, ...]:
        """The reports, each with those OSDs alone that its host speaks for."""
        return tuple(believed(self.reports.values(), self.cluster))

    @Once
    def believed_real(self) -> Tuple[HostReport, ...]:
        """The same of real hosts alone."""
        return tuple(report for report in self.believed_reports if report.real)

    @Once
    def told_by(self) -> Mapping[int, str]:
        """By OSD the name that a probe has for its host, which need not be Ceph's."""
        return {
            use.osd_id: report.hostname for report in self.believed_real
            for drive in report.drives for use in drive.uses
        }

    @Once
    def osds_now(self) -> Dict[int, OsdNow]:
        """Each OSD, with the drives that are under it now."""
        return osds_now(self.reports.values(), self.cluster)

    def drives_of(self, change: Change) -> Sequence[DriveReport]:
        """The drives of a change, as last reported; none where no probe has a part in it."""
        report = self.reports.get(change.hostname)
        return report.domains.get(change.domain_id, ()) if report is not None else ()

    def agent(self, hostname: str) -> Optional[Agent]:
        """The probe that speaks for a host."""
        return next((item for item in self.agents if item.hostname == hostname), None)

    def unreported(self, *, waited_for: bool) -> List[str]:
        """Hosts that are heard and have still to report, since something ended on them.

        Those that others still wait for, or those that it has taken too long.
        """
        heard = {agent.hostname for agent in self.agents if not agent.silent(self.now_s)}
        missing = (heard & set(self.reports)) - set(self.reported_at_s)
        return sorted(
            name for name in missing
            if (self.now_s < self.awaited_until_s.get(name, math.inf)) is waited_for
        )

    @property
    def not_heard(self) -> List[str]:
        """The hosts with a probe that has not reported yet, or that is silent."""
        silent = {agent.hostname for agent in self.agents if agent.silent(self.now_s)}
        known = {*self.deployments, *(agent.hostname for agent in self.agents)}
        return sorted((known - set(self.reports)) | silent)

    # ---- what is under way

    @property
    def open_campaign(self) -> str:
        """The campaign of which a run is not over, or ""."""
        return next((self.runs[run_id].spec.campaign_id for run_id in self.open_runs), "")

    @property
    def open_plan(self) -> str:
        """The plan that was begun and is not over, or ""."""
        return next(iter(self.open_plans), "")

    @property
    def open_runs(self) -> List[str]:
        return open_jobs(self.runs)

    @property
    def open_plans(self) -> List[str]:
        """Plans that were begun and are not over."""
        return open_jobs(self.rollouts)

    @property
    def occupied(self) -> str:
        """What a campaign would wait for as a whole, in words, or ""."""
        if self.some_are_left:
            return ""
        held = (each.words for each in self.reserved)
        return f"plan {self.open_plan}" if self.open_plan else next(held, "")

    @Once
    def of_plans(self) -> Mapping[Key, str]:
        """By host and cache domain: which plan or trial that is not over has it for itself."""
        return domains_taken(self.reports, self.taken)

    @Once
    def taken(self) -> Sequence[Tuple[str, Touched]]:
        """What plans and trials that are not over have for themselves, each with its words."""
        return taken(self.rollouts, self.reserved, lambda: self.cluster)

    @Once
    def some_are_left(self) -> bool:
        """Whether plans and trials that are not over leave a drive to others."""
        return any(
            (report.hostname, drive.domain_id) not in self.of_plans
            for report in self.reports.values() for drive in report.drives
        )

    @Once
    def leased(self) -> FrozenSet[Key]:
        return leased(self.runs)

    @Once
    def changing(self) -> FrozenSet[Key]:
        """The cache domains of plans that are not over: mixed modes are their very purpose."""
        return frozenset(
            (change.hostname, change.domain_id) for plan_id in open_jobs(self.rollouts)
            for change in self.rollouts[plan_id].rollout.drive_changes
        )

    @Once
    def disputes(self) -> Tuple[Dispute, ...]:
        """Cache domains whose prior state is owed or lost: nothing is begun on them."""
        return disputes(
            (m.state for m in self.runs.values()), self.plans, self.reports, self.cluster.fsid,
            self.reported_at_s,
        )

    def objection(self, rollout: Rollout, back: bool = False) -> str:
        """Why a knob is against what is left of a plan, or against its way back; else ""."""
        found = (against(rollout, back, self) for against in self.objections.values())
        return next(filter(None, found), "")

    @property
    def plans(self) -> Sequence[Rollout]:
        return [machine.rollout for machine in self.rollouts.values()]

    # ---- verdicts

    @Once
    def results(self) -> Mapping[str, Result]:
        """Those about cache modes, which advice about them goes by."""
        return {key: found for key, found in self.all_results.items() if found.option is None}

    @Once
    def real_results(self) -> List[Result]:
        """The same of real drives alone."""
        return [found for found in self.results.values() if found.real]

    @Once
    def expected_pairs(self) -> ExpectedPairs:
        """When experiments are expected to end, by those that have."""
        return expected_pairs(
            (r.drive_model, r.load_point, r.pairs) for r in self.results.values()
        )

    @property
    def has_advice(self) -> bool:
        """Whether recommendations are worked out already."""
        return "_recommendations" in self.__dict__

    def advised(self) -> World:
        """The same, with what takes long worked out now: no lock is held yet."""
        _ = self.recommendations
        return self

    def taking_over(self, before: World) -> World:
        """The same, with the advice of an earlier look where all that it follows from stands."""
        if all(getattr(self, name) == getattr(before, name) for name in _ADVICE_FOLLOWS_FROM):
            for name in ("believed_reports", "believed_results", "_recommendations"):
                if name in before.__dict__:
                    self.__dict__[name] = before.__dict__[name]
        return self

    @Once
    def believed_results(self) -> Tuple[Result, ...]:
        """All results, with what an admin vouches for."""
        models = {item.drive_model for item in self.trusted}
        found = self.results.values()
        return tuple(lifted(item, models) for item in found) if models else tuple(found)

    # They are read as those of a Protocol, `Verdicts`: Ceph's mypy (1.9) takes properties alone.

    @property
    def recommendations(self) -> Tuple[Recommendation, ...]:
        """What should be, from all results and the loads that are known."""
        return self._recommendations

    @property
    def option_verdicts(self) -> Tuple[OptionVerdict, ...]:
        """What is known of options' values, by class, drive model and load."""
        return self._option_verdicts

    @Once
    def _recommendations(self) -> Tuple[Recommendation, ...]:
        reports, throwaway = self.believed_reports, self.options.throwaway_cluster
        homes = hosts_by_model(reports, self.cluster, throwaway=throwaway)
        return recommend(self.believed_results, self.loads(), homes, reports, self.accepted)

    @Once
    def _option_verdicts(self) -> Tuple[OptionVerdict, ...]:
        homes = hosts_by_model(
            self.believed_reports, self.cluster, switchable=False,
            throwaway=self.options.throwaway_cluster,
        )
        return tuple(option_verdicts(tuple(self.all_results.values()), homes))

    @property
    def foreign_verdicts(self) -> List[Tuple[str, ForeignVerdict]]:
        """Every imported verdict with the cluster that it came from."""
        return [
            (cluster, verdict) for cluster, file in sorted(self.foreign.items())
            for verdict in file.verdicts
        ]

    @Once
    def marks(self) -> Dict[DriveKind, FoundWorse]:
        """Kinds of drives that were found to be worse in a mode, by the newest plan that did."""
        return marked(self.plans, self.results.values())
