"""Drive models as data: what a TOML file says of drives, checked and frozen.

`qa/drive_models/README.md` documents each key with its bounds and its default; this
file is where they are enforced.  Latencies are medians in microseconds; a `spread` is
the standard deviation of the natural logarithm.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Dict, Mapping, Optional, Tuple

from wcache.core.loads import SAMPLES
from wcache.core.model import CacheMode, LoadPoint, Role, Transport, Verdict
from wcache.core.options.entries import OPTIONS
from wcache.core.verdict.foreign import ModeVerdict

from .media_cache import NO_MEDIA_CACHE, MediaCacheSpec, read_media_cache
from .osd_spec import OsdSpec, read_osd
from .toml_table import DriveFileError, Table, parse_toml, read_text, shown

SCHEMA_VERSION = 1
DRIVE_TABLES_MAX = 256
COUNT_MAX = 10_000
MINUTE_US = 60e6

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
_INQUIRY = re.compile(r"[!-~]([ -~]{0,38}[!-~])?")  # what fits an identify string
_LINE = re.compile(r"[!-~][ -~]{0,399}")
_VALUE = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_SERIAL = re.compile(r"[A-Za-z0-9_-]{1,20}")  # QEMU and ATA hold 20 characters
_WWN = re.compile(r"0x[0-9a-f]{16}")


class Toggle(str, Enum):
    """What a drive does when it is told to change its cache mode."""

    OBEYS = "obeys"
    REFUSES = "refuses"  # an error, and no change
    IGNORES = "ignores"  # success, and no change


class Restored(str, Enum):
    """Which cache mode a drive is in after a power-on or a reset."""

    SAVED = "saved"  # the saved one where the drive can save, else the default
    DEFAULT = "default"
    CURRENT = "current"


class ModelTransport(str, Enum):
    """The transports a drive model can name: those whose switch can be simulated."""

    SCSI = Transport.SCSI.value
    SAS = Transport.SAS.value
    SATA = Transport.SATA.value
    SATA_HBA = Transport.SATA_HBA.value
    NVME = Transport.NVME.value
    LOOP = Transport.LOOP.value


@dataclass(frozen=True)
class OpLatency:
    """What one kind of command costs: a lognormal, and now and then a stall on top."""

    median_us: float
    spread: float = 0.1
    stall_probability: float = 0.0
    stall_us: float = 0.0  # the median length of a stall
    stall_spread: float = 0.3


@dataclass(frozen=True)
class LatencySpec:
    """The five commands that matter."""

    read: OpLatency
    write: OpLatency  # acknowledged from the volatile cache
    fua_write: OpLatency  # on the medium before it is acknowledged
    dirty_flush: OpLatency
    clean_flush: OpLatency

    @property
    def all(self) -> Tuple[OpLatency, ...]:
        """What is here, in order."""
        return (self.read, self.write, self.fua_write, self.dirty_flush, self.clean_flush)


@dataclass(frozen=True)
class CacheSpec:
    """The drive's write cache and its switch."""

    present: bool = True
    default: CacheMode = CacheMode.WRITE_BACK
    savable: bool = False
    saved: CacheMode = CacheMode.WRITE_BACK
    toggle: Toggle = Toggle.OBEYS
    ignores_flushes: bool = False
    after_power_on: Restored = Restored.SAVED
    after_reset: Restored = Restored.SAVED
    power_loss_protection: bool = False


@dataclass(frozen=True)
class DeviceSpec:
    """How much a drive does at once, and how fast data streams through it."""

    channels: int = 1
    bandwidth_mib_s: float = 200.0


@dataclass(frozen=True)
class NoiseSpec:
    """What makes two measurements of the same thing differ."""

    between_period_spread: float = 0.0
    between_drive_spread: float = 0.0  # drawn for each command of each drive
    drift_per_hour: float = 0.0  # in ln
    autocorrelation: float = 0.0  # AR(1) coefficient between successive samples


@dataclass(frozen=True)
class CarryoverSpec:
    """What a toggle leaves behind for a while: a factor that decays exponentially in ln."""

    after_toggle_factor: float = 1.0
    decay_s: float = 1.0
    toggled_to: Optional[CacheMode] = None  # None: after a toggle either way


@dataclass(frozen=True)
class PlacementSpec:
    """Where the drives of a model are: dealt to the hosts in turn."""

    hosts: Tuple[str, ...] = ("sim1",)
    role: Role = Role.BLOCK
    osds_per_drive: int = 1
    device_class: str = ""  # empty: by transport and rotation, as Ceph would


@dataclass(frozen=True)
class Truth:
    """What an ideal tool would say of a drive at one load point."""

    verdict: Verdict
    ratio: Optional[float] = None  # write back over write through


@dataclass(frozen=True)
class OptionSpec:
    """An option of a drive: its value at first, and a value with which each command is slower."""

    name: str
    value: str
    slow_value: str = ""
    slow_factor: float = 1.0


