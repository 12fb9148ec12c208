"""Simulated drives behind the `DriveHost` port: the whole product with no hardware.

The physics is in `sim`; here is what Linux adds: the kernel view of each drive, the pin,
the reports.  Time is the real one plus what measuring would have taken: a period of
simulated seconds returns at once and says how long it was.

What the drives are set to stands in a file, so that a probe that is killed finds them
as it left them, as it would real ones.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from wcache.core.drive.journal import JournalEntry
from wcache.core.drive.safety import pinnable
from wcache.core.errors import DisobeyedError, NotFoundError, Refusal, RefusalKind, RefusedError
from wcache.core.hardware import Controller, FlushCounters, HostMemory, OptionValue
from wcache.core.model import (
    CacheMode,
    CachePage,
    DeviceCache,
    DriveModel,
    DriveReport,
    DriveState,
    Finding,
    KernelView,
    Layer,
    LayerKind,
    LoadPoint,
    OsdUse,
    PlpHint,
    Role,
    Transport,
)
from wcache.core.options.entries import option
from wcache.core.protocol import SamplesOutcome

from .drive_schema import DriveFile
from .osd import Measured, SimulatedOsd
from .physics import SimulatedDrive, ToggleOutcome
from .placement import PlacedDrive, place
from .settings_file import STATE_VERSION, DriveSetting, Settings, SettingsFile

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000


@dataclass
class _Drive:
    placed: PlacedDrive
    name: str
    physics: SimulatedDrive
    kernel_view: KernelView
    pinned: bool = False

    @property
    def transport(self) -> Transport:
        return self.placed.spec.transport

    @property
    def present(self) -> bool:
        return self.placed.spec.cache.present


class SimulatedHost:
    """Have the drives that a file places on `hostname`; on a host it does not name, all of them.

    `state_path` is the state file; None keeps the state in memory.  Raises MalformedError
    where the state file is damaged.
    """

    def __init__(
        self,
        drive_file: DriveFile,
        hostname: str,
        *,
        seed: int = 1,
        state_path: Optional[str] = None,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._clock_ns = clock_ns
        self._skipped_ns = 0
        self._file = SettingsFile(state_path)
        placed = place(drive_file)
        here = tuple(d for d in placed if d.host == hostname) or placed
        self._drives: Dict[str, _Drive] = {}
        for number, item in enumerate(here):
            physics = SimulatedDrive(item.spec, seed, item.index)
            drive = _Drive(item, _name(item, number), physics, KernelView.UNKNOWN)
            drive.kernel_view = _view_at_boot(drive)
            self._drives[item.wwn] = drive
        self._starts = 1
        self._load()
        self._osds = self._make_osds(drive_file, seed + 1_000_003 * self._starts)
        self._before_change: Callable[[], None] = lambda: None

    def _make_osds(self, drive_file: DriveFile, seed: int) -> Dict[int, SimulatedOsd]:
        roles: Dict[int, Dict[Role, SimulatedDrive]] = {}
        for drive in self._drives.values():
            for osd_id, role in drive.placed.uses:
                roles.setdefault(osd_id, {})[role] = drive.physics
        return {
            osd_id: SimulatedOsd(drives, drive_file.osd, seed + osd_id)
            for osd_id, drives in roles.items()
            if Role.BLOCK in drives
        }

    # ---- the DriveHost port

    def watched_by(self, at: Callable[[str], None], before_change: Callable[[], None]) -> None:
        """Ask `before_change` before each change of a drive; nothing here is waited for."""
        self._before_change = before_change

    def look(self) -> Tuple[DriveReport, ...]:
        """Every drive that an OSD uses."""
        self._follow()
        return tuple(self._report(d) for d in self._drives.values() if d.placed.uses)

    def memory(self) -> Optional[HostMemory]:
        """A simulated host has none."""
        return None

    def host_findings(self) -> Tuple[Finding, ...]:
        """None: a file that cannot be used is refused as a whole."""
        return ()

    def controllers(self) -> Tuple[Controller, ...]:
        """None: simulated drives hang on nothing."""
        return ()

    def lost_writes(self) -> Mapping[str, str]:
        """No power was cut."""
        return {}

    def domain(self, domain_id: str) -> Tuple[DriveReport, ...]:
        """The one drive of a cache domain."""
        self._follow()
        drive = self._drives.get(domain_id)
        if drive is None:
            raise NotFoundError(f"there is no cache domain {domain_id!r} on this host")
        return (self._report(drive),)

    def anew(self, drives: Sequence[DriveReport]) -> Tuple[DriveReport, ...]:
        """The same drives with their states read; a simulated host never boots."""
        return tuple(replace(drive, state=self.state(drive)) for drive in drives)

    def here(self, entry: JournalEntry) -> Tuple[DriveReport, ...]:
        """The same as `prior`: a simulated drive has one path."""
        return self.prior(entry)

    def prior(self, entry: JournalEntry) -> Tuple[DriveReport, ...]:
        """The drives of a journal entry."""
        self._follow()
        found = (self._drives.get(prior.drive_id) for prior in entry.drives)
        return tuple(self._report(drive) for drive in found if drive is not None)

    def bcache_members(self, drive: DriveReport) -> Tuple[DriveReport, ...]:
        """Every drive: none of them stands in the way of another."""
        return self.look()

    def state(self, drive: DriveReport) -> DriveState:
        """Both sides of the cache."""
        found = self._find(drive)
        if not found.present:
            device_cache = DeviceCache.NONE
        elif found.transport is Transport.LOOP:
            device_cache = DeviceCache.UNKNOWN
        else:
            device_cache = DeviceCache(found.physics.mode.value)
        spec = found.placed.spec.cache
        page = CachePage(
            changeable=found.present, default=spec.default,
            saved=found.physics.saved if spec.savable else None,
        )
        layer = Layer(found.name, _kind(found), found.kernel_view)
        pinned = found.pinned if pinnable(found.transport) else None
        return DriveState(device_cache, found.kernel_view, pinned, page, (layer,))

    def counters(self, drive: DriveReport) -> FlushCounters:
        """Writes and flushes that reached the drive."""
        found = self._find(drive)
        counted = found.physics.counters
        return FlushCounters(
            self._now_ns(), counted.writes + counted.fua_writes, counted.flushes,
            int(counted.flush_ns / NS_PER_MS), paths=1,
        )

    def pin(self, drive: DriveReport) -> None:
        """Hold the kernel view at write back."""
        with self._changing():
            found = self._find(drive)
            if not pinnable(found.transport):
                raise RefusedError(f"{found.name} has nothing that could be pinned")
            found.pinned = True
            found.kernel_view = KernelView.WRITE_BACK

    def flush(self, drive: DriveReport) -> None:
        """Write the volatile cache to the medium."""
        self._find(drive).physics.flush(self._now_ns())

    def set_cache(self, drive: DriveReport, mode: CacheMode) -> None:
        """Switch the drive as its model says: it obeys, refuses, or says yes and does nothing."""
        with self._changing():
            found = self._find(drive)
            if found.physics.set_cache(mode, self._now_ns()) is ToggleOutcome.REFUSED:
                raise DisobeyedError(f"{found.name} refuses to change its cache mode")
            if not found.pinned and found.transport in (Transport.SATA, Transport.LOOP):
                found.kernel_view = KernelView(found.physics.mode.value)

    def save_cache(
        self, drive: DriveReport, mode: Optional[CacheMode], saved: Optional[CacheMode]
    ) -> None:
        """Make `mode` the one after power-on; None puts `saved` back."""
        found = self._find(drive)
        wanted = saved if mode is None else mode
        if wanted is None:
            return
        if not found.placed.spec.cache.savable:
            raise RefusedError(f"{found.name} cannot keep a cache mode over a power cycle")
        with self._changing():
            found.physics.saved = wanted

    def set_option(
        self, drive: DriveReport, name: str, value: str, *, back: bool = False
    ) -> None:
        """Set it by its entry; what the kernel resets with it goes to what it was at first."""
        one = option(name)
        if not back:
            one.require(value)
        with self._changing():
            physics = self._find(drive).physics
            if name not in physics.options:
                raise RefusedError(f"{drive.dev_name} has no {name}")
            first = {s.name: s.value for s in physics.spec.options if s.name in one.resets}
            physics.set_options({**physics.options, **first, name: value})

    def option_values(self, drive: DriveReport) -> Tuple[OptionValue, ...]:
        """Those that its drive model has."""
        return _values(self._find(drive).physics)

    def time_flushes(
        self, drive: DriveReport, osd_id: int, role: Role, count: int,
        seconds_max: float, latency_limit_ms: float, spread_s: float = 0.0,
    ) -> SamplesOutcome:
        """What a timer would have measured within `seconds_max` simulated seconds."""
        measured = self._osd(osd_id).measure(
            LoadPoint.FDATASYNC_TIMER, self._now_ns(), count, spread_s or seconds_max,
            role=role, spread=spread_s > 0,
        )
        samples: List[int] = []
        aborted = ""
        for latency_ns in measured.latencies_ns:
            samples.append(latency_ns)
            if latency_ns > latency_limit_ms * 1e6:
                aborted = f"a flush took {latency_ns / 1e6:.1f} ms"
                break
        elapsed_ns = measured.elapsed_ns if spread_s > 0 else sum(samples)
        self._skipped_ns += elapsed_ns
        at_ns = measured.at_ns[: len(samples)] if spread_s > 0 else ()
        return SamplesOutcome(tuple(samples), elapsed_ns / NS_PER_S, 0, aborted, at_ns)

    def measure(
        self, drive: DriveReport, osd_id: int, load_point: LoadPoint, count: int,
        spread_s: float = 0.0,
    ) -> SamplesOutcome:
        """What the OSD would have measured."""
        measured: Measured = self._osd(osd_id).measure(
            load_point, self._now_ns(), count, spread_s, spread=spread_s > 0
        )
        self._skipped_ns += measured.elapsed_ns
        return SamplesOutcome(
            tuple(measured.latencies_ns), measured.seconds, measured.bytes_written,
            at_ns=measured.at_ns if spread_s > 0 else (),
        )

    # ---- small things

    def _now_ns(self) -> int:
        return self._clock_ns() + self._skipped_ns

    def _find(self, drive: DriveReport) -> _Drive:
        self._follow()
        found = self._drives.get(drive.drive_id)
        if found is None:
            raise NotFoundError(f"{drive.dev_name} is not on this host")
        return found

    def _osd(self, osd_id: int) -> SimulatedOsd:
        found = self._osds.get(osd_id)
        if found is None:
            raise NotFoundError(f"osd.{osd_id} is not simulated on this host")
        return found

    def _report(self, drive: _Drive) -> DriveReport:
        spec = drive.placed.spec
        refusals = (Refusal(
            RefusalKind.UNPROVEN, "its SAS adapter translates, and the read-back is not proven"
        ),) if drive.transport is Transport.SATA_HBA else ()
        report = DriveReport(
            drive_id=drive.placed.wwn,
            domain_id=drive.placed.wwn,
            dev_name=drive.name,
            drive_model=DriveModel(spec.vendor, spec.model, spec.firmware),
            transport=drive.transport,
            state=DriveState(DeviceCache.UNKNOWN, KernelView.UNKNOWN),
            serial=drive.placed.serial,
            wwn=drive.placed.wwn,
            host_driver="simulated",
            rotational=spec.rotational,
            size_bytes=spec.size_bytes,
            plp_hints=(PlpHint(True, "simulated"),) if spec.cache.power_loss_protection else (),
            refusals=refusals,
            wwid=f"naa.{drive.placed.wwn.removeprefix('0x')}",
        )
        state = self.state(report)
        uses = tuple(OsdUse(osd_id, role, state.layers) for osd_id, role in drive.placed.uses)
        state = replace(state, options=_values(drive.physics))
        return replace(report, state=state, uses=uses)

    # ---- the state file, which other processes of the probe change too

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Change what is set, on top of what others have set, and keep it."""
        self._before_change()
        with self._file.locked():
            self._follow()
            yield
            self._file.write(
                Settings(
                    STATE_VERSION, self._starts,
                    tuple(
                        DriveSetting(
                            drive_id, d.physics.mode, d.physics.saved, d.kernel_view, d.pinned,
                            _values(d.physics),
                        )
                        for drive_id, d in self._drives.items()
                    ),
                )
            )

    def _load(self) -> None:
        settings = self._file.news()
        if settings is None:
            return
        self._starts = settings.starts + 1
        self._take(settings)
        for drive in self._drives.values():
            # else a probe that was started again would measure the same noise again
            drive.physics.renew_noise(self._starts)

    def _follow(self) -> None:
        """Take what another process has set since."""
        settings = self._file.news()
        if settings is not None:
            self._take(settings)

    def _take(self, settings: Settings) -> None:
        for setting in settings.drives:
            drive = self._drives.get(setting.drive_id)
            if drive is not None:
                drive.physics.saved = setting.saved
                if drive.physics.mode is not setting.mode:
                    drive.physics.set_cache(setting.mode, self._now_ns())
                drive.pinned = setting.pinned
                drive.physics.set_options({v.name: v.value for v in setting.options})
                drive.kernel_view = setting.kernel_view


def _values(physics: SimulatedDrive) -> Tuple[OptionValue, ...]:
    return tuple(OptionValue(name, value) for name, value in physics.options.items())


def _name(placed: PlacedDrive, number: int) -> str:
    """A kernel name that says what it is."""
    prefix = {Transport.NVME: "nvme", Transport.LOOP: "loop"}.get(placed.spec.transport, "sd")
    suffix = "n1" if prefix == "nvme" else ""
    return f"sim-{prefix}{number}{suffix}"


def _kind(drive: _Drive) -> LayerKind:
    return LayerKind.LOOP if drive.transport is Transport.LOOP else LayerKind.DISK


def _view_at_boot(drive: _Drive) -> KernelView:
    """What the kernel takes the cache for at its first look.

    An NVMe view is set from identify (VWC) and stays; others are read from the drive.
    """
    if not drive.present:
        return KernelView.WRITE_THROUGH
    if drive.transport is Transport.NVME:
        return KernelView.WRITE_BACK
    return KernelView(drive.physics.mode.value)
