"""What the module knows of the cluster's OSDs, with the roles that drives play for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from typing import (
    Any,
    Callable,
    Collection,
    Dict,
    FrozenSet,
    Iterable,
    List,
    Mapping,
    Optional,
    Protocol,
    Set,
    Tuple,
    TypeVar,
)

from .host_report import MayBeSimulated
from .model import DriveReport, LoadPoint, Role
from .record import RECORDED, Precondition

IN_WORK = "has a flag such as noout, or its host is in maintenance"
NOT_UP = "is not up and in"
SLOW_OPS = "has slow operations (SLOW_OPS)"
T = TypeVar("T")
# Names that others wrote, as the mgr's maps have them: whoever has an OSD's key writes what its
# metadata says (MonCap.cc, profile osd), and a CRUSH map that is set whole may hold any name.
# A host name has at most 253 characters (RFC 1035); a container image is a host, a path and a
# digest.
NAME_CHARS_MAX, IMAGE_CHARS_MAX = 253, 1024


def map_name(said: Any, chars_max: int = NAME_CHARS_MAX) -> str:
    """A name on one line, without controls, escapes and marks that turn the direction of text.

    What was unprintable is a question mark, and so is what was cut off: a name that had either
    is never that of an honest host.
    """
    text = said if isinstance(said, str) else ""
    if len(text) > chars_max:
        text = text[: chars_max - 1] + "?"
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else "?" for char in text)


def of_metadata(meta: Mapping[str, Any], field: str, chars_max: int = NAME_CHARS_MAX) -> str:
    """A field of an OSD's metadata; empty where there is none."""
    return map_name(meta.get(field), chars_max)


@dataclass(frozen=True)
class OsdInfo:
    """One OSD of the osd map, with what its metadata says.

    `location` are the CRUSH buckets over it as (type, name), the innermost first; empty
    where the map was not there to say.  `uuid` is the OSD's own: one that is made anew under
    an old id has another one (OSDMap::dump, `osds`).  `up_from` is the map since which it is
    up: another one after a restart.
    """

    osd_id: int
    hostname: str
    device_class: str
    up: bool
    ceph_version: str = ""
    failure_domain: str = ""
    dedicated_db: bool = False
    dedicated_wal: bool = False
    rotational: bool = False
    location: Tuple[Tuple[str, str], ...] = ()
    uuid: str = ""
    up_from: int = 0
    min_alloc_bytes: int = 0  # 0 where the OSD does not tell (before Ceph 16.2.11 or so)
    takes_discards: Optional[bool] = None  # what its block device is on (KernelDevice.cc)

    @property
    def apart(self) -> str:
        """The roles that it has on other drives than its block, as results keep them."""
        found = ((Role.DB, self.dedicated_db), (Role.WAL, self.dedicated_wal))
        return ", ".join(role.value for role, dedicated in found if dedicated)


@dataclass(frozen=True)
class SlowOsd:
    """An OSD that had slow operations in BlueStore, as long as Ceph keeps that.

    `since_s`: since when this mgr has seen it.  `kept_s`: how long Ceph keeps it after the
    last one (`bluestore_slow_ops_warn_lifetime`).
    """

    osd_id: int
    since_s: float
    kept_s: float


@dataclass(frozen=True)
class OsdLatency:
    """The latencies of `ceph osd perf`, in whole ms; on BlueStore the two are one number."""

    commit_ms: int
    apply_ms: int


