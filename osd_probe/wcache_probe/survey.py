"""One look at the host: OSDs, the drives below their roles, and who else is there."""

from __future__ import annotations

from collections import defaultdict
from typing import Dict, FrozenSet, List, Optional, Sequence, Tuple

from wcache.core.model import (
    DriveReport,
    DriveState,
    Finding,
    FindingCode,
    LayerKind,
    OsdUse,
    Severity,
)

from .block import foreign, osds, sysfs
from .block.host_files import HostFiles
from .block.osds import OsdDevices
from .block.stack import is_followed, paths_down, queues_on
from .block.sysfs import BlockDevice
from .transports.base import CacheReading, Identity, Switch
from .transports.classify import Switches

DRIVES_MAX = 1024


class Survey:
    """Everything of one look; made anew for each, since hosts change."""

    def __init__(
        self, files: HostFiles, switches: Switches, data_globs: Sequence[str],
        cluster_fsid: Optional[str],
    ) -> None:
        self._files = files
        self._switches = switches
        found = osds.discover(files, data_globs)
        self._ours = tuple(o for o in found if cluster_fsid in (None, o.cluster_fsid))
        self._uses: Dict[str, List[OsdUse]] = defaultdict(list)
        self._strangers: Dict[str, List[str]] = defaultdict(list)
        self._unfollowed: Dict[str, List[str]] = defaultdict(list)
        self._bottoms: Dict[str, BlockDevice] = {}
        self._lost: List[Finding] = []
        for osd in found:
            self._follow(osd, osd in self._ours)
        self._osd_numbers: FrozenSet[str] = frozenset(
            number for osd in found for _, number in osd.devices
        )
        self._foreign = foreign.find(files)

    def drives(self) -> Tuple[DriveReport, ...]:
        """Drives under our OSDs and every drive that shares a switch with one of them."""
        used = [self._bottoms[number] for number in self._uses]
        return self._reports(used)

    def domain(self, domain_id: str) -> Tuple[DriveReport, ...]:
        """The drives of a cache domain, used by an OSD or not; empty where there are none."""
        found = tuple(d for d in self.drives() if d.domain_id == domain_id)
        if found:
            return found
        for device in sysfs.all_disks(self._files):
            if device.kind in (LayerKind.DISK, LayerKind.LOOP) and not device.below():
                switch = self._switches.of(device)
                if device.size_bytes and switch.identify(device).domain_id == domain_id:
                    return self._reports([device])
        return ()

    def osd_findings(self) -> Tuple[Finding, ...]:
        """OSDs whose roles lead to no block device of this host."""
        return tuple(self._lost)

    def _follow(self, osd: OsdDevices, ours: bool) -> None:
        name = f"osd.{osd.osd_id}"
        for link in osd.unresolved if ours else ():
            self._lost.append(
                Finding(
                    FindingCode.UNKNOWN_LAYER, Severity.WARNING, name,
                    f"its {link} leads to no block device that it holds on this host",
                )
            )
        for role, number in osd.devices:
            top = sysfs.by_number(self._files, number)
            if top is None:
                continue
            for path in paths_down(top):
                drive = path.drive
                self._bottoms[drive.number] = drive
                if ours:
                    self._uses[drive.number].append(OsdUse(osd.osd_id, role, path.layers))
                else:
                    cluster = osd.cluster_fsid or "unknown"
                    self._strangers[drive.number].append(f"{name} of cluster {cluster}")
                if not is_followed(path):
                    names = [d.name for d in path.devices if d.kind is LayerKind.UNKNOWN]
                    self._unfollowed[drive.number] += names or [drive.name]

    def _reports(self, used: Sequence[BlockDevice]) -> Tuple[DriveReport, ...]:
        identities: Dict[str, Tuple[BlockDevice, Switch, Identity]] = {}
        for device in used:
            for sibling in (device, *self._switches.of(device).siblings(device)):
                if sibling.number not in identities and len(identities) < DRIVES_MAX:
                    switch = self._switches.of(sibling)
                    identities[sibling.number] = (sibling, switch, switch.identify(sibling))
        by_drive: Dict[str, List[Tuple[BlockDevice, Switch, Identity]]] = defaultdict(list)
        for item in identities.values():
            by_drive[item[2].drive_id].append(item)
        reports = [self._report(ways) for ways in by_drive.values()]
        return tuple(sorted(reports, key=lambda report: report.dev_name))

    def _report(self, ways: Sequence[Tuple[BlockDevice, Switch, Identity]]) -> DriveReport:
        device, switch, identity = ways[0]
        reading = switch.read(device)
        uses = tuple(dict.fromkeys(u for way in ways for u in self._uses[way[0].number]))
        shared = tuple(
            dict.fromkeys(
                text
                for way in ways
                for text in (
                    *self._foreign.of(way[0], self._osd_numbers),
                    *self._strangers[way[0].number],
                )
            )
        )
        odd = tuple(dict.fromkeys(n for way in ways for n in self._unfollowed[way[0].number]))
        refusal = switch.refusal
        if odd:
            refusal = f"{', '.join(odd[:4])} between it and its OSD cannot be followed"
        elif len(ways) > 1:
            names = ", ".join(way[0].name for way in ways)
            refusal = f"it is reached over several paths ({names})"
        return DriveReport(
            drive_id=identity.drive_id,
            domain_id=identity.domain_id,
            dev_name=device.name,
            drive_model=identity.drive_model,
            transport=switch.transport,
            state=state_of(device, switch, reading),
            serial=identity.serial,
            wwn=identity.wwn,
            host_driver=identity.host_driver,
            rotational=device.rotational,
            size_bytes=device.size_bytes,
            uses=tuple(sorted(uses, key=lambda use: (use.osd_id, use.role.value))),
            foreign_uses=shared,
            plp_hints=identity.plp_hints,
            toggle_refusal=refusal,
            findings=(*reading.findings, *_findings(device.name, reading, odd, shared)),
        )


def state_of(device: BlockDevice, switch: Switch, reading: CacheReading) -> DriveState:
    """The drive's answer together with what the kernel believes of every layer above it."""
    return DriveState(
        device_cache=reading.device_cache,
        kernel_view=device.kernel_view,
        pinned=switch.pinned(device),
        page=reading.page,
        layers=queues_on(device),
    )


def _findings(
    name: str, reading: CacheReading, odd: Sequence[str], shared: Sequence[str]
) -> List[Finding]:
    found = []
    if odd:
        found.append(
            Finding(
                FindingCode.UNKNOWN_LAYER, Severity.WARNING, name,
                f"{', '.join(odd[:4])} cannot be followed",
            )
        )
    if shared:
        found.append(
            Finding(FindingCode.SHARED_DRIVE, Severity.WARNING, name, "; ".join(shared[:4]))
        )
    saved, current = reading.page.saved, reading.device_cache.mode
    if saved is not None and current is not None and saved is not current:
        found.append(
            Finding(
                FindingCode.SAVED_DIFFERS, Severity.WARNING, name,
                f"saved is {saved.value}, current is {current.value}",
            )
        )
    return found
