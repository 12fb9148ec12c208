"""A campaign: which cache domains it measures, by which options.

Pure: it reads reports and the cluster's state and returns what is chosen; `schedule` makes the
runs.  A few drives per drive model are sampled, spread over hosts, not all of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import ClassVar, Dict, FrozenSet, Iterable, List, Mapping, Optional, Sequence, Tuple

from ..cluster import NOT_UP, SLOW_OPS, ClusterState, calm_first, in_turns
from ..codec import one_line
from ..drive.safety import may_toggle, refused, writeback_refusal
from ..errors import MalformedError, NotFoundError, RefusalKind, RefusedError, WcacheError
from ..hardware import WRITTEN_FOR, WRITTEN_MAX, Dirty, begins_nowhere
from ..host_report import HostReport, OfDrives, lost_models
from ..loads import WATCHED_MAX
from ..model import CacheMode, DriveModel, DriveReport, LoadPoint, Role
from ..options.entries import OptionTrial
from ..options.option import Option
from ..record import Precondition
from ..scope import WHOLE, Scope
from ..text import CommandLine, command, many, named, ticked

SHORT_NAMES = {
    point.short: point for point in LoadPoint if point is not LoadPoint.OSD_BENCH_CAPACITY
}
# Measured by the campaigns of one knob alone, which toggle nothing.
OWN_NAMES = {"capacity": LoadPoint.OSD_BENCH_CAPACITY}
# Stored with the campaign, so bounded: on a large cluster most lines say the same.
SKIPPED_MAX = 200
RUNS_MAX = 500


def parse_loads(text: str) -> Tuple[LoadPoint, ...]:
    """Load points from a comma-separated list of short or full names, without repeats."""
    known = {**SHORT_NAMES, **OWN_NAMES}
    full = {point.value: point for point in known.values()}
    points = []
    for name in text.split(","):
        point = known.get(name.strip()) or full.get(name.strip())
        if point is None:
            raise MalformedError(
                f"load {name.strip()[:40]!r} is not known",
                f"use a comma-separated list of {', '.join(SHORT_NAMES)}, or one of "
                f"{', '.join(OWN_NAMES)}",
            )
        points.append(point)
    found = tuple(dict.fromkeys(points))
    own = [name for name, point in OWN_NAMES.items() if point in found]
    if own and len(found) > 1:
        raise MalformedError(f"{own[0]} is measured by itself", f"use --loads={own[0]}")
    return found


@dataclass(frozen=True)
class CampaignOptions:
    """How a campaign measures; stored with it."""

    scope: str
    loads: Tuple[LoadPoint, ...]
    pairs_max: int = field(metadata={"min": 4, "max": 80})
    drives_per_model: int = field(metadata={"min": 1, "max": 1000})
    settle_s: float
    period_s: float
    latency_limit_ms: float
    seconds_max: float  # this and the next are of each experiment
    bytes_max: int
    consent_turn_on: bool = False
    forced: bool = False
    client_wait_max_s: float = 1e9
    same_share: float = 1.0
    observe: bool = False  # toggles nothing
    option: Optional[OptionTrial] = None  # what is compared in place of the cache modes
    dirty: Dirty = Dirty.ANY  # see RunSpec


@dataclass(frozen=True)
class Campaign:
    """The stored header of a campaign; its runs are stored beside it."""

    VERSION: ClassVar[int] = 1
    STORED_BY: ClassVar[str] = "campaign_id"
    campaign_id: str
    options: CampaignOptions
    created_at_s: float
    seed: int
    run_ids: Tuple[str, ...]
    skipped: Tuple[str, ...] = ()
    trial: bool = False  # made by `try`, which tells of it when it is called again
    by: str = "admin"  # who asked for it: an admin, or "auto"


@dataclass(frozen=True)
class Candidate(OfDrives):
    """A cache domain that a campaign could measure."""

    hostname: str
    domain_id: str
    drives: Tuple[DriveReport, ...]
    simulated: bool
    unsafe: str = ""  # why no more of what is acknowledged is brought onto its cache device

    @property
    def key(self) -> Tuple[str, str]:
        """Hostname and cache domain."""
        return self.hostname, self.domain_id

    @property
    def osd_ids(self) -> FrozenSet[int]:
        """Every OSD on its drives, in whatever role."""
        return frozenset(use.osd_id for drive in self.drives for use in drive.uses)

    @property
    def known_osds(self) -> FrozenSet[int]:
        """Those of them that the cluster knows: a simulated drive has none."""
        return self.osd_ids if self.real else frozenset()

    def stands_for(self, entry: Optional[Option]) -> Optional[int]:
        """The OSD that stands for it, whose switch all its OSDs share; None without one.

        Where an option of OSDs is compared it is one that has its data there.
        """
        any_role = entry is None or entry.on_host
        return min((
            use.osd_id for drive in self.drives for use in drive.uses
            if any_role or use.role is Role.BLOCK
        ), default=None)

    def starting_bytes(self, options: CampaignOptions) -> int:
        """What an experiment may write to bring bcache's dirty data to where it begins."""
        if options.dirty not in WRITTEN_FOR:
            return 0
        targets = [
            int((one.target_bytes or 0) * _target_grows(drive, options.option))
            for drive in self.drives for one in drive.bcache if not one.is_cache
        ]
        return WRITTEN_MAX * max(targets, default=0)


