"""The drives of this host: the real `DriveHost`.

Every call walks sysfs again, and every call that touches a drive first proves that the
device still is the drive that was meant.  All that is remembered is which drives did
not obey, over restarts: by a file each in the state folder.
"""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Callable, Iterator, Mapping, Optional, Sequence, Tuple

from wcache.core.codec import one_line
from wcache.core.drive.safety import FOR_THE_NEXT_BOOT, why_not_tried
from wcache.core.errors import (
    DisobeyedError,
    NotFoundError,
    RefusalKind,
    RefusedError,
    StorageError,
    left,
    told,
)
from wcache.core.hardware import Controller, DmCacheState, FlushCounters, HostMemory, OptionValue
from wcache.core.host_report import Disobedience, disobeyed
from wcache.core.model import (
    CacheMode,
    DriveReport,
    DriveState,
    Finding,
    KernelView,
    LayerKind,
    LoadPoint,
    Role,
    Transport,
)
from wcache.core.protocol import SamplesOutcome
from wcache.core.text import command, typed

from ..arguments import STATE_DIR
from ..evidence import EvidenceFolder
from . import set_up
from .block import options, osds, sysfs
from .block.foreign import WriterSearch
from .block.sysfs import BlockDevice, standing_on
from .drives_alone import DrivesAlone
from .persistence import foreign_rules
from .persistence.preparation import (
    Preparation,
    Prepared,
    boots_once,
    for_next_boot,
    with_next_boot,
)
from .persistence.udev_rule import matches, pattern
from .survey import Survey, state_of, with_rule
from .timing import time_flushes
from .transports.base import Switch, namesake_id
from .transports.classify import Switches
from .transports.loop import refuse_false_flush
from .transports.nvme import NvmeError
from .transports.sata import SataHbaSwitch
from .transports.sg_io import ScsiError
from .vendor.tool import WearReader

DM_CACHES_MAX = 16
_MAY_CACHE = (LayerKind.LVM, LayerKind.DM)


