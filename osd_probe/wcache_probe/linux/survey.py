"""One look at the host: OSDs, the drives below their roles, who else is there."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from wcache.core.drive.safety import Safety, judge
from wcache.core.errors import NotFoundError, Refusal, RefusalKind, WcacheError
from wcache.core.hardware import BcacheState
from wcache.core.model import (
    Cure,
    DeviceCache,
    DriveReport,
    DriveState,
    Finding,
    FindingCode,
    LayerKind,
    OsdUse,
    Severity,
    Transport,
)

from . import set_up
from .block import foreign, osds, sysfs
from .block.foreign import WriterSearch, is_rig
from .block.host_files import HostFiles, printable
from .block.options import bcaches_on, values_on
from .block.osds import OsdDevices
from .block.sysfs import BlockDevice, is_followed, paths_down, queues_on
from .persistence.preparation import Prepared, with_next_boot
from .persistence.udev_rule import RuleFolder
from .transports.base import CacheReading, DriveIdentity, Switch, namesake_id
from .transports.classify import Switches

DRIVES_MAX = 1024
LEFT_OUT_MAX = 16
WWID_CHARS_MAX = 512
IF_IT_IS_ONE = (
    "what it holds counts as used by others; an OSD runs as root or ceph, and no other user may "
    "open its device or change its data folder"
)

# A disk, what switches its cache, who it is, and why it could not say so, if it could not.
Way = Tuple[BlockDevice, Switch, DriveIdentity, str]


class Survey:
    """Everything of one look; made anew for each, since hosts change."""

    def __init__(
        self, files: HostFiles, switches: Switches, rules: RuleFolder, writers: WriterSearch,
        data_globs: Sequence[str], cluster_fsid: Optional[str], prepared: Prepared,
    ) -> None:
        self._files = files
        self._prepared = prepared
        self._switches = switches
        self._rules = rules
        left_out: List[str] = []
        found = osds.discover(files, data_globs, left_out.append)
        self._ours = tuple(o for o in found if cluster_fsid in (None, o.cluster_fsid))
        self._uses: Dict[str, List[OsdUse]] = defaultdict(list)
        self._strangers: Dict[str, List[str]] = defaultdict(list)
        self._unfollowed: Dict[str, List[str]] = defaultdict(list)
        self._bottoms: Dict[str, BlockDevice] = {}
        # no warning: any user can call a process so
        self._lost = [
            Finding(FindingCode.UNKNOWN_LAYER, Severity.INFO, "ceph-osd", f"{why}; {IF_IT_IS_ONE}")
            for why in left_out[:LEFT_OUT_MAX]
        ]
        for osd in found:
            self._follow(osd, osd in self._ours)
        seen = writers.find(frozenset(
            (osd.pid, number) for osd in found for _, number in osd.devices if osd.pid
        ))
        self._foreign = foreign.find(files, seen.by_number)
        self._blind = seen.unknown or self._foreign.unknown

    def drives(self) -> Tuple[DriveReport, ...]:
        """Drives under our OSDs and every drive that shares a switch with one of them."""
        return self._reports([self._bottoms[number] for number in self._uses])

    def domain(self, domain_id: str) -> Tuple[DriveReport, ...]:
        """The drives of a cache domain, used by an OSD or not; empty where there are none.

        The others are asked who they are, since any may be a path to it, and nothing more;
        not even that where the kernel has named them otherwise.
        """
        used = [self._bottoms[number] for number in self._uses]
        found = self._reports(self._maybe_of(domain_id, used), domain_id)
        if found:
            return found
        for device in sysfs.all_disks(self._files):
            if device.kind in (LayerKind.DISK, LayerKind.LOOP) and device.size_bytes:
                _, identity, _ = self._known(device)
                if identity.domain_id == domain_id:
                    return self._reports([device])
        return ()

    def _maybe_of(self, domain_id: str, used: Sequence[BlockDevice]) -> Sequence[BlockDevice]:
        """Those of the devices that may be a path to a cache domain.

        Where the kernel's name of one is that of the domain, and the drive itself confirms it,
        one with another name is another drive: of all paths to one LUN the kernel reads the same
        (drivers/scsi/scsi_lib.c, scsi_vpd_lun_id).  One without such a name may be anything.
        A domain of several LUNs has the name of one of them, so there it says nothing.
        """
        if not domain_id.startswith("naa."):
            return used
        named = [device for device in used if device.wwid == domain_id]
        if any(len(self._switches.of(device).siblings(device)) > 1 for device in named):
            return used
        if not any(self._known(device)[1].domain_id == domain_id for device in named):
            return used
        return [
            device for device in used
            if device in named or not device.wwid.startswith("naa.")
        ]

    def report_of(self, device: BlockDevice) -> DriveReport:
        """The drive of a disk, whether an OSD uses it or not."""
        for report in self._reports([device]):
            if report.dev_name == device.name:
                return report
        raise NotFoundError(f"{device.name} is reached over several paths")

    def _known(self, device: BlockDevice) -> Tuple[Switch, DriveIdentity, str]:
        """The switch of a drive, who it is, and why it could not say so, if it could not.

        A drive that answers nothing must not hide the others, so it is shown by its name.
        """
        switch = self._switches.of(device)
        try:
            return switch, switch.identify(device), ""
        except WcacheError as error:
            return switch, Switch().identify(device), error.message

    def with_users(self, report: DriveReport, device: BlockDevice) -> DriveReport:
        """The report of a drive with who uses it beside OSDs, and what may hide others."""
        unseen = (Refusal(RefusalKind.UNSEEN, self._unseen),) if self._unseen else ()
        return replace(
            report, foreign_uses=self._users([device]), refusals=(*report.refusals, *unseen)
        )

    @property
    def _unseen(self) -> str:
        return f"other programs may use it: {self._blind}" if self._blind else ""

    def _users(self, devices: Iterable[BlockDevice]) -> Tuple[str, ...]:
        """Who uses any of some disks, and is no OSD of ours."""
        return tuple(dict.fromkeys(
            text for device in devices
            for text in (*self._foreign.of(device), *self._strangers[device.number])
        ))

    def host_findings(self) -> Tuple[Finding, ...]:
        """OSDs whose roles lead to no block device of this host, and what cannot be seen."""
        text = f"whether other programs use the drives is unknown: {self._blind}"
        blind = Finding(
            FindingCode.SHARED_DRIVE, Severity.WARNING, "other programs", text,
            Cure.LET_PROBE_SEE,
        )
        return (
            *self._lost, *([blind] if self._blind else ()),
            *set_up.of_host(self._files, self._ours),
        )

    def _follow(self, osd: OsdDevices, ours: bool) -> None:
        name = f"osd.{osd.osd_id}"
        for link in osd.unresolved if ours else ():
            self._lose(name, f"its {link} leads to no block device that it holds here")
        for role, number in osd.devices:
            top = sysfs.by_number(self._files, number)
            paths = paths_down(top) if top else ()
            if ours and not paths:
                self._lose(name, f"its {role.value} device {number} leads to no drive")
            for path in paths:
                drive = path.drive
                self._bottoms[drive.number] = drive
                if osd.rivals:
                    pids = ", ".join(map(str, sorted((osd.pid, *osd.rivals))))
                    self._strangers[drive.number].append(
                        f"several processes say that they are {name} (pids {pids})"
                    )
                if ours:
                    self._uses[drive.number].append(OsdUse(osd.osd_id, role, path.layers))
                else:
                    cluster = osd.cluster_fsid or "unknown"
                    self._strangers[drive.number].append(f"{name} of cluster {cluster}")
                if not is_followed(path):
                    names = [d.name for d in path.devices if d.kind is LayerKind.UNKNOWN]
                    self._unfollowed[drive.number] += names or [drive.name]

    def _lose(self, osd: str, text: str) -> None:
        self._lost.append(Finding(FindingCode.UNKNOWN_LAYER, Severity.WARNING, osd, text))

    def _reports(
        self, used: Sequence[BlockDevice], domain_id: Optional[str] = None
    ) -> Tuple[DriveReport, ...]:
        """Drives with what shares a switch with them; where one is named, of that domain only."""
        ways: Dict[str, Way] = {}
        for device in used:
            for sibling in (device, *self._switches.of(device).siblings(device)):
                if sibling.number not in ways and len(ways) < DRIVES_MAX:
                    ways[sibling.number] = (sibling, *self._known(sibling))
        shown = set(ways)
        for namesake in self._of_the_same_name([way[0] for way in ways.values()]):
            if len(ways) < DRIVES_MAX:
                ways[namesake.number] = (namesake, *self._known(namesake))
        by_drive: Dict[Tuple[str, str], List[Way]] = defaultdict(list)
        for way in ways.values():
            by_drive[way[2].drive_id, way[2].serial].append(way)
        reports = [
            self._report(group, _namesakes(group, ways.values()), _apart(group, ways))
            for group in by_drive.values()
            if domain_id in (None, group[0][2].domain_id)
            and any(way[0].number in shown for way in group)
        ]
        return tuple(sorted(reports, key=lambda report: report.dev_name))

    def _of_the_same_name(self, devices: Sequence[BlockDevice]) -> List[BlockDevice]:
        """Other disks that the kernel calls the same: another path, or another drive."""
        numbers = {device.number for device in devices}
        names = {device.wwid for device in devices} - {""}
        return [
            disk for disk in sysfs.all_disks(self._files)
            if disk.kind is LayerKind.DISK and disk.number not in numbers
            and disk.wwid in names and disk.size_bytes
        ] if names else []

    def _report(
        self, ways: Sequence[Way], namesakes: Sequence[Way], apart: Sequence[str]
    ) -> DriveReport:
        readings = [
            with_rule(
                CacheReading(DeviceCache.UNKNOWN) if silent else _read(switch, device), device,
                self._rules,
            ) for device, switch, _, silent in ways
        ]
        # of several paths the one that loses data is the one to tell of
        chosen = next((
            i for i, (device, switch, _, _) in enumerate(ways)
            if judge(state_of(device, switch, readings[i])) is Safety.UNSAFE
        ), 0)
        device, switch, identity, silent = ways[chosen]
        reading = readings[chosen]
        numbers = [way[0].number for way in ways]
        uses = tuple(dict.fromkeys(use for number in numbers for use in self._uses[number]))
        shared = self._users(way[0] for way in ways)
        odd = tuple(dict.fromkeys(n for number in numbers for n in self._unfollowed[number]))
        against = [(RefusalKind.LEFT_ALONE, why) for why in (
            switch.refusal, silent, identity.refusal, reading.refusal,
            f"{', '.join(odd[:4])} between it and its OSD cannot be followed" if odd else "",
            f"it is reached over several paths ({_names(ways)})" if len(ways) > 1 else "",
            f"another disk has the same name ({_names(namesakes[:4])}, "
            f"{device.wwid or identity.wwn})" if namesakes else "",
            f"{', '.join(apart[:4])}, on the same cache switch, does not say who it is: see "
            "`wcache-probe look`" if apart and not silent else "",
        )]
        against += [
            (RefusalKind.NO_FLUSH, "" if silent else no_flush(switch, device, reading)),
            (RefusalKind.UNPROVEN, identity.unproven),
        ]
        if not (switch.transport is Transport.LOOP and is_rig(self._files)):
            against.append((RefusalKind.UNSEEN, self._unseen))
        bcaches = bcaches_on(device)
        same_id = any(way[2].drive_id == identity.drive_id for way in namesakes)
        bare = report_of(device, switch, identity, reading)
        found = replace(
            bare,
            drive_id=namesake_id(identity) if same_id else identity.drive_id,
            state=replace(bare.state, options=values_on(device)),
            rotational=device.rotational,
            size_bytes=device.size_bytes,
            uses=tuple(sorted(uses, key=lambda use: (use.osd_id, use.role.value))),
            foreign_uses=shared,
            plp_hints=identity.plp_hints,
            refusals=tuple(Refusal(kind, why) for kind, why in against if why),
            findings=(
                *reading.findings, *_findings(device.name, switch, reading, odd, shared),
                *set_up.of_drive(self._files, device.name, uses),
                *unflushed(device.name, identity), *_of_bcaches(device.name, bcaches),
            ),
            bcache=bcaches,
        )
        return with_next_boot(found, self._prepared)


def _names(ways: Sequence[Way]) -> str:
    return ", ".join(way[0].name for way in ways)


def _namesakes(group: Sequence[Way], ways: Iterable[Way]) -> List[Way]:
    """Disks that are other drives than the group's, and have the name of one of it."""
    own = {way[0].number for way in group}
    names = {way[0].wwid for way in group} - {""}
    ids = {way[2].drive_id for way in group}
    return [
        way for way in ways
        if way[0].number not in own and (way[0].wwid in names or way[2].drive_id in ids)
    ]


