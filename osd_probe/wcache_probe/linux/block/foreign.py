"""Who else uses a drive: file systems, swap, exports of the kernel, other programs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Dict, List, Mapping, Set, Tuple

from . import exports
from .host_files import HostFiles, entries, printable, read_table, unescape
from .stack import standing_on
from .sysfs import BlockDevice

NAMESPACES_MAX = 256


@dataclass(frozen=True)
class ForeignUses:
    """What holds each block device of the host, by number ("8:1")."""

    files: HostFiles
    by_number: Dict[str, Tuple[str, ...]]

    def of(self, drive: BlockDevice) -> Tuple[str, ...]:
        """All users of a drive, or of anything that stands on it, OSD devices too."""
        found: List[str] = []
        for device in (drive, *standing_on(drive)):
            label = exports.label_of(self.files, device)
            uses = (*self.by_number.get(device.number, ()), *([label] if label else ()))
            found += [f"{device.name} {use}" for use in uses]
        return tuple(dict.fromkeys(found))[:16]


def find(files: HostFiles, writers: Mapping[str, Tuple[str, ...]]) -> ForeignUses:
    """Mounts in every mount namespace of the host, swaps, exports, and the given writers."""
    uses: Dict[str, List[str]] = {}
    for number, text in _mounts(files) | _swaps(files) | exports.find(files):
        uses.setdefault(number, []).append(text)
    for number, texts in writers.items():
        uses.setdefault(number, []).extend(texts)
    return ForeignUses(files, {n: tuple(sorted(texts)) for n, texts in uses.items()})


def _mounts(files: HostFiles) -> Set[Tuple[str, str]]:
    """Numbers and mount points; btrfs and overlay show through their mount source."""
    found = set()
    for table in _mount_tables(files):
        for line in read_table(table):
            fields = line.split(" ")
            if len(fields) < 10 or "-" not in fields[6:]:
                continue
            source = fields[fields.index("-", 6) + 2 : fields.index("-", 6) + 3]
            text = f"mounted on {printable(unescape(fields[4]))}"
            found.add((fields[2], text))
            number = files.number_of_word(unescape(source[0])) if source else None
            if number:
                found.add((number, text))
    return found


def _mount_tables(files: HostFiles) -> List[str]:
    """One mountinfo for each mount namespace: a container may have mounted what we have not."""
    seen: Dict[str, str] = {}
    for name in ("self", *(n for n in entries(files.proc) if n.isdigit())):
        if len(seen) >= NAMESPACES_MAX:
            break
        process = os.path.join(files.proc, name)
        try:
            namespace = os.readlink(os.path.join(process, "ns", "mnt"))
        except OSError:
            namespace = "self" if name == "self" else ""
        if namespace and namespace not in seen:
            seen[namespace] = os.path.join(process, "mountinfo")
    return list(seen.values())


def _swaps(files: HostFiles) -> Set[Tuple[str, str]]:
    found = set()
    for line in read_table(os.path.join(files.proc, "swaps"))[1:]:
        number = files.number_of_word(unescape(line.split(" ")[0].split("\t")[0]))
        if number:
            found.add((number, "used as swap"))
    return found