def _target_grows(drive: DriveReport, trial: Optional[OptionTrial]) -> float:
    """How many times as high the target of dirty data is where an option has its larger value."""
    if trial is None or trial.name != "writeback_percent":
        return 1.0
    now = drive.state.option(trial.name) or ""
    percent = int(now) if now.isdecimal() else 0
    return max(1.0, max(int(trial.a), int(trial.b)) / percent) if percent else 1.0


@dataclass(frozen=True)
class Selection:
    """Chosen domains, and why others in the scope were left out (one line each)."""

    chosen: Tuple[Candidate, ...]
    skipped: Tuple[str, ...]


@dataclass
class Sorted:
    """Cache domains by what can be done with them now.

    `off` are lines about those of which a consent to turn their caches on is all that is missing.
    `left_alone` are OSDs by what is wrong with them; `waits`: once they are well, a drive that is
    on can be measured.
    """

    by_model: Dict[DriveModel, List[Candidate]] = field(default_factory=lambda: defaultdict(list))
    skipped: List[str] = field(default_factory=list)
    off: List[str] = field(default_factory=list)
    left_alone: Dict[str, List[str]] = field(default_factory=lambda: defaultdict(list))
    waits: bool = False

    @property
    def all_off(self) -> bool:
        """Whether nothing is measured but by turning caches on."""
        return bool(self.off) and not self.by_model and not self.waits

    @property
    def passed_over(self) -> List[str]:
        """A line for each thing that is wrong with OSDs."""
        return [
            one_line(
                f"{many(len(osds), 'drive')} passed over, of which an OSD {why}: {named(osds)}",
                300,
            ) for why, osds in sorted(self.left_alone.items())
        ]


def sort_out(
    found: Iterable[Candidate],
    cluster: ClusterState,
    options: CampaignOptions,
    *,
    throwaway: bool,
    disputed: Mapping[Tuple[str, str], str] = {},
    gentle: bool = False,
) -> Sorted:
    """What of `found` can be measured, and why the rest cannot; the words are those of `select`."""
    sorts, consent = Sorted(), replace(options, consent_turn_on=True)
    bears = (Precondition.NO_SLOW_OPS,) if gentle else ()
    for candidate in found:
        why = disputed.get(candidate.key, "") if not options.observe else ""
        ill = {} if options.forced else cluster.illness(candidate.known_osds, bears)
        reason = why or ("" if ill else _why_not(candidate, cluster, options, throwaway))
        if reason:
            line = one_line(f"{candidate.hostname} {candidate.domain_id}: {reason}", 300)
            sorts.skipped.append(line)
            if not why and not _why_not(candidate, cluster, consent, throwaway):
                sorts.off.append(line)
        elif ill:
            osd_id, why = next(iter(ill.items()))
            sorts.left_alone[why].append(f"osd.{osd_id}")
            sorts.waits |= CacheMode.WRITE_THROUGH not in {one.mode for one in candidate.drives}
        else:
            sorts.by_model[candidate.drives[0].drive_model].append(candidate)
    return sorts