def _apart(group: Sequence[Way], ways: Mapping[str, Way]) -> List[str]:
    """Disks on the switch of a drive that do not say that they are of its cache domain."""
    return list(dict.fromkeys(
        other.name for device, switch, identity, _ in group for other in switch.siblings(device)
        if other.number not in ways or ways[other.number][2].domain_id != identity.domain_id
    ))


def _read(switch: Switch, device: BlockDevice) -> CacheReading:
    try:
        return switch.read(device)
    except WcacheError as error:
        return CacheReading(DeviceCache.UNKNOWN, refusal=error.message)


def no_flush(switch: Switch, device: BlockDevice, reading: CacheReading) -> str:
    """Why a pin would make each flush of the drive fail; empty where it would not.

    A drive whose cache is on is sent flushes, or is to be; one that has none is never pinned.
    """
    off = reading.device_cache in (DeviceCache.WRITE_THROUGH, DeviceCache.UNKNOWN)
    return "" if switch.refusal or not off else switch.no_flush(device)


def with_rule(reading: CacheReading, device: BlockDevice, rules: RuleFolder) -> CacheReading:
    """The reading where a rule of ours stands in for a page that the drive cannot save."""
    if reading.page.saved is not None:
        return reading
    kept = rules.mode(device.wwid)
    page = replace(reading.page, saved=kept, by_rule=kept is not None)
    return replace(reading, page=page)


