"""The things wcache talks about: drives, roles, cache modes, load points, findings.

All of it is frozen data.  The words are those of Linux, T10/T13/NVMe and Ceph: `write back` means
that the volatile cache is enabled, `write through` that it is disabled.  *Device cache* (what a
drive says of itself) and *kernel view* (what Linux believes) are two fields and never one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import ClassVar, Optional, Tuple

from .errors import REFUSALS_MAX, Refusal, told
from .hardware import DEVICES_MAX, VALUES_MAX, BcacheState, DmCacheState, OptionValue, Wear

# The kernel's names are shorter (DISK_NAME_LEN), and ours are put into lines of text.
DEV_NAME_CHARS_MAX = 64
# A drive has at most 40 (ATA, NVMe); the probe cuts at this, so that tables stay readable.
DRIVE_MODEL_CHARS_MAX = 128


class CacheMode(str, Enum):
    """The two modes of a volatile cache, in Linux's words."""

    WRITE_BACK = "write back"
    WRITE_THROUGH = "write through"

    @property
    def other(self) -> CacheMode:
        """The opposite mode."""
        return CacheMode.WRITE_THROUGH if self is CacheMode.WRITE_BACK else CacheMode.WRITE_BACK


class Arm(str, Enum):
    """One of the two things that an experiment compares.

    Of cache modes A is write back and B write through; of an option its two values as asked.
    """

    A = "a"
    B = "b"

    @property
    def other(self) -> Arm:
        """The one that it is compared with."""
        return Arm.B if self is Arm.A else Arm.A


class DeviceCache(str, Enum):
    """What a drive reports of its own volatile cache."""

    WRITE_BACK = "write back"
    WRITE_THROUGH = "write through"
    NONE = "none"  # the drive says that it has no volatile cache at all
    UNKNOWN = "unknown"  # not asked, not answered, or answered without sense

    @property
    def mode(self) -> Optional[CacheMode]:
        """The cache mode this is, or None where there is none to speak of."""
        return None if self in (DeviceCache.NONE, DeviceCache.UNKNOWN) else CacheMode(self.value)


class KernelView(str, Enum):
    """What Linux believes of a block device (`queue/write_cache`)."""

    WRITE_BACK = "write back"  # the kernel sends flushes
    WRITE_THROUGH = "write through"  # the kernel drops flushes
    UNKNOWN = "unknown"


class Role(str, Enum):
    """What a drive is to an OSD."""

    BLOCK = "block"
    DB = "db"
    WAL = "wal"


class Transport(str, Enum):
    """How the host reaches the drive: drive protocol x host driver, in classes."""

    SCSI = "scsi"  # SCSI disk behind virtio-scsi and the like
    SAS = "sas"  # SCSI disk behind a SAS host adapter
    SAS_RAID = "sas-behind-raid"  # SCSI disk that a RAID driver passes on (JBOD, HBA mode)
    SATA = "sata"  # ATA drive under libata
    SATA_HBA = "sata-behind-hba"  # ATA drive behind a SAS adapter's translation
    NVME = "nvme"
    LOOP = "loop"  # no cache of its own; throwaway clusters only
    VIRTIO = "virtio-blk"
    RAID = "raid"  # a volume that a RAID controller makes
    SIMULATED = "simulated"
    UNKNOWN = "unknown"

    @property
    def by_mode_page(self) -> bool:
        """Whether the cache is switched by the drive's own caching mode page (SBC-4 6.5.6)."""
        return self in (Transport.SCSI, Transport.SAS, Transport.SAS_RAID)


class LoadPoint(str, Enum):
    """The loads an experiment can measure; each has its own truth."""

    OSD_TRAFFIC = "osd_traffic"  # the OSD's own clients; nothing is written by us
    OSD_BENCH_DEPTH1 = "osd_bench_depth1"  # one 4 KiB write, acknowledged when committed
    OSD_BENCH_BATCH = "osd_bench_batch"  # a full queue of 4 KiB writes: throughput
    OSD_BENCH_4M = "osd_bench_4m"  # 4 MiB writes: throughput
    FDATASYNC_TIMER = "fdatasync_timer"  # bare fdatasync() on a role's device
    # the bench by which an OSD finds its own capacity: only where nothing is toggled
    OSD_BENCH_CAPACITY = "osd_bench_capacity"

    @property
    def short(self) -> str:
        """The name that text shows and `--loads` takes; `value` is what is stored."""
        return load_name(self.value)