def turning_on(scope: str) -> CommandLine:
    """What measures drives whose caches are off, once an admin has agreed to turn them on."""
    if scope == WHOLE:
        return command("ceph wcache campaign start --consent-turn-on --dry-run")
    return command("ceph wcache campaign start --scope={} --consent-turn-on --dry-run", scope)


def candidates(
    reports: Iterable[HostReport], cluster: ClusterState, scope: Scope
) -> List[Candidate]:
    """Every cache domain in the scope, in a stable order."""
    found = []
    reports = tuple(reports)
    lost = lost_models(reports)
    for report in sorted(reports, key=lambda r: r.hostname):
        for domain_id, drives in sorted(report.domains.items()):
            if any(scope.covers(report, drive, cluster) for drive in drives):
                backing = any(not one.is_cache for drive in drives for one in drive.bcache)
                found.append(Candidate(
                    report.hostname, domain_id, tuple(drives), report.simulated,
                    writeback_refusal(report, drives, lost[report.simulated]) if backing else "",
                ))
    return found


def select(
    found: Sequence[Candidate],
    cluster: ClusterState,
    options: CampaignOptions,
    *,
    throwaway: bool,
    disputed: Mapping[Tuple[str, str], str] = {},
    gentle: bool = False,
    by_try: bool = False,
) -> Selection:
    """At most `drives_per_model` domains of each drive model, spread over hosts.

    `disputed`: by host and cache domain, why nothing is begun there.  `gentle`: what is measured
    goes on beside slow operations.
    OSDs that are not well are passed over, and those come last that move or get data, or that had
    slow operations in BlueStore where most of their drive model had none.

    Raises RefusedError where the drives that could be measured are not well, and NotFoundError
    where nothing in the scope can be measured, with the first reason.
    """
    sorts = sort_out(
        found, cluster, options, throwaway=throwaway, disputed=disputed, gentle=gentle
    )
    by_model, skipped = sorts.by_model, sorts.skipped + sorts.passed_over
    chosen: List[Candidate] = []
    for model in sorted(by_model, key=str):
        why_last = _sampled_last(by_model[model], cluster)
        first = (one for one in by_model[model] if one.key not in why_last)
        spread, getting = calm_first(
            in_turns(first, lambda one: one.hostname),
            lambda one: one.known_osds, options.drives_per_model, cluster,
        )
        behind = (one for one in by_model[model] if one.key in why_last)
        spread += [*getting, *in_turns(behind, lambda one: one.hostname)]
        why_last.update(dict.fromkeys((one.key for one in getting), "may get data"))
        chosen += spread[: options.drives_per_model]
        left = spread[options.drives_per_model:]
        if left:
            of_it = "drive of this model is" if len(left) == 1 else "drives of this model are"
            of_last = Counter(why_last[one.key] for one in left if one.key in why_last)
            last = ", ".join(f"{count} {why}" for why, count in sorted(of_last.items()))
            skipped.append(
                f"{model}: {len(left)} more {of_it} not sampled"
                + (last and f" (those that come last: {last})")
            )
    if not chosen:
        raise _nothing(sorts, options, gentle=gentle, by_try=by_try)
    if len(chosen) > RUNS_MAX:
        raise MalformedError(
            f"this would measure {len(chosen)} cache domains; the limit is {RUNS_MAX}",
            "narrow the scope, or lower --drives-per-model",
        )
    if len(skipped) > SKIPPED_MAX:
        skipped[SKIPPED_MAX:] = [f"and {len(skipped) - SKIPPED_MAX} more"]
    return Selection(tuple(chosen), tuple(skipped))


