"""Drives looked at by themselves: those of a journal entry, or one that just appeared.

Where to look is taken from what the kernel keeps in sysfs of each disk (VPD pages and
identify data that it read at the scan), which needs no command to a drive.  Only a disk
that may be the one that is meant is opened and asked who it is: a drive that hangs holds
up nobody but itself.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Dict, List, Optional, Sequence, Tuple

from wcache.core.drive.journal import JournalEntry, PriorDrive
from wcache.core.drive.safety import pinnable
from wcache.core.errors import NotFoundError, Refusal, RefusalKind, RefusedError, WcacheError
from wcache.core.model import CacheMode, DriveReport, KernelView, LayerKind, Transport

from ..safe_files import read_bytes
from .block import sysfs
from .block.host_files import HostFiles, printable, read_text
from .block.options import bcaches_on
from .block.sysfs import BlockDevice, layer_of, paths_down, queues_on, standing_on
from .persistence.udev_rule import RuleFolder, names_of
from .survey import WWID_CHARS_MAX, no_flush, report_of, unflushed, with_rule
from .transports.base import DriveIdentity, namesake_id, safe_id
from .transports.classify import Switches

SERIAL_CHARS_MIN = 4


@dataclass
class DrivesAlone:
    """Looks at single drives, with nothing asked of any other one."""

    files: HostFiles = field(default_factory=HostFiles)
    switches: Switches = field(default_factory=Switches)
    rules: RuleFolder = field(default_factory=RuleFolder)

    def here(self, entry: JournalEntry) -> Tuple[DriveReport, ...]:
        disks = self._disks()
        found: Dict[str, DriveReport] = {}
        for prior in entry.drives:
            for disk in _candidates(prior, disks):
                try:
                    report, siblings = self._read(disk, prior)
                except WcacheError:
                    continue
                found[disk.name] = report
                for other in siblings if pinnable(report.transport) else ():
                    with suppress(WcacheError):
                        if other.name not in found:
                            found[other.name] = self._read(other)[0]
        return tuple(found.values())

    def _disks(self) -> Tuple[BlockDevice, ...]:
        return tuple(
            disk for disk in sysfs.all_disks(self.files)
            if disk.kind in (LayerKind.DISK, LayerKind.LOOP)
        )

    def prior(self, entry: JournalEntry) -> Tuple[DriveReport, ...]:
        """Those of the entry's drives that are here now, read; the others are left out.

        RefusedError where one is reached over several paths: what is pinned on one is not
        pinned on the others.
        """
        disks = self._disks()
        found: List[DriveReport] = []
        meant: Dict[str, BlockDevice] = {}
        beside: Dict[str, BlockDevice] = {}
        comes_on = any(
            CacheMode.WRITE_BACK in (one.mode, one.state.page.saved if entry.persisted else None)
            for one in entry.drives
        )
        for prior in entry.drives:
            here = []
            for disk in _candidates(prior, disks):
                try:
                    report, siblings = self._read(disk, prior)
                except NotFoundError:
                    continue
                here.append(replace(report, domain_id=entry.domain_id))
                meant[disk.number] = disk
                beside.update({one.number: one for one in siblings})
            if len(here) > 1 and comes_on:
                names = ", ".join(report.dev_name for report in here)
                raise RefusedError(
                    f"{prior.dev_name} is reached over several paths now ({names})",
                    "leave one of them, then run `wcache-probe restore --all`",
                )
            found += here[:1]
        if comes_on:
            _refuse_newcomers(found, [one for n, one in beside.items() if n not in meant])
        return tuple(found)

    def appeared(self, dev_name: str, wwid: str) -> Tuple[DriveReport, ...]:
        """The drive of a disk and all that shares its switch, whatever its name is by now.

        Raises NotFoundError where it is not here.
        """
        disks = [disk for disk in sysfs.all_disks(self.files) if disk.wwid == wwid]
        disks.sort(key=lambda disk: disk.name != dev_name)
        if not disks:
            raise NotFoundError(f"{dev_name} is not the drive {printable(wwid)}")
        switch = self.switches.of(disks[0])
        return tuple(self._read(one)[0] for one in switch.siblings(disks[0]))

    def names(self, dev_name: str, wwid: str) -> Tuple[str, ...]:
        """The names that kernels give a disk; one with a T10 name is asked for its WWN."""
        wwn = ""
        if wwid.startswith("t10."):
            with suppress(WcacheError):
                found = self.appeared(dev_name, wwid)
                wwn = next((drive.wwn for drive in found if drive.dev_name == dev_name), "")
        return names_of(wwid, wwn)

    def members_on(self, drive: BlockDevice) -> Tuple[DriveReport, ...]:
        """All drives that a bcache device above a drive stands on, itself among them, read.

        The kernel links the cache device there as well (drivers/md/bcache/super.c,
        bcache_device_link()).  Raises WcacheError where one of them does not answer.
        """
        disks = {
            path.drive.number: path.drive for top in standing_on(drive)
            if top.kind is LayerKind.BCACHE for path in paths_down(top)
        }
        return tuple(
            replace(self._read(disk)[0], bcache=bcaches_on(disk)) for disk in disks.values()
        )

    def _read(
        self, disk: BlockDevice, prior: Optional[PriorDrive] = None
    ) -> Tuple[DriveReport, Tuple[BlockDevice, ...]]:
        """The drive of a disk, and the disks that share its switch.

        Raises NotFoundError where it is not the drive `prior`, whose id the report then has.
        """
        with sysfs.hold(disk) as device:
            switch = self.switches.of(device)
            known = switch.identify(device)
            if prior is not None and not _is_meant(prior, known):
                raise NotFoundError(
                    f"{disk.name} is {namesake_id(known)} and not {prior.drive_id}"
                )
            reading = with_rule(switch.read(device), device, self.rules)
            why = no_flush(switch, device, reading)
            report = replace(
                report_of(device, switch, known, reading),
                drive_id=known.drive_id if prior is None else prior.drive_id,
                refusals=(Refusal(RefusalKind.NO_FLUSH, why),) if why else (),
                findings=unflushed(device.name, known),
            )
            return report, switch.siblings(device)


def _refuse_newcomers(found: Sequence[DriveReport], later: Sequence[BlockDevice]) -> None:
    """Raise RefusedError where the cache of a drive that came later would come on unflushed."""
    names = ", ".join(one.dev_name for one in found)
    for other in later:
        layers = (layer_of(other), *queues_on(other))
        dropping = [la.name for la in layers if la.kernel_view is not KernelView.WRITE_BACK]
        if dropping:
            raise RefusedError(
                f"{other.name} shares the cache of {names} since, and {dropping[0]} does "
                "not flush", f"have {dropping[0]} flush, or take {other.name} away; then run "
                "`wcache-probe restore --all`",
            )


def _candidates(prior: PriorDrive, disks: Sequence[BlockDevice]) -> Tuple[BlockDevice, ...]:
    """The disks that may be the drive: by their names in sysfs, else by the name it had."""
    if prior.transport is Transport.LOOP:
        # the kernel has no name for one; asking a loop device costs its drive nothing
        return tuple(disk for disk in disks if disk.kind is LayerKind.LOOP)
    named = tuple(disk for disk in disks if _is_named(prior, disk))
    return named or tuple(disk for disk in disks if disk.name == prior.dev_name)


def _is_meant(prior: PriorDrive, known: DriveIdentity) -> bool:
    """Whether a disk says that it is the drive of an entry.

    Two drives may have one WWN: their serial numbers tell them apart.  One that had such a
    namesake when its entry was written has its serial number in its id, with the other gone too.
    """
    if known.drive_id != prior.drive_id:
        return namesake_id(known) == prior.drive_id
    return prior.serial in ("", known.serial)  # not every drive has one


def _is_named(prior: PriorDrive, disk: BlockDevice) -> bool:
    wwid = printable(disk.wwid, WWID_CHARS_MAX)
    if wwid and wwid in (prior.wwid, prior.wwn, prior.drive_id):
        return True
    serial = _serial(disk)
    if len(serial) < SERIAL_CHARS_MIN:
        return False
    return serial == prior.serial or safe_id(f":{serial}")[1:] in prior.drive_id


def _serial(disk: BlockDevice) -> str:
    """The serial number that the kernel read at the scan; empty where it keeps none."""
    page = read_bytes(os.path.join(disk.folder, "device", "vpd_pg80")) or b""
    if len(page) > 4:
        return printable(page[4:].decode("ascii", "replace").strip("\0 "))
    return printable(read_text(os.path.join(disk.folder, "device", "serial")) or "")