@dataclass(frozen=True)
class DriveModelSpec:
    """`count` drives of one drive model."""

    name: str
    model: str
    latency: LatencySpec
    vendor: str = "SIM"
    firmware: str = "0001"
    about: str = ""
    serial: str = ""  # empty: derived from name and index
    wwn: str = ""  # likewise
    transport: Transport = Transport.SCSI
    rotational: bool = False
    size_bytes: int = 10 * 2**30
    count: int = 1
    cache: CacheSpec = CacheSpec()
    device: DeviceSpec = DeviceSpec()
    noise: NoiseSpec = NoiseSpec()
    carryover: CarryoverSpec = CarryoverSpec()
    media_cache: MediaCacheSpec = NO_MEDIA_CACHE
    placement: PlacementSpec = PlacementSpec()
    truth: Mapping[LoadPoint, Truth] = field(default_factory=dict, hash=False)
    options: Tuple[OptionSpec, ...] = ()

    def noiseless(self) -> DriveModelSpec:
        """The same drive with every command at its median, every time."""
        ops = (OpLatency(op.median_us, spread=0.0) for op in self.latency.all)
        noise = NoiseSpec(between_drive_spread=self.noise.between_drive_spread)
        return replace(
            self, latency=LatencySpec(*ops), noise=noise, carryover=CarryoverSpec()
        )


@dataclass(frozen=True)
class DriveFile:
    """A whole file of drive models."""

    source: str
    drives: Tuple[DriveModelSpec, ...]
    osd: OsdSpec

    def drive(self, name: str) -> DriveModelSpec:
        """The drive model called `name`."""
        for spec in self.drives:
            if spec.name == name:
                return spec
        known = ", ".join(spec.name for spec in self.drives)
        raise DriveFileError(f"{self.source} has no drive {shown(name)}", f"it has {known[:200]}")


def load_drive_file(path: str) -> DriveFile:
    """Read and check a file; raises DriveFileError, one line with advice, and nothing else."""
    return parse_drive_file(read_text(path), path)


def parse_drive_file(text: str, source: str = "drive models") -> DriveFile:
    """Check the text of a file; `source` names it in errors."""
    label = source if source.isprintable() and len(source) <= 200 else shown(source)
    top = Table(parse_toml(text, label), label)
    version = top.integer("schema", None, 0, 2**31)
    if version != SCHEMA_VERSION:
        raise top.error("schema", f"is {version}; this program reads {SCHEMA_VERSION}")
    osd = read_osd(top.table("osd"))
    drives = tuple(_drive(table) for table in top.tables("drive", DRIVE_TABLES_MAX))
    top.done()
    seen: Dict[str, str] = {}
    for spec in drives:
        for kind, value in (("name", spec.name), ("serial", spec.serial), ("wwn", spec.wwn)):
            key = f"{kind} {value}"
            if value and key in seen:
                raise DriveFileError(f"{label}: two drives have the {key}", "make each unique")
            seen[key] = spec.name
    if sum(spec.count for spec in drives) > 2 * COUNT_MAX:
        raise DriveFileError(f"{label}: more than {2 * COUNT_MAX} drives", "lower the counts")
    return DriveFile(label, drives, osd)


def _drive(table: Table) -> DriveModelSpec:
    name = table.text("name", None, _NAME)
    count = table.integer("count", 1, 1, COUNT_MAX)
    serial = table.text("serial", "", _SERIAL)
    wwn = table.text("wwn", "", _WWN)
    if count > 1 and (serial or wwn):
        key = "serial" if serial else "wwn"
        raise table.error(key, "is that of one drive, but count is more than 1")
    rotational = table.flag("rotational", False)
    cache = _cache(table.table("cache"))
    spec = DriveModelSpec(
        name=name,
        model=table.text("model", None, _INQUIRY),
        vendor=table.text("vendor", DriveModelSpec.vendor, _INQUIRY),
        firmware=table.text("firmware", DriveModelSpec.firmware, _INQUIRY),
        about=table.text("about", "", _LINE),
        serial=serial,
        wwn=wwn,
        transport=Transport(table.choice("transport", ModelTransport.SCSI, ModelTransport).value),
        rotational=rotational,
        size_bytes=table.integer("size_bytes", DriveModelSpec.size_bytes, 2**20, 2**50),
        count=count,
        cache=cache,
        latency=_latency(table.table("latency", mandatory=True), cache),
        device=_device(table.table("device"), rotational),
        noise=_noise(table.table("noise")),
        carryover=_carryover(table.table("carryover")),
        media_cache=read_media_cache(table.table("media_cache")),
        placement=_placement(table.table("placement")),
        truth=_truth(table.table("truth")),
        options=_options(table.table("options")),
    )
    table.done()
    return spec