def _sampled_last(
    candidates_: Sequence[Candidate], cluster: ClusterState
) -> Dict[Tuple[str, str], str]:
    """Why some drives of a model are sampled last, by their keys.

    Where most of a model have the alert it is dear flushes that raise it: the very ones to measure.
    """
    slow = {one.osd_id for one in cluster.slow_osds}
    busy = cluster.busy or frozenset()
    alerted = [one.key for one in candidates_ if one.known_osds & slow]
    few = 2 * len(alerted) <= len(candidates_)
    found = dict.fromkeys(alerted, "had slow operations in BlueStore") if few else {}
    return {**found, **{one.key: "move data" for one in candidates_ if one.known_osds & busy}}


def _nothing(
    sorts: Sorted, options: CampaignOptions, *, gentle: bool, by_try: bool
) -> WcacheError:
    """Why no drive is measured, by what would change that."""
    turn_on = f"agree to turn caches on for it: {ticked(turning_on(options.scope))}"
    if sorts.left_alone and not sorts.all_off:
        ways = ["wait until they are well"]
        if not gentle and {*sorts.left_alone} == {SLOW_OPS}:
            ways.insert(0, "measure with --loads=traffic, with --observe or by `ceph wcache try`, "
                           "which go on beside them")
        if not by_try and {*sorts.left_alone} != {NOT_UP}:
            ways.append("use --override=cluster_healthy (the records are then never pooled)")
        ways += [turn_on] if sorts.off else []
        return RefusedError(
            f"no drive is measured now ({sorts.passed_over[0]})", ", or ".join(ways)
        )
    whys = [*sorts.off, *sorts.skipped, f"no drive is in scope {options.scope}"]
    ways = ["see `ceph wcache drive ls`"]
    if sorts.skipped and not options.observe:
        ways.insert(0, "measure what is there: `ceph wcache campaign start --observe`")
    ways = [turn_on, *ways] if sorts.off else ways
    return NotFoundError(f"nothing can be measured ({whys[0]})", "; ".join(ways))


def _why_not(
    candidate: Candidate, cluster: ClusterState, options: CampaignOptions, throwaway: bool
) -> Optional[str]:
    reason = None
    for drive in () if options.observe else candidate.drives:
        mode = drive.mode
        if mode is None:
            return f"{drive.dev_name}: its cache state is {drive.state.device_cache.value}"
        if options.option is not None:
            reason = reason or _keeps_its_options(drive, options.option.entry)
            reason = reason or begins_nowhere(drive.bcache, options.dirty)
            reason = reason or (candidate.unsafe if options.dirty in WRITTEN_FOR else "")
            continue
        reason = reason or may_toggle(
            [drive], mode.other, throwaway=throwaway, consent_turn_on=options.consent_turn_on
        )
    if reason:
        return reason
    osd_ids = candidate.osd_ids
    if options.option is not None and not options.option.entry.on_host:
        reason = _osd_keeps_it(candidate, cluster, options.option.entry)
        if reason:
            return reason
    if not osd_ids and candidate.real:
        return "no OSD uses it"
    if len(osd_ids) > WATCHED_MAX and not options.observe:
        return f"{len(osd_ids)} OSDs share it, more than the {WATCHED_MAX} that can be watched"
    return cluster.not_up(candidate, osd_ids) or None


def _keeps_its_options(drive: DriveReport, entry: Option) -> Optional[str]:
    """Why an option of a drive is not changed; nor pin nor cache mode matters."""
    if not entry.on_host:
        return None
    if drive.state.option(entry.name) is None:
        return f"{drive.dev_name} has no {entry.name}, or its probe does not report it"
    why = refused(drive, {RefusalKind.NOT_PREPARED, RefusalKind.DISOBEYED})
    return f"{drive.dev_name}: {why}" if why else None


def _osd_keeps_it(
    candidate: Candidate, cluster: ClusterState, entry: Option
) -> Optional[str]:
    """Why an option of the OSD whose data a drive holds is not changed."""
    if not candidate.real:
        return f"{entry.name} is an option of an OSD, and a simulated one has none"
    osd_id = candidate.stands_for(entry)
    if osd_id is None:
        return "no OSD has its data on it"
    osd = cluster.osds.get(osd_id)
    if osd is not None and entry.rotational not in (None, osd.rotational):
        kind = "rotates" if osd.rotational else "does not rotate"
        return f"the drive of osd.{osd_id} {kind}: {entry.name} does nothing there"
    return None
