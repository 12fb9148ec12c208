"""Deal the drives of a file to hosts and OSDs: who has which drive in which role."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Dict, List, Mapping, Tuple

from wcache.core.model import Role, Transport

from .drive_schema import DriveFile, DriveModelSpec


@dataclass(frozen=True)
class PlacedDrive:
    """One drive on its host; `uses` lists the OSDs on it and the role it has for each."""

    spec: DriveModelSpec
    index: int  # among the drives of its drive model
    name: str
    host: str
    serial: str
    wwn: str
    uses: Tuple[Tuple[int, Role], ...] = ()

    @property
    def device_class(self) -> str:
        """The CRUSH device class its OSDs get."""
        if self.spec.placement.device_class:
            return self.spec.placement.device_class
        if self.spec.rotational:
            return "hdd"
        return "nvme" if self.spec.transport is Transport.NVME else "ssd"


@dataclass
class _Host:
    osds: List[int] = field(default_factory=list)
    served: Dict[Role, int] = field(default_factory=dict)


def place(drives: DriveFile) -> Tuple[PlacedDrive, ...]:
    """Every drive of the file, in its order, with its host and its OSDs.

    Each drive model is dealt to its hosts in turn.  Each block drive carries
    `osds_per_drive` OSDs of its own, numbered from 0 in the order of the file; a DB or
    WAL drive then serves the next OSDs of its host that have none yet.
    """
    hosts: Dict[str, _Host] = {}
    uses: Dict[Tuple[str, int], Tuple[Tuple[int, Role], ...]] = {}
    next_osd = 0
    for spec, index, host in _dealt(drives):
        if spec.placement.role is Role.BLOCK:
            ids = list(range(next_osd, next_osd + spec.placement.osds_per_drive))
            next_osd += len(ids)
            hosts.setdefault(host, _Host()).osds.extend(ids)
            uses[spec.name, index] = tuple((osd_id, Role.BLOCK) for osd_id in ids)
    for spec, index, host in _dealt(drives):
        role = spec.placement.role
        if role is not Role.BLOCK:
            there = hosts.setdefault(host, _Host())
            start = there.served.get(role, 0)
            end = start + spec.placement.osds_per_drive
            ids = there.osds[start:end]
            there.served[role] = start + len(ids)
            uses[spec.name, index] = tuple((osd_id, role) for osd_id in ids)
    return tuple(
        PlacedDrive(
            spec=spec,
            index=index,
            name=spec.name if spec.count == 1 else f"{spec.name}-{index}",
            host=host,
            serial=spec.serial or _digest(spec.name, index, "serial")[:16].upper(),
            wwn=spec.wwn or "0x5" + _digest(spec.name, index, "wwn")[:15],
            uses=uses[spec.name, index],
        )
        for spec, index, host in _dealt(drives)
    )


def osd_roles(placed: Tuple[PlacedDrive, ...]) -> Mapping[int, Mapping[Role, PlacedDrive]]:
    """For each OSD its drives by role."""
    found: Dict[int, Dict[Role, PlacedDrive]] = {}
    for drive in placed:
        for osd_id, role in drive.uses:
            found.setdefault(osd_id, {})[role] = drive
    return found


def _dealt(drives: DriveFile) -> List[Tuple[DriveModelSpec, int, str]]:
    dealt = []
    for spec in drives.drives:
        hosts = spec.placement.hosts
        for index in range(spec.count):
            dealt.append((spec, index, hosts[index % len(hosts)]))
    return dealt


def _digest(name: str, index: int, what: str) -> str:
    return hashlib.sha256(f"{what} {name} {index}".encode()).hexdigest()