_LOAD_NAMES = {
    LoadPoint.OSD_TRAFFIC.value: "traffic", LoadPoint.OSD_BENCH_DEPTH1.value: "depth1",
    LoadPoint.OSD_BENCH_BATCH.value: "batch", LoadPoint.OSD_BENCH_4M.value: "4m",
    LoadPoint.FDATASYNC_TIMER.value: "timer", LoadPoint.OSD_BENCH_CAPACITY.value: "mclock capacity",
}


def load_name(value: str) -> str:
    """The short name of a stored load point; one that is not known stays as it is."""
    return _LOAD_NAMES.get(value, value)


class Verdict(str, Enum):
    """What an experiment or a pool of experiments says: which arm is better, if one is."""

    A = "a"
    B = "b"
    NO_DIFFERENCE = "no material difference"
    INSUFFICIENT = "insufficient data"
    CONFLICTING = "conflicting"

    @property
    def arm(self) -> Optional[Arm]:
        """The arm that is better, if one is."""
        return {Verdict.A: Arm.A, Verdict.B: Arm.B}.get(self)

    @property
    def decided(self) -> bool:
        """Whether it says which arm is better, or that neither is."""
        return self not in (Verdict.INSUFFICIENT, Verdict.CONFLICTING)


class Severity(str, Enum):
    """How a finding shows: error and warning become health checks."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class FindingCode(str, Enum):
    """Everything `status` can find wrong; the advice stands in `fleet/findings.py`."""

    UNSAFE = "WCACHE_UNSAFE"
    UNSAFE_THROWAWAY = "WCACHE_UNSAFE_THROWAWAY"
    DRIFT = "WCACHE_DRIFT"
    MIXED_MODES = "WCACHE_MIXED_MODES"
    TOGGLE_INEFFECTIVE = "WCACHE_TOGGLE_INEFFECTIVE"
    SAVED_DIFFERS = "WCACHE_SAVED_DIFFERS"
    RAID_POLICY = "WCACHE_RAID_POLICY"
    UNKNOWN_LAYER = "WCACHE_UNKNOWN_LAYER"
    LAYER_DROPS_FLUSHES = "WCACHE_LAYER_DROPS_FLUSHES"
    LOADED_OFF = "WCACHE_LOADED_OFF"
    SETUP = "WCACHE_SETUP"
    BCACHE_STATE = "WCACHE_BCACHE_STATE"
    SHARED_DRIVE = "WCACHE_SHARED_DRIVE"
    NO_VOLATILE_CACHE = "WCACHE_NO_VOLATILE_CACHE"
    FLUSH_TOO_FAST = "WCACHE_FLUSH_TOO_FAST"
    FLUSH_NOT_COUNTED = "WCACHE_FLUSH_NOT_COUNTED"
    FLUSH_LOST = "WCACHE_FLUSH_LOST"
    FLUSH_MISSING = "WCACHE_FLUSH_MISSING"
    FLUSH_UNPROVEN = "WCACHE_FLUSH_UNPROVEN"
    FOREIGN_RULE = "WCACHE_FOREIGN_RULE"
    NOT_PREPARED = "WCACHE_NOT_PREPARED"
    NOT_PINNED = "WCACHE_NOT_PINNED"
    CARRYOVER = "WCACHE_CARRYOVER"
    AGENT_CONFLICT = "WCACHE_AGENT_CONFLICT"
    AGENT_SILENT = "WCACHE_AGENT_SILENT"
    AGENT_VERSION = "WCACHE_AGENT_VERSION"
    RESTORE_FAILED = "WCACHE_RESTORE_FAILED"
    NO_ANALYSIS = "WCACHE_NO_ANALYSIS"
    PRIOR_LOST = "WCACHE_PRIOR_LOST"
    STORE_FAILED = "WCACHE_STORE_FAILED"
    INTERNAL_ERROR = "WCACHE_INTERNAL_ERROR"
    MCLOCK_STALE = "WCACHE_MCLOCK_STALE"
    CONFIG_UNPROVEN = "WCACHE_CONFIG_UNPROVEN"
    ROLLOUT_PAUSED = "WCACHE_ROLLOUT_PAUSED"
    PLAN_WAITS = "WCACHE_PLAN_WAITS"
    MEMORY_OVERCOMMIT = "WCACHE_MEMORY_OVERCOMMIT"
    MEMORY_OVER_TARGET = "WCACHE_MEMORY_OVER_TARGET"
    MEMORY_NOT_TUNABLE = "WCACHE_MEMORY_NOT_TUNABLE"
    MEMORY_STALE = "WCACHE_MEMORY_STALE"
    OPTION_DRIFT = "WCACHE_OPTION_DRIFT"
    FROZEN = "WCACHE_FROZEN"
    CAMPAIGN_ABORTS = "WCACHE_CAMPAIGN_ABORTS"
    CONTESTED = "WCACHE_CONTESTED"
    SHINGLED = "WCACHE_SHINGLED"
    RECOMMENDATION = "WCACHE_RECOMMENDATION"
    WEB_PAGE = "WCACHE_WEB_PAGE"


class Cure(str, Enum):
    """What is to be done about a finding."""

    GENERAL = ""  # what is advised of its code
    IN_DETAIL = "in detail"  # its line has the commands
    LET_PROBE_SEE = "let the probe see"
    START_PROBE = "start the probe"
    START_OSD = "start the OSD"
    BOOT_ONCE = "boots once, then measures"  # as it is told of a host


@dataclass(frozen=True)
class Finding:
    """Something wrong that was seen while looking.

    `subject` names the drive, host or OSD; `detail` says what was seen, in one line.
    """

    code: FindingCode
    severity: Severity
    subject: str
    detail: str
    cure: Cure = Cure.GENERAL


class LayerKind(str, Enum):
    """A block device on the path from an OSD to its drive."""

    DISK = "disk"
    PARTITION = "partition"
    LVM = "lvm"
    CRYPT = "crypt"
    MULTIPATH = "multipath"
    DM = "dm"  # a device-mapper target without a class of its own here
    MD = "md"
    BCACHE = "bcache"
    LOOP = "loop"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Layer:
    """One block device on the path, with what the kernel believes of it.

    A layer that says `write through` above a drive whose cache is on drops the OSD's
    flushes, whatever the disk's own queue says (device mapper copies the flag when a
    table is loaded: drivers/md/dm-table.c, dm_table_set_restrictions()).
    """

    SHARED: ClassVar[bool] = True
    name: str
    kind: LayerKind
    kernel_view: KernelView
    fua: Optional[bool] = None


@dataclass(frozen=True)
class OsdUse:
    """One role of one OSD on a drive; `layers` run from the OSD down to the disk."""

    osd_id: int
    role: Role
    layers: Tuple[Layer, ...] = ()


@dataclass(frozen=True)
class DriveModel:
    """Vendor, model and firmware: drives that agree in all three are pooled."""

    SHARED: ClassVar[bool] = True  # by codec: most drives of a fleet have the same, here and below
    vendor: str = field(metadata={"max_chars": DRIVE_MODEL_CHARS_MAX})
    model: str = field(metadata={"max_chars": DRIVE_MODEL_CHARS_MAX})
    firmware: str = field(metadata={"max_chars": DRIVE_MODEL_CHARS_MAX})

    def __str__(self) -> str:
        return _words(self.vendor, self.model, self.firmware)


@lru_cache(maxsize=1024)  # asked for each drive of a fleet, again and again
def _words(*parts: str) -> str:
    return " ".join(filter(None, parts))


@dataclass(frozen=True)
class CachePage:
    """The caching parameters a drive keeps beside the current one; None is unknown.

    `by_rule`: the drive saves nothing, and `saved` is what a udev rule of ours sets when the
    drive appears.  A reset that the kernel makes of a drive runs no rule.
    """

    SHARED: ClassVar[bool] = True
    changeable: Optional[bool] = None
    default: Optional[CacheMode] = None
    saved: Optional[CacheMode] = None
    by_rule: bool = False

    @property
    def stays_off(self) -> bool:
        """Whether the drive is known to come out of a reset with its cache off."""
        kept = self.default if self.saved is None or self.by_rule else self.saved
        return kept is CacheMode.WRITE_THROUGH


@dataclass(frozen=True)
class PlpHint:
    """A hint of power-loss protection and where it was read; never a proof by itself."""

    protected: bool
    source: str


@dataclass(frozen=True)
class DriveState:
    """One reading of a drive and of every layer above it, both sides of the cache.

    `options` are those that have an entry; only reports and tasks about options have them.
    """

    SHARED: ClassVar[bool] = True
    device_cache: DeviceCache
    kernel_view: KernelView
    pinned: Optional[bool] = None
    page: CachePage = CachePage()
    layers: Tuple[Layer, ...] = ()
    options: Tuple[OptionValue, ...] = field(default=(), metadata={"max_items": VALUES_MAX})

    def option(self, name: str) -> Optional[str]:
        """The value of an option; None where the drive has none, or it was not read."""
        return next((one.value for one in self.options if one.name == name), None)


def mode_of(transport: Transport, state: DriveState) -> Optional[CacheMode]:
    """The mode the switch of a drive is in; None where that is unknown.

    A loop device has no cache of its own: its switch is the kernel view.
    """
    if transport is Transport.LOOP:
        view = state.kernel_view
        return None if view is KernelView.UNKNOWN else CacheMode(view.value)
    return state.device_cache.mode


@dataclass(frozen=True)
class DriveReport:
    """What a probe knows of one drive.

    `drive_id` is the WWN, else the serial, else the kernel name (loop only); `wwid` is what
    sysfs calls the drive, by which a udev rule can match it.
    `domain_id` is the id of the cache domain: everything that shares the switch.
    `refusals` is all that the probe has against toggling the drive, not the first alone.
    """

    drive_id: str
    domain_id: str
    dev_name: str = field(metadata={"max_chars": DEV_NAME_CHARS_MAX})
    drive_model: DriveModel
    transport: Transport
    state: DriveState
    serial: str = ""
    wwn: str = ""
    host_driver: str = ""
    rotational: Optional[bool] = None
    size_bytes: int = 0
    uses: Tuple[OsdUse, ...] = ()
    foreign_uses: Tuple[str, ...] = ()
    plp_hints: Tuple[PlpHint, ...] = ()
    refusals: Tuple[Refusal, ...] = field(default=(), metadata={"max_items": REFUSALS_MAX})
    findings: Tuple[Finding, ...] = ()
    wwid: str = ""
    bcache: Tuple[BcacheState, ...] = field(default=(), metadata={"max_items": DEVICES_MAX})
    wear: Optional[Wear] = None
    dm_caches: Tuple[DmCacheState, ...] = field(default=(), metadata={"max_items": 16})

    @property
    def mode(self) -> Optional[CacheMode]:
        """The mode the switch of this drive is in; None where that is unknown."""
        return mode_of(self.transport, self.state)

    @property
    def dropping_path(self) -> str:
        """A hidden path of an NVMe drive that drops flushes, the first; empty where none does."""
        return next((
            layer.name for layer in self.state.layers if self.transport is Transport.NVME
            and layer.kind is LayerKind.DISK and layer.kernel_view is KernelView.WRITE_THROUGH
        ), "")

    @property
    def toggle_refusal(self) -> str:
        """What the probe has against toggling it, in one line; empty where nothing."""
        return told(self.refusals)
