"""How drives, OSDs, device classes fit together, where that costs something.

From what OSDs and probes tell anyway.  What is measured goes with it; where no figure is known,
none is said.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Dict, Iterable, Iterator, List, Mapping, Optional, Set, Tuple

from ..cluster import OsdInfo
from ..config_database import Config
from ..host_report import HostReport
from ..model import DriveReport, Finding, FindingCode, LoadPoint, Role, Severity, Transport
from ..text import latency, named
from ..verdict.result import Result

NAMED_MAX = 8
NEVER_DISCARDED = (
    "the flash commits as slowly as a disk, takes discards, and the config database has no "
    "bdev_enable_discard: some flash writes slower once all of it was written to; what discards "
    "would gain is not known before they are tried"
)
# What flash does not take in its better mode for one commit, and a disk without a media cache does.
SLOW_FLASH_US = 8000.0
# bluestore_min_alloc_size of all classes since Ceph 16; before that up to 64 KiB.
MIN_ALLOC_BYTES = 4096
# Of the config database.  The last is older: it is what one thread is now.
ENABLE, THREADS, ASYNC = OPTIONS = (
    "bdev_enable_discard", "bdev_async_discard_threads", "bdev_async_discard",
)
NOTHING_SET = Config(())
ADVICE = (
    "the way drives, OSDs or hosts are set up costs latency, memory or space",
    "nothing is at risk, and no cache mode cures it: each line says what it costs, where that is "
    "known, and what would change it; do it when it suits, or leave it",
)
_ONE_AT_A_TIME = (Transport.SAS, Transport.SATA, Transport.SATA_HBA)
_OF_FLASH = ("ssd", "nvme")


def of_report(
    report: HostReport, osds: Mapping[int, OsdInfo], results: Iterable[Result] = (),
    config: Config = NOTHING_SET,
) -> List[Finding]:
    """A line for each kind of thing and host, with the drives or OSDs that it is about."""
    lines: Dict[str, List[str]] = defaultdict(list)
    slowest = _slow_flash(results)
    blocks = {
        (use.osd_id, drive.drive_id)
        for drive in report.drives for use in drive.uses if use.role is Role.BLOCK
    }
    for drive in report.drives:
        for what, text in _of_drive(drive, osds, blocks, slowest.get(drive.drive_id)):
            lines[text].append(what)
    for osd_id, text in _of_osds(report, osds, config):
        lines[text].append(f"osd.{osd_id}")
    for osd_id in _never_discarded(report, osds, slowest, config):
        lines[NEVER_DISCARDED].append(f"osd.{osd_id}")
    return [
        Finding(
            FindingCode.SETUP, Severity.INFO,
            f"{report.hostname} {named(list(dict.fromkeys(found)), NAMED_MAX)}", text,
        )
        for text, found in lines.items()
    ]


def _slow_flash(results: Iterable[Result]) -> Dict[str, float]:
    """Per drive, the latest median commit in its better mode."""
    found: Dict[str, Tuple[float, float]] = {}
    for one in results:
        modes = (one.a.p50_us, one.b.p50_us)
        if one.load_point is not LoadPoint.OSD_BENCH_DEPTH1 or None in modes:
            continue
        best = min(value or 0.0 for value in modes)
        if one.ended_at_s >= found.get(one.drive_id, (0.0, 0.0))[0]:
            found[one.drive_id] = (one.ended_at_s, best)
    return {drive_id: best for drive_id, (_, best) in found.items()}


def _of_drive(
    drive: DriveReport, osds: Mapping[int, OsdInfo], blocks: Set[Tuple[int, str]],
    best_us: Optional[float],
) -> List[Tuple[str, str]]:
    found = []
    name = drive.dev_name
    own = [use for use in drive.uses if use.role is Role.BLOCK]
    on_it = sorted({use.osd_id for use in own})
    classes = {osds[osd_id].device_class for osd_id in on_it if osd_id in osds}
    if len(on_it) > 1 and drive.transport in _ONE_AT_A_TIME:
        found.append((name, (
            "several OSDs share the drive: each flush of one waits for the writes of the others, "
            "and all of them go with the drive; one OSD for each such drive is what Ceph advises"
        )))
    if drive.rotational:
        away = [
            use for use in drive.uses
            if use.role is not Role.BLOCK and (use.osd_id, drive.drive_id) not in blocks
        ]
        if away:
            found.append((name, (
                "the DB or WAL of OSDs is on a rotational drive of its own: each of their commits "
                "waits for a seek there, and every OSD with its DB on it waits for the others"
            )))
        if classes & set(_OF_FLASH):
            found.append((name, (
                f"the kernel takes the drive for a rotating one, and its OSD is in class "
                f"{', '.join(sorted(classes))}: BlueStore uses its settings for disks (deferred "
                "writes, shards), and rules of the class count on flash; correct the flag before "
                "the OSD starts, or the class"
            )))
    if drive.rotational is False:
        if "hdd" in classes:
            found.append((name, (
                "the kernel takes the drive for flash, and its OSD is in class hdd: BlueStore uses "
                "its settings for flash; correct the flag before the OSD starts, or the class"
            )))
        if any(not one.is_cache for one in drive.bcache) and own:
            found.append((name, (
                "an OSD of flash is on bcache: each write passes a layer and a journal more, and "
                "the cache drive wears for it; what that costs is not measured here"
            )))
        if best_us is not None and best_us > SLOW_FLASH_US:
            found.append((name, (
                f"the kernel takes the drive for flash, and one commit takes {latency(best_us)} in "
                "its better cache mode, as a disk does: look at `lsblk --output=NAME,ROTA,MODEL`"
            )))
    return found


def _of_osds(
    report: HostReport, osds: Mapping[int, OsdInfo], config: Config
) -> Iterator[Tuple[int, str]]:
    """OSDs that an old release has made, and how they discard what they free."""
    for osd_id in sorted({use.osd_id for drive in report.drives for use in drive.uses}):
        osd = osds.get(osd_id)
        if osd is None:
            continue
        if osd.min_alloc_bytes > MIN_ALLOC_BYTES:
            yield osd_id, (
                f"bluestore_min_alloc_size is {osd.min_alloc_bytes} bytes, as older releases made "
                "OSDs: each object takes at least as much, and smaller overwrites are written "
                "twice; only an OSD made anew has 4096"
            )
        if osd.takes_discards is None or not _set(config, osd, ENABLE):
            continue
        if not osd.takes_discards:
            yield osd_id, (
                f"{ENABLE} is on, and what the OSD is on takes no discards: nothing is discarded, "
                "and it costs nothing; a dm-crypt device passes them on only where it was opened "
                "so"
            )
        elif not (_set(config, osd, THREADS) or _set(config, osd, ASYNC)):
            # BlueStore::_txc_release_alloc(), KernelDevice::try_discard()
            yield osd_id, (
                f"{ENABLE} is on without {THREADS}: the thread that completes commits waits for "
                "each discard, and so do the commits behind it; what that costs is not measured "
                f"here; set {THREADS} to 1 (older releases: {ASYNC} to true), and start the OSD "
                "again"
            )


def _never_discarded(
    report: HostReport, osds: Mapping[int, OsdInfo], slowest: Mapping[str, float], config: Config
) -> Iterator[int]:
    """OSDs of flash that was measured to be slow, and that is told of nothing that is freed."""
    for drive in report.drives:
        if drive.rotational is not False or slowest.get(drive.drive_id, 0.0) <= SLOW_FLASH_US:
            continue
        for use in drive.uses:
            osd = osds.get(use.osd_id)
            block = use.role is Role.BLOCK
            if block and osd and osd.takes_discards and not _set(config, osd, ENABLE):
                yield use.osd_id


def _set(config: Config, osd: OsdInfo, name: str) -> bool:
    """Whether the config database has an option on, or above 0, for an OSD."""
    entry = config.of_osd(osd, name)
    return entry is not None and (entry.value.lower() in ("true", "yes") or bool(entry.number))