@dataclass(frozen=True)
class ClusterState:
    """The cluster at one moment, as far as wcache cares.

    `missed` is what does not hold somewhere, `sick` why it is not healthy as a whole, in words.
    `failure_types` are the types of CRUSH buckets over which pools spread their copies,
    `osd` among them where a rule chooses nothing wider.  `host_names` is an admin's word: by the
    name that a probe's key is for, the host of the map whose OSDs are on its machine.

    `ill` says why an OSD is neither measured nor changed, nor a control.  `slow_op_osds` are ill
    too, but for what bears slow operations.  `busy` ones move data of PGs that have all their
    copies, as far as their PGs say so; None where the release does not tell.  `gets_data` says
    of one OSD whether it gets data of PGs, or may.  `checks` are health checks that are raised.
    `strict_pools` take no writes where one copy is missing.
    """

    fsid: str
    ceph_version: str
    osds: Dict[int, OsdInfo]
    missed: Tuple[Precondition, ...] = ()
    bench_empties_caches: bool = False
    failure_types: FrozenSet[str] = frozenset()
    slow_osds: Tuple[SlowOsd, ...] = ()
    host_names: Mapping[str, str] = field(default_factory=dict)
    sick: Tuple[str, ...] = ()
    ill: Mapping[int, str] = field(default_factory=dict)
    slow_op_osds: FrozenSet[int] = frozenset()
    busy: Optional[FrozenSet[int]] = frozenset()
    checks: Tuple[str, ...] = ()
    strict_pools: Tuple[str, ...] = ()
    gets_data: Callable[[int], bool] = field(default=lambda osd_id: False, compare=False)

    @cached_property
    def hostnames(self) -> FrozenSet[str]:
        """The hosts of the map that have OSDs."""
        return frozenset({osd.hostname for osd in self.osds.values()} - {""})

    @cached_property
    def down(self) -> FrozenSet[int]:
        """The OSDs that are not up and in."""
        return frozenset(osd_id for osd_id, osd in self.osds.items() if not osd.up)

    @property
    def blocking(self) -> Tuple[Precondition, ...]:
        """What forbids to measure or change anything: it is of the whole cluster."""
        return tuple(item for item in self.missed if item not in RECORDED)

    @property
    def only_sick(self) -> bool:
        """Whether nothing forbids but its health, which may soon be well again by itself."""
        return self.blocking == (Precondition.CLUSTER_HEALTHY,)

    def illness(
        self, osd_ids: Iterable[int], bears: Collection[Precondition] = ()
    ) -> Dict[int, str]:
        """Why some of these OSDs are left alone, by OSD; empty where all are well."""
        found: Dict[int, str] = {}
        for osd_id in sorted({*osd_ids}):
            osd = self.osds.get(osd_id)
            if osd is None or not osd.up:
                found[osd_id] = NOT_UP
            elif osd_id in self.ill:
                found[osd_id] = self.ill[osd_id]
            elif osd_id in self.slow_op_osds and Precondition.NO_SLOW_OPS not in bears:
                found[osd_id] = SLOW_OPS
        return found

    def osd_of(self, item: MayBeSimulated, osd_id: int) -> Optional[OsdInfo]:
        """An OSD of drives; None where it is not known, or a simulated host made it up."""
        return None if item.simulated else self.osds.get(osd_id)

    def classes_of(self, item: MayBeSimulated, osd_ids: Iterable[int]) -> Set[str]:
        """The device classes of OSDs of drives, as far as they are known."""
        found = (self.osd_of(item, osd_id) for osd_id in osd_ids)
        return {osd.device_class for osd in found if osd is not None}

    def not_up(self, item: MayBeSimulated, osd_ids: Iterable[int]) -> str:
        """Which OSD is not up and so cannot be measured; '' where none, as of made-up ones."""
        for osd_id in () if item.simulated else sorted(osd_ids):
            osd = self.osds.get(osd_id)
            if osd is None or not osd.up:
                return f"osd.{osd_id} is not up"
        return ""

    def illness_of(
        self, item: MayBeSimulated, osd_ids: Iterable[int], bears: Collection[Precondition] = ()
    ) -> str:
        """Why OSDs are neither measured nor changed now; "" where all are well, or made up."""
        found = {} if item.simulated else self.illness(osd_ids, bears)
        return "; ".join(f"osd.{osd_id} {why}" for osd_id, why in found.items())

    def moving(self, osd_ids: Iterable[int]) -> FrozenSet[int]:
        """Those that move data, or may get some: whose copy waits for its turn is one of them."""
        asked = {*osd_ids}
        found = asked & (self.busy or frozenset())
        if Precondition.NO_RECOVERY in self.missed:
            found |= {osd_id for osd_id in asked if self.gets_data(osd_id)}
        return frozenset(found)

    def sampled_last(self, osd_ids: Iterable[int]) -> FrozenSet[int]:
        """Those that stand for others only where no others are left."""
        asked = {*osd_ids}
        return self.moving(asked) | (asked & {one.osd_id for one in self.slow_osds})

    def beside(self, osd_ids: Iterable[int]) -> Tuple[Precondition, ...]:
        """What is recorded of a measurement on these OSDs, and forbids nothing."""
        mine = {*osd_ids}
        elsewhere = {Precondition.NO_SLOW_OPS, Precondition.NO_SLOW_BLUESTORE}
        found = [item for item in self.missed if item in RECORDED and item not in elsewhere]
        if mine & (self.busy or frozenset()):
            found.append(Precondition.NOT_BUSY)
        if mine & self.slow_op_osds:
            found.append(Precondition.NO_SLOW_OPS)
        if mine & {one.osd_id for one in self.slow_osds}:
            found.append(Precondition.NO_SLOW_BLUESTORE)
        return tuple(dict.fromkeys(found))