def state_of(device: BlockDevice, switch: Switch, reading: CacheReading) -> DriveState:
    """The drive's answer together with what the kernel believes of every layer above it."""
    return DriveState(
        device_cache=reading.device_cache,
        kernel_view=device.kernel_view,
        pinned=switch.pinned(device),
        page=reading.page,
        layers=queues_on(device),
    )


def report_of(
    device: BlockDevice, switch: Switch, identity: DriveIdentity, reading: CacheReading
) -> DriveReport:
    """Report what a drive itself says, and its layers; nothing of who uses it."""
    return DriveReport(
        identity.drive_id, identity.domain_id, device.name, identity.drive_model, switch.transport,
        state_of(device, switch, reading), serial=identity.serial, wwn=identity.wwn,
        host_driver=identity.host_driver, wwid=printable(device.wwid, WWID_CHARS_MAX),
    )


def unflushed(name: str, identity: DriveIdentity) -> Tuple[Finding, ...]:
    text = f"{identity.unflushed}: its cache is not turned on where it is found off"
    found = Finding(FindingCode.FLUSH_UNPROVEN, Severity.INFO, name, text)
    return (found,) if identity.unflushed else ()


def _of_bcaches(name: str, bcaches: Iterable[BcacheState]) -> List[Finding]:
    return [
        Finding(
            FindingCode.BCACHE_STATE,
            Severity.WARNING if one.state == "inconsistent" else Severity.INFO,
            name, f"{one.name}: {one.without_cache}",
        )
        for one in bcaches if one.without_cache and not one.is_cache
    ]


def _findings(
    name: str, switch: Switch, reading: CacheReading, odd: Sequence[str],
    shared: Sequence[str],
) -> List[Finding]:
    saved, current = reading.page.saved, reading.device_cache.mode
    said = (
        (FindingCode.RAID_POLICY, switch.refusal if switch.transport is Transport.RAID else ""),
        (FindingCode.NO_VOLATILE_CACHE, "the drive says that it has no volatile cache"
         if reading.device_cache is DeviceCache.NONE else ""),
        (FindingCode.UNKNOWN_LAYER, f"{', '.join(odd[:4])} cannot be followed" if odd else ""),
        (FindingCode.SHARED_DRIVE, "; ".join(shared[:4])),
        (FindingCode.SAVED_DIFFERS, f"saved is {saved.value}, current is {current.value}"
         if saved and current and saved is not current else ""),
    )
    return [
        Finding(
            code, Severity.INFO if code is FindingCode.NO_VOLATILE_CACHE else Severity.WARNING,
            name, text,
        )
        for code, text in said if text
    ]