@dataclass
class LinuxDriveHost(DrivesAlone):
    """Drives under the OSDs of one host, through sysfs and ioctls.

    `cluster_fsid` limits it to the OSDs of one cluster: drives used by OSDs of another
    are then shared.  None takes every OSD that is found (a restore with no mgr at hand).
    The port (`ports.DriveHost`) says what a method without a word does.
    """

    switches: Switches = field(
        default_factory=lambda: Switches(proofs=EvidenceFolder(STATE_DIR).proofs)
    )
    osd_data_globs: Sequence[str] = osds.DEFAULT_DATA_GLOBS
    cluster_fsid: Optional[str] = None
    boot_pins: Callable[[], Prepared] = field(
        default_factory=lambda: Preparation("/", STATE_DIR).look
    )
    find_foreign_rules: Callable[[], Sequence[Finding]] = foreign_rules.find
    wear: WearReader = field(default_factory=lambda: WearReader(lambda: None))
    controllers: Callable[[], Tuple[Controller, ...]] = tuple
    dm_caches: Callable[[], Mapping[str, DmCacheState]] = dict
    evidence: EvidenceFolder = field(default_factory=lambda: EvidenceFolder(STATE_DIR))
    clock_ns: Callable[[], int] = time.monotonic_ns
    sleep: Callable[[float], None] = time.sleep
    _before_change: Callable[[], None] = lambda: None
    _looked: Optional[Survey] = None  # of a look whose findings nobody has asked for yet

    def __post_init__(self) -> None:
        self.lost_writes = self.evidence.lost_writes
        self.remembers = self.evidence.is_there
        self._writers = WriterSearch(self.files, self.sleep)

    def watched_by(self, at: Callable[[str], None], before_change: Callable[[], None]) -> None:
        self.files = replace(self.files, at=at)
        self._before_change = before_change

    def _survey(self) -> Survey:
        return Survey(
            self.files, self.switches, self.rules, self._writers, self.osd_data_globs,
            self.cluster_fsid, self.boot_pins(),
        )

    def look(self) -> Tuple[DriveReport, ...]:
        """Every drive that an OSD of this host uses, and every drive that shares its switch."""
        self._looked = self._survey()
        self.wear.begin()
        caches = self.dm_caches()
        return tuple(
            replace(
                self._with_memory(drive), dm_caches=self.dm_caches_on(drive.dev_name, caches),
                wear=self.wear.read(drive),
            )
            for drive in self._looked.drives()
        )

    def dm_caches_on(
        self, dev_name: str, known: Mapping[str, DmCacheState]
    ) -> Tuple[DmCacheState, ...]:
        """Those of the known ones that stand on a disk; none where it has gone."""
        try:
            drive = sysfs.by_name(self.files, dev_name)
        except NotFoundError:
            return ()
        names = [one.dm_name for one in standing_on(drive) if one.kind in _MAY_CACHE]
        found = [known[name] for name in names if name in known]
        return tuple(found[:DM_CACHES_MAX])

    def _with_memory(self, drive: DriveReport) -> DriveReport:
        """The report of a drive, with what it did when it was told to change, if it did not obey.

        That counts no more where its firmware has changed, or somebody has put it into that mode.
        """
        known = self.evidence.disobeyed().get(drive.drive_id)
        if known is None or not known.holds_of(drive):
            return drive
        again = command("wcache-probe accept --disobeyed {}", known.domain_id)
        return disobeyed(drive, known.answer, f"to have it tried again, on its host: {again}")

    def _remember(self, drive: DriveReport, asked: CacheMode, answer: str) -> None:
        self.evidence.put_disobeyed(Disobedience(
            drive.drive_id, drive.domain_id, drive.drive_model, asked, one_line(answer, 300),
            time.time(),
        ))

    def host_findings(self) -> Tuple[Finding, ...]:
        """What could not be followed or seen, by the look just before, and who sets caches."""
        survey, self._looked = self._looked or self._survey(), None
        return (*survey.host_findings(), *self.find_foreign_rules())

    def memory(self) -> Optional[HostMemory]:
        return set_up.memory_of(self.files, osds.discover(self.files, self.osd_data_globs))

    def domain(self, domain_id: str) -> Tuple[DriveReport, ...]:
        """The drives of a cache domain, also where no OSD uses them any more."""
        found = self._survey().domain(domain_id)
        if not found:
            raise NotFoundError(
                f"there is no cache domain {domain_id!r} on this host",
                "see `ceph wcache drive ls`",
            )
        return tuple(
            replace(self._with_memory(drive), wear=self.wear.known(drive)) for drive in found
        )

    def with_users(self, drives: Sequence[DriveReport]) -> Tuple[DriveReport, ...]:
        """The same with who uses them beside OSDs, which no drive is asked for."""
        survey = self._survey()
        return tuple(
            survey.with_users(drive, sysfs.by_name(self.files, drive.dev_name))
            for drive in drives
        )

    def anew(self, drives: Sequence[DriveReport]) -> Tuple[DriveReport, ...]:
        pins = self.boot_pins()
        return tuple(
            # one that is refused may be one that answers no command: it is not asked again
            drive if left(drive.refusals, FOR_THE_NEXT_BOOT | {RefusalKind.DISOBEYED})
            else with_next_boot(replace(drive, state=self.state(drive)), pins)
            for drive in drives
        )

    def state(self, drive: DriveReport) -> DriveState:
        with self._held(drive) as (device, switch):
            return state_of(device, switch, with_rule(switch.read(device), device, self.rules))

    def counters(self, drive: DriveReport) -> Optional[FlushCounters]:
        with self._held(drive) as (device, _):
            return device.counters(self.clock_ns())

    def pin(self, drive: DriveReport) -> None:
        with self._held(drive, to_change=True) as (device, switch):
            switch.pin(device)

    def flush(self, drive: DriveReport) -> None:
        with self._held(drive) as (device, switch):
            switch.flush(device)

    def set_cache(self, drive: DriveReport, mode: CacheMode) -> None:
        with self._held(drive, to_change=True) as (device, switch):
            try:
                try:
                    switch.set_cache(device, mode)
                except ScsiError as error:
                    if not error.aborted:
                        raise
                    self._before_change()  # the first one may have taken long
                    switch.set_cache(device, mode)
            except (ScsiError, NvmeError) as error:
                now = switch.read(device).device_cache
                twice = isinstance(error, ScsiError) and error.aborted
                if not (error.refuses or twice) or now.mode is not mode.other:
                    raise
                said = f"it does not let its cache be put into {mode.value} ({error.message})"
                self._remember(drive, mode, said)
                raise DisobeyedError(
                    f"{device.name}: {said}; it stays {now.value}",
                    "it is left alone from now on: see WCACHE_TOGGLE_INEFFECTIVE",
                ) from None
            if switch.transport is not Transport.LOOP:
                self._require_mode(drive, device, switch, mode)

    def _require_mode(
        self, drive: DriveReport, device: BlockDevice, switch: Switch, mode: CacheMode
    ) -> None:
        """Raise RefusedError where the drive took the command and not the mode."""
        now = switch.read(device).device_cache
        if now.mode is mode:
            with suppress(StorageError):
                self.evidence.forget_disobeyed(drive.drive_id)
            return
        text = f"told to become {mode.value}, it stays {now.value}"
        if now.mode is not mode.other:
            raise RefusedError(f"{device.name}: {text}", "look at the drive")
        self._remember(drive, mode, text)
        raise DisobeyedError(f"{device.name}: {text}", "its firmware may hold its cache")

    def save_cache(
        self, drive: DriveReport, mode: Optional[CacheMode], saved: Optional[CacheMode]
    ) -> None:
        with self._held(drive, to_change=True) as (device, switch):
            if mode is not None:
                if not switch.save(device, mode):
                    self._refuse_namesake(device)
                    self.rules.write(device.wwid, mode)
            elif saved is None:
                for wwid in {device.wwid, drive.wwid}:
                    self.rules.remove(wwid)
            elif not switch.save(device, saved):
                self.rules.write(device.wwid, saved)

    def bcache_members(self, drive: DriveReport) -> Tuple[DriveReport, ...]:
        """The drives below each bcache device above a drive, whether an OSD uses it or not."""
        with self._held(drive) as (device, _):
            return tuple(
                replace(one, drive_id=drive.drive_id) if one.dev_name == device.name else one
                for one in self.members_on(device)
            )

    def set_option(
        self, drive: DriveReport, name: str, value: str, *, back: bool = False
    ) -> None:
        """Set an option of a drive that is not left alone; what was there goes back on any."""
        with self._held(drive, to_change=not back) as (device, switch):
            # its id has its serial number where another disk had its name at the look
            if not back and drive.drive_id != switch.identify(device).drive_id:
                raise RefusedError(
                    f"{device.name}: another disk has the same name ({device.wwid})",
                    "take that one away: which of them was changed must stay plain",
                )
            options.set_option(device, name, value, back=back)

    def option_values(self, drive: DriveReport) -> Tuple[OptionValue, ...]:
        with self._held(drive) as (device, _):
            return options.values_on(device)

    def _refuse_namesake(self, device: BlockDevice) -> None:
        """Raise RefusedError where the drive has no name, or another disk has the same."""
        wanted = pattern(device.wwid)
        same = [name for name, wwid in self.disks() if matches(wanted, wwid)]
        if same != [device.name]:
            raise RefusedError(
                f"{device.name} cannot keep a cache mode over a power cycle",
                "it saves none and has no wwid of its own that a udev rule could match",
            )

    def drive_of(self, device: BlockDevice) -> DriveReport:
        """The drive that a disk is, used by an OSD or not."""
        return self._with_memory(self._survey().report_of(device))

    def again(self, drive: DriveReport) -> DriveReport:
        """The same drive, with all that speaks against it now."""
        found = self.drive_of(sysfs.by_name(self.files, drive.dev_name))
        if found.drive_id != drive.drive_id:
            raise NotFoundError(f"{drive.dev_name} is another drive now", "start again")
        return found

    def disks(self) -> Tuple[Tuple[str, str], ...]:
        """Kernel name and wwid of every disk of the host."""
        return tuple((disk.name, disk.wwid) for disk in sysfs.all_disks(self.files))

    def time_flushes(
        self, drive: DriveReport, osd_id: int, role: Role, count: int,
        seconds_max: float, latency_limit_ms: float, spread_s: float = 0.0,
    ) -> SamplesOutcome:
        with self._held(drive) as (drive_device, switch):
            refuse_false_flush(drive_device, switch.transport, self.files)
        tops = [use.layers[0] for use in drive.uses if use.layers
                and (use.osd_id, use.role) == (osd_id, role)]
        if not tops:
            raise NotFoundError(f"{drive.dev_name} is not the {role.value} device of osd.{osd_id}")
        top = sysfs.by_name(self.files, tops[0].name)
        if switch.transport is not Transport.LOOP and (
            top.kernel_view is KernelView.WRITE_THROUGH
        ):
            raise RefusedError(
                f"the kernel sends no flush to {top.name}, so there is none to time",
                "under a lease the drive is pinned and can be timed",
            )
        return time_flushes(top, count, seconds_max, latency_limit_ms, spread_s)

    def measure(
        self, drive: DriveReport, osd_id: int, load_point: LoadPoint, count: int,
        spread_s: float = 0.0,
    ) -> SamplesOutcome:
        """Refused: on a real host the OSD itself is asked."""
        raise RefusedError("this is a real host: its OSDs measure, not the probe")

    @contextmanager
    def _held(
        self, drive: DriveReport, to_change: bool = False
    ) -> Iterator[Tuple[BlockDevice, Switch]]:
        """The device of a drive, held open: what was identified is what is changed.

        Raises NotFoundError where its name is another drive now, RefusedError where it is
        to be changed and must not be.
        """
        with sysfs.hold(sysfs.by_name(self.files, drive.dev_name)) as device:
            switch = self.switches.of(device)
            found = switch.identify(device)
            if drive.drive_id not in (found.drive_id, namesake_id(found)):
                raise NotFoundError(
                    f"{drive.dev_name} is now {found.drive_id} and no longer {drive.drive_id}",
                    "look again: drives were added or removed",
                )
            refusal = switch.refusal or found.refusal
            if to_change and refusal:
                raise RefusedError(f"{device.name} is left alone: {refusal}")
            if to_change:  # to open it and to hear who it is may have taken for ever
                self._before_change()
            yield device, switch

    @contextmanager
    def held_to_prove(
        self, drive: DriveReport
    ) -> Iterator[Tuple[BlockDevice, SataHbaSwitch]]:
        """A drive behind a translation, held open, for a trial that is journalled and pinned.

        Raises RefusedError where anything but the missing proof speaks against it.
        """
        with self._held(drive, to_change=True) as (device, switch):
            if not isinstance(switch, SataHbaSwitch):
                raise RefusedError(
                    f"{device.name} has no translation that could be proven",
                    "give a SATA drive behind a SAS adapter; `wcache-probe look` shows transports",
                )
            other = why_not_tried(drive)
            if other:
                raise RefusedError(
                    f"{device.name} is left alone: {other}",
                    "give another drive of this model, or end what speaks against this one",
                )
            lacks = told(for_next_boot(drive, self.boot_pins()))
            if lacks:
                prepare = typed("wcache-probe prepare --scratch {}", f"/dev/{device.name}")
                raise RefusedError(
                    f"{device.name}: {lacks}", "" if boots_once(lacks) else prepare
                )
            yield device, switch