def in_turns(items: Iterable[T], host_of: Callable[[T], str]) -> List[T]:
    """Take turns over hosts, so that a sample is not all of one host."""
    by_host: Dict[str, List[T]] = {}
    for one in items:
        by_host.setdefault(host_of(one), []).append(one)
    rounds = zip_longest(*(mine for _, mine in sorted(by_host.items())))
    return [one for each in rounds for one in each if one is not None]


def calm_first(
    spread: Iterable[T], osds_of: Callable[[T], Iterable[int]], most: int, cluster: ClusterState
) -> Tuple[List[T], List[T]]:
    """(those that come first, those behind them whose OSDs may get data), each in order.

    OSDs are asked only until the first `most` are known not to: a large cluster has many.
    """
    first: List[T] = []
    behind: List[T] = []
    for one in spread:
        gets = len(first) < most and cluster.moving(osds_of(one))
        (behind if gets else first).append(one)
    return first, behind


@dataclass(frozen=True)
class OsdNow:
    """Which OSD has an id now, since ids are used again.

    `drives` are those under it as (hostname, drive id); none where no host told of it.
    """

    uuid: str
    drives: FrozenSet[Tuple[str, str]]


def failure_domains(osd: OsdInfo, cluster: ClusterState) -> Tuple[str, ...]:
    """The buckets over an OSD that hold one copy of its data each, the widest first.

    Those of the types that the pools' rules choose, and always its host.
    """
    types = {*cluster.failure_types, "host"}
    found = [f"{kind} {name}" for kind, name in reversed(osd.location) if kind in types]
    return tuple(found) or (f"host {osd.hostname}",)


class ClusterView(Protocol):
    """Port: the cluster as the mgr sees it now."""

    def cluster(self) -> ClusterState:
        """OSDs, health and versions; cheap, from the mgr's own maps."""

    def latencies(self) -> Dict[int, OsdLatency]:
        """What OSDs last said of theirs; of a big cluster too much to ask at every tick."""


def roles_of(drive: DriveReport, osd_id: int) -> Tuple[Role, ...]:
    """The roles a drive plays for an OSD, block first."""
    found = {use.role for use in drive.uses if use.osd_id == osd_id}
    return tuple(role for role in (Role.BLOCK, Role.DB, Role.WAL) if role in found)


def flush_role(roles: Iterable[Role]) -> Role:
    """The role whose device takes the commit's flush, of those a drive plays: WAL, DB, block.

    BlueFS flushes its WAL device at every kv commit (BlueFS::_flush_bdev), else the device
    that holds the write-ahead log: DB, else block.
    """
    held = set(roles)
    for role in (Role.WAL, Role.DB):
        if role in held:
            return role
    return Role.BLOCK


def touches(
    load_point: LoadPoint, roles: Tuple[Role, ...], osd: Optional[OsdInfo]
) -> bool:
    """Whether a load point exercises a drive that plays `roles` for the OSD.

    With a separate DB, small writes to an HDD are deferred into the write-ahead log
    (bluestore_prefer_deferred_size_hdd), so their commit touches DB and WAL only; the HDD
    shows in the deferred drain and in large writes.  4 MiB writes go to the block device,
    and only their metadata to the DB.
    """
    separate = osd is not None and (osd.dedicated_db or osd.dedicated_wal)
    block_only = set(roles) == {Role.BLOCK}
    small = load_point in (LoadPoint.OSD_BENCH_DEPTH1, LoadPoint.OSD_BENCH_BATCH)
    if small and separate and block_only and osd is not None and osd.rotational:
        return False
    if load_point is LoadPoint.OSD_BENCH_4M:
        return Role.BLOCK in roles
    return True
