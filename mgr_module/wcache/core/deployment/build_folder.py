"""A probe in the foreground, beside a cluster that vstart.sh runs from a folder of a build."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Tuple

from .form import END, Script, entity_of

# One drive that is better off with its cache off, and one that is better off with it on.
_DRIVES = """\
schema = 1

[[drive]]
name = "disk"
about = "a disk with a media cache"
vendor = "SIM"
model = "DISK"
transport = "sas"
rotational = true
size_bytes = 8_001_563_222_016
cache = { savable = true }
[drive.latency]
read = { median_us = 8000, spread = 0.2 }
write = { median_us = 120, spread = 0.2 }
fua_write = { median_us = 300, spread = 0.2 }
dirty_flush = { median_us = 14000, spread = 0.2 }
clean_flush = { median_us = 150, spread = 0.2 }

[[drive]]
name = "flash"
about = "flash that pays dearly for each write in write through"
vendor = "SIM"
model = "FLASH"
transport = "nvme"
size_bytes = 2_000_398_934_016
device = { channels = 4, bandwidth_mib_s = 2000 }
[drive.latency]
read = { median_us = 70, spread = 0.2 }
write = { median_us = 25, spread = 0.2 }
fua_write = { median_us = 3500, spread = 0.2 }
dirty_flush = { median_us = 1000, spread = 0.2 }
clean_flush = { median_us = 20, spread = 0.2 }"""


_SIMULATION = "../qa/workunits/mgr/wcache_sim"  # of Ceph's source, in which the build folder is


@dataclass(frozen=True)
class BuildFolder:
    """Where vstart.sh runs a cluster; `conf` is that cluster's configuration."""

    hostname: str
    conf: str
    on_files: bool  # OSDs keep their data in plain files, which have no drive

    @property
    def path(self) -> str:
        """The folder."""
        return self.conf.rpartition("/")[0] or "/"


def install(hostname: str, folder: BuildFolder) -> Script:
    """Fetch the key, allow what only worthless data allows, and run the probe until Ctrl-C."""
    home = f"{folder.path}/out/wcache"
    keyring, drives = f"{home}/keyring", f"{home}/drives.toml"
    words = [
        "run", "--hostname", hostname, "--conf", folder.conf, "--keyring", keyring,
        "--state-dir", home, "--run-dir", f"{home}/run",
    ]
    if folder.on_files:
        words = ["python3", f"{folder.path}/{_SIMULATION}", drives, *words]
    else:
        words = ["wcache-probe", *words, "--osd-data", f"{folder.path}/dev/osd*"]
    lines = [
        f"PATH={shlex.quote(folder.path)}/bin:$PATH; export PATH",
        f"CEPH_CONF={shlex.quote(folder.conf)}; export CEPH_CONF",
        f"mkdir -p {shlex.quote(home)}",
        f"(umask 077; ceph auth get {entity_of(hostname)} >{shlex.quote(keyring)}) &&",
        "ceph config set mgr mgr/wcache/throwaway_cluster true &&",
        shlex.join(words),
    ]
    if folder.on_files:
        lines[3:3] = [f"cat >{shlex.quote(drives)} <<'{END}'", *_DRIVES.splitlines(), END]
    kind = "simulates two drives, since OSDs here are in files," if folder.on_files else "runs"
    return Script(
        (
            f"The probe {kind} in the foreground until Ctrl-C, which restores.",
            "It needs wcache-probe in PATH, or in the build's bin, and root for real drives.",
            "It sets throwaway_cluster: the data of a vstart cluster is worthless.",
            "Go on in another terminal.",
        ),
        tuple(lines),
    )


def remove(hostname: str, folder: str) -> Script:
    """Nothing but files of the build folder is left."""
    where = shlex.quote(f"{folder}/out/wcache") if folder else "out/wcache"
    notes: Tuple[str, ...] = (f"End the probe of {hostname} with Ctrl-C, then:",)
    return Script(notes, (f"rm -r {where}",))
