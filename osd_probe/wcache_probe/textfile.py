"""`wcache.prom`: this host's drives for the textfile collector of Prometheus' node_exporter.

The collector reads each `*.prom` of its folder (`--collector.textfile.directory`) and adds
`node_textfile_mtime_seconds`, by which an alert finds a file that is no longer written.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Callable, Iterable, List

from wcache.core.drive.safety import Safety, judge
from wcache.core.errors import StorageError
from wcache.core.figures.prometheus_text import Sample, gauge
from wcache.core.model import DeviceCache, DriveReport

from .safe_files import write_whole

NAME = "wcache.prom"
READABLE = 0o644


@dataclass
class Textfile:
    """Writes the file after each report; what fails is said once, and stops nothing."""

    folder: str
    say: Callable[[str], None]
    _trouble: str = field(default="")

    def write(self, drives: Iterable[DriveReport]) -> None:
        """Put the file in place whole, or leave the old one; nothing where no folder is named."""
        if not self.folder:
            return
        try:
            # the collector takes no other ending, so it never reads a half-written file
            write_whole(
                os.path.join(self.folder, NAME), metrics_text(drives), READABLE, sync=None
            )
            self._trouble = ""
        except StorageError as error:
            line = f"wcache-probe: {error.line()}"
            if line != self._trouble:
                self.say(line)
            self._trouble = line


def metrics_text(drives: Iterable[DriveReport]) -> str:
    """The drives under this host's OSDs as metrics."""
    drives = tuple(drives)
    written: List[Sample] = []
    for drive in drives:
        if drive.wear is not None:
            by = (("host", drive.wear.host_bytes), ("nand", drive.wear.nand_bytes))
            written += [
                ({"device": drive.dev_name, "to": to}, count) for to, count in by
                if count is not None
            ]
    return "".join([
        gauge("wcache_probe_drives", "Drives under OSDs of this host.", ({}, len(drives))),
        gauge("wcache_probe_drive_info", "A drive, both sides of its cache, and its OSDs.",
              *(({"device": d.dev_name, "drive_model": str(d.drive_model),
                  "transport": d.transport.value, "device_cache": d.state.device_cache.value,
                  "kernel_view": d.state.kernel_view.value,
                  "osds": ",".join(sorted({f"osd.{use.osd_id}" for use in d.uses}))}, 1)
                for d in drives)),
        gauge("wcache_probe_drive_cache_on", "Whether the drive's volatile cache is on.",
              *(({"device": d.dev_name}, int(d.state.device_cache is DeviceCache.WRITE_BACK))
                for d in drives if d.state.device_cache is not DeviceCache.UNKNOWN)),
        gauge("wcache_probe_drive_unsafe",
              "Whether its cache is on while the kernel sends no flushes: data can be lost.",
              *(({"device": d.dev_name}, int(judge(d.state) is Safety.UNSAFE)) for d in drives)),
        gauge("wcache_probe_drive_pinned", "Whether the kernel flushes whatever the drive says.",
              *(({"device": d.dev_name}, int(d.state.pinned)) for d in drives
                if d.state.pinned is not None)),
        gauge("wcache_probe_drive_written_bytes",
              "Over the drive's life: from its host, and to its flash.", *written),
    ])