def _cache(table: Table) -> CacheSpec:
    default = table.choice("default", CacheSpec.default, CacheMode)
    savable = table.flag("savable", CacheSpec.savable)
    if table.has("saved") and not savable:
        raise table.error("saved", "needs savable = true")
    spec = CacheSpec(
        present=table.flag("present", CacheSpec.present),
        default=default,
        savable=savable,
        saved=table.choice("saved", default, CacheMode),
        toggle=table.choice("toggle", CacheSpec.toggle, Toggle),
        ignores_flushes=table.flag("ignores_flushes", CacheSpec.ignores_flushes),
        after_power_on=table.choice("after_power_on", CacheSpec.after_power_on, Restored),
        after_reset=table.choice("after_reset", CacheSpec.after_reset, Restored),
        power_loss_protection=table.flag(
            "power_loss_protection", CacheSpec.power_loss_protection
        ),
    )
    table.done()
    return spec


def _latency(table: Table, cache: CacheSpec) -> LatencySpec:
    fua = _op(table.table("fua_write", mandatory=True), None)
    quick = min(fua.median_us, 100.0)
    volatile = cache.present and not cache.power_loss_protection
    spec = LatencySpec(
        read=_op(table.table("read"), fua.median_us),
        write=_op(table.table("write"), quick),
        fua_write=fua,
        dirty_flush=_op(table.table("dirty_flush", mandatory=volatile), quick),
        clean_flush=_op(table.table("clean_flush"), quick),
    )
    table.done()
    return spec


def _op(table: Table, median_us: Optional[float]) -> OpLatency:
    spec = OpLatency(
        median_us=table.number("median_us", median_us, 0.1, MINUTE_US),
        spread=table.number("spread", OpLatency.spread, 0.0, 3.0),
        stall_probability=table.number("stall_probability", 0.0, 0.0, 1.0),
        stall_us=table.number("stall_us", 0.0, 0.0, MINUTE_US),
        stall_spread=table.number("stall_spread", OpLatency.stall_spread, 0.0, 3.0),
    )
    if spec.stall_probability > 0 and spec.stall_us <= 0:
        raise table.error("stall_us", "a stall needs a length")
    table.done()
    return spec


def _device(table: Table, rotational: bool) -> DeviceSpec:
    spec = DeviceSpec(
        channels=table.integer("channels", 1 if rotational else 4, 1, 1024),
        bandwidth_mib_s=table.number(
            "bandwidth_mib_s", 150.0 if rotational else 500.0, 0.1, 100_000.0
        ),
    )
    table.done()
    return spec


def _noise(table: Table) -> NoiseSpec:
    spec = NoiseSpec(
        between_period_spread=table.number("between_period_spread", 0.0, 0.0, 3.0),
        between_drive_spread=table.number("between_drive_spread", 0.0, 0.0, 1.0),
        drift_per_hour=table.number("drift_per_hour", 0.0, -1000.0, 1000.0),
        autocorrelation=table.number("autocorrelation", 0.0, 0.0, 0.999),
    )
    table.done()
    return spec


def _carryover(table: Table) -> CarryoverSpec:
    toggled_to = (
        table.choice("toggled_to", None, CacheMode) if table.has("toggled_to") else None
    )
    spec = CarryoverSpec(
        after_toggle_factor=table.number("after_toggle_factor", 1.0, 0.01, 100.0),
        decay_s=table.number("decay_s", 1.0, 0.001, 3600.0),
        toggled_to=toggled_to,
    )
    table.done()
    return spec


def _placement(table: Table) -> PlacementSpec:
    spec = PlacementSpec(
        hosts=tuple(table.texts("hosts", ["sim1"], _NAME, 2000)),
        role=table.choice("role", Role.BLOCK, Role),
        osds_per_drive=table.integer("osds_per_drive", 1, 1, 64),
        device_class=table.text("device_class", "", _NAME),
    )
    table.done()
    return spec


def _truth(table: Table) -> Dict[LoadPoint, Truth]:
    found: Dict[LoadPoint, Truth] = {}
    for point in SAMPLES:
        if not table.has(point.value):
            continue
        entry = table.table(point.value)
        ratio = entry.number("ratio", None, 1e-6, 1e6) if entry.has("ratio") else None
        found[point] = Truth(entry.choice("verdict", None, ModeVerdict).meant, ratio)
        entry.done()
    table.done()
    return found


def _options(table: Table) -> Tuple[OptionSpec, ...]:
    found = []
    for one in OPTIONS:
        if one.on_host and table.has(one.name):
            entry = table.table(one.name)
            found.append(OptionSpec(
                one.name, entry.text("value", None, _VALUE), entry.text("slow_value", "", _VALUE),
                entry.number("slow_factor", 1.0, 0.01, 100.0),
            ))
            entry.done()
    table.done()
    return tuple(found)
