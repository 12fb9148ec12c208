"""The runs of a campaign: which experiments each chosen cache domain gets.

Where a campaign covers both the block drive of an OSD and the drive of its DB or WAL, the
loads that touch both are measured as a 2x2 factorial in a run of its own, in place of an
experiment on each: of an OSD's commit latency neither drive's part can be told without the
other's mode.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Dict, FrozenSet, Iterable, List, Mapping, Optional, Sequence, Set, Tuple

from ..cluster import ClusterState, OsdInfo, flush_role, roles_of, touches
from ..loads import CHECK_SAMPLES, SAMPLES
from ..model import DriveReport, LoadPoint, Role
from ..record import CrossedDrive, ExperimentSetup
from .campaign import CampaignOptions, Candidate, Selection
from .factorial import PAIRS_PER_REPLICATE
from .run_state import RunSpec

Key = Tuple[str, str]
"""Hostname and cache domain."""

# What `try` measures.
TRY_LOADS = "traffic,depth1"
# Two, since the reports of one host are one host's word; and no more, since it is a try.
TRY_DRIVES_PER_MODEL = 2
# Drive seconds of an experiment: a clear case takes a fraction of that.
TRY_SECONDS_MAX = 60.0
# A period has to have the commits that count as a measurement with something to spare.
SPARE = 2.0


@dataclass(frozen=True)
class Crossing:
    """Two chosen cache domains of one OSD, and the loads that touch both."""

    osd_id: int
    block: Candidate
    other: Candidate
    loads: Tuple[LoadPoint, ...]


def make_runs(
    campaign_id: str,
    selection: Selection,
    cluster: ClusterState,
    options: CampaignOptions,
    *,
    seed: int,
    throwaway: bool,
    nonce: str,
    first: int = 0,
) -> Tuple[RunSpec, ...]:
    """The runs of a campaign: one for each chosen cache domain, and one for each crossing.

    `first` is the number of the first one.

    `nonce` is random and makes the ids of leases unique for ever: a journal may still have
    an entry of a run that had the same number in another life of the cluster.
    """
    runs: List[RunSpec] = []

    def add(candidate: Candidate, osd_id: int, crossing: Optional[Crossing]) -> None:
        run_id = f"{campaign_id}.{first + len(runs)}"
        osd = osds[(candidate.hostname, osd_id)]
        loads = crossing.loads if crossing else _alone(candidate, crossed, options)
        experiments = tuple(
            _setup(candidate, osd, load_point, cluster, options, run_id, seed, throwaway, crossing)
            for load_point in loads
            if crossing or of_osd or touches(load_point, _roles(candidate, osd_id), osd)
        )
        starting_bytes = candidate.starting_bytes(options)
        if experiments:
            runs.append(
                RunSpec(
                    run_id, campaign_id, candidate.hostname, candidate.domain_id,
                    f"lease.{run_id}.{nonce}", experiments, options.latency_limit_ms,
                    options.seconds_max, options.bytes_max + starting_bytes, candidate.simulated,
                    throwaway,
                    options.consent_turn_on, missed, options.forced,
                    options.client_wait_max_s, options.same_share,
                    beside=_beside(candidate, osd_id, crossing),
                    dirty=options.dirty, starting_bytes=starting_bytes,
                )
            )

    # what is borne comes and goes: a run notes whether it saw any
    missed = cluster.missed if options.forced else cluster.blocking
    osds = _osds(selection.chosen, cluster)
    # such an option is in the way of all that its OSD writes, whichever drive that goes to
    of_osd = options.option is not None and not options.option.entry.on_host
    alone = options.observe or options.option is not None
    crossed = () if alone else crossings(selection.chosen, osds, options)
    for candidate in selection.chosen:
        osd_id = candidate.stands_for(options.option.entry if options.option else None)
        if osd_id is None:
            continue
        add(candidate, osd_id, None)
        for crossing in crossed:
            if crossing.block is candidate:
                add(candidate, osd_id, crossing)
    return tuple(runs)


def crossings(
    chosen: Sequence[Candidate], osds: Mapping[Tuple[str, int], OsdInfo], options: CampaignOptions
) -> Tuple[Crossing, ...]:
    """At most one crossing for each drive: a DB drive of many OSDs is crossed with one."""
    by_osd: Dict[Tuple[str, int], List[Candidate]] = defaultdict(list)
    for candidate in chosen:
        for drive in candidate.drives:
            for osd_id in sorted({use.osd_id for use in drive.uses}):
                by_osd[(candidate.hostname, osd_id)].append(candidate)
    found: List[Crossing] = []
    taken: Set[Key] = set()
    for (_, osd_id), both in sorted(by_osd.items()):
        if len(both) != len({one.key for one in both}) or len(both) != PAIRS_PER_REPLICATE:
            continue
        block, other = sorted(both, key=lambda one: Role.BLOCK not in _roles(one, osd_id))
        osd = osds[(block.hostname, osd_id)]
        loads = tuple(
            load_point for load_point in options.loads
            if load_point is not LoadPoint.FDATASYNC_TIMER
            and touches(load_point, _roles(block, osd_id), osd)
            and touches(load_point, _roles(other, osd_id), osd)
        )
        alone = _roles(block, osd_id) == (Role.BLOCK,) and Role.BLOCK not in _roles(other, osd_id)
        third = osd.dedicated_wal and Role.WAL not in _roles(other, osd_id)
        free = block.stands_for(None) == osd_id and not taken & {block.key, other.key}
        if loads and alone and free and not third:
            taken |= {block.key, other.key}
            found.append(Crossing(osd_id, block, other, loads))
    return tuple(found)


def _osds(chosen: Sequence[Candidate], cluster: ClusterState) -> Dict[Tuple[str, int], OsdInfo]:
    """By host and id every OSD on these drives; a simulated one as its drives tell of it."""
    found: Dict[Tuple[str, int], OsdInfo] = {}
    uses: Dict[Tuple[str, int], List[Tuple[Role, DriveReport]]] = defaultdict(list)
    for candidate in chosen:
        for drive in candidate.drives:
            for use in drive.uses:
                key = (candidate.hostname, use.osd_id)
                known = cluster.osd_of(candidate, use.osd_id)
                if known is not None:
                    found[key] = known
                uses[key].append((use.role, drive))
    for key, held in uses.items():
        block = next((drive for role, drive in held if role is Role.BLOCK), held[0][1])
        apart = {role for role, drive in held if drive.domain_id != block.domain_id}
        found.setdefault(key, OsdInfo(
            key[1], key[0], _default_class(block), True, cluster.ceph_version, "",
            Role.DB in apart, Role.WAL in apart, bool(block.rotational),
        ))
    return found


def _default_class(block: DriveReport) -> str:
    """The device class that Ceph gives an OSD on such a drive by itself."""
    if block.rotational:
        return "hdd"
    return "nvme" if block.dev_name.replace("sim-", "").startswith("nvme") else "ssd"


def _roles(candidate: Candidate, osd_id: int) -> Tuple[Role, ...]:
    held = {role for drive in candidate.drives for role in roles_of(drive, osd_id)}
    return tuple(role for role in (Role.BLOCK, Role.DB, Role.WAL) if role in held)


def _beside(
    candidate: Candidate, osd_id: int, crossing: Optional[Crossing]
) -> Tuple[int, ...]:
    """The other OSDs on the cache domains that a run toggles."""
    toggled = (candidate,) if crossing is None else (crossing.block, crossing.other)
    if not candidate.real:
        return ()  # the mgr knows nothing of a simulated OSD
    return tuple(sorted(set().union(*(one.osd_ids for one in toggled)) - {osd_id}))


def _drive(candidate: Candidate, osd_id: int) -> DriveReport:
    return next(
        drive for drive in candidate.drives if any(use.osd_id == osd_id for use in drive.uses)
    )


def _alone(
    candidate: Candidate, crossed: Sequence[Crossing], options: CampaignOptions
) -> Tuple[LoadPoint, ...]:
    """The loads at which a candidate is measured by itself."""
    elsewhere = {
        load_point for crossing in crossed if candidate in (crossing.block, crossing.other)
        for load_point in crossing.loads
    }
    return tuple(load_point for load_point in options.loads if load_point not in elsewhere)


def _setup(
    candidate: Candidate,
    osd: OsdInfo,
    load_point: LoadPoint,
    cluster: ClusterState,
    options: CampaignOptions,
    run_id: str,
    seed: int,
    throwaway: bool,
    crossing: Optional[Crossing],
) -> ExperimentSetup:
    osd_id = osd.osd_id
    drive = _drive(candidate, osd_id)
    apart = ((Role.DB, osd.dedicated_db), (Role.WAL, osd.dedicated_wal))
    digest = hashlib.sha256(f"{seed} {run_id} {load_point.value}".encode()).digest()
    setup = ExperimentSetup(
        cluster.fsid, osd.ceph_version, candidate.hostname, osd_id, osd.device_class,
        flush_role(roles_of(drive, osd_id)), load_point, candidate.domain_id, drive.drive_id,
        drive.drive_model, drive.transport, SAMPLES[load_point],
        options.period_s if load_point is LoadPoint.OSD_TRAFFIC else 0.0,
        options.settle_s, int.from_bytes(digest[:4], "big"), options.pairs_max,
        drive.rotational, candidate.simulated, throwaway,
        watch_samples=CHECK_SAMPLES[load_point],
        apart=tuple(role for role, dedicated in apart if dedicated), option=options.option,
    )
    if crossing is None:
        return setup
    other = _drive(crossing.other, osd_id)
    return replace(
        setup,
        # what two experiments might have taken
        pairs_max=PAIRS_PER_REPLICATE * options.pairs_max,
        crossed=CrossedDrive(
            crossing.other.domain_id, other.drive_id, other.drive_model, other.transport,
            flush_role(roles_of(other, osd_id)), other.rotational,
        ),
    )


@dataclass(frozen=True)
class TrySample:
    """How often OSDs commit, in a second, and how often is enough to be measured by."""

    commits_per_s: Mapping[int, float]
    enough_per_s: float

    def is_busy(self, osd_ids: Iterable[int]) -> bool:
        """Whether these OSDs of one cache domain commit so often between them."""
        return sum(self.commits_per_s.get(one, 0.0) for one in osd_ids) >= self.enough_per_s

    @property
    def busy_osds(self) -> FrozenSet[int]:
        """The OSDs that do so each by itself."""
        return frozenset(one for one in self.commits_per_s if self.is_busy([one]))


def enough_traffic_per_s(period_s: float, commits_min: int) -> float:
    """How often OSDs must commit, in a second, so that their own traffic can be measured."""
    return SPARE * commits_min / period_s


def cheapest(
    runs: Sequence[RunSpec], options: CampaignOptions, sample: TrySample
) -> Tuple[Tuple[RunSpec, ...], CampaignOptions]:
    """Of each run the experiments at its OSDs' cheapest load that can answer, as `try` takes them.

    Clients' own traffic costs nothing and is the true load, so it is taken where there is
    enough of it; one write at a time is taken elsewhere.  Runs with neither are left out.
    Simulated OSDs have no clients that a mgr would know of.
    """
    kept = []
    for run in runs:
        experiments = tuple(
            setup for setup in run.experiments
            if setup.load_point is (
                LoadPoint.OSD_TRAFFIC
                if sample.is_busy((setup.osd_id, *run.beside)) and not run.measured_by_probe
                else LoadPoint.OSD_BENCH_DEPTH1
            )
        )
        if experiments:
            seconds_max = min(run.seconds_max, TRY_SECONDS_MAX)
            kept.append(
                replace(run, experiments=experiments, seconds_max=seconds_max, trial=True)
            )
    loads = tuple(
        load for load in options.loads
        if any(setup.load_point is load for run in kept for setup in run.experiments)
    )
    return tuple(kept), replace(
        options, loads=loads, seconds_max=min(options.seconds_max, TRY_SECONDS_MAX)
    )
