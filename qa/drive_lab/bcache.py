"""A bcache device in the guest: a backing drive, with a flash drive as its cache."""

from __future__ import annotations

from .lab import Lab

DEVICE = "/dev/bcache0"
SETTINGS = "/sys/block/bcache0/bcache"
TIMEOUT_S = 900.0

# Without udev meanwhile: it would register drives by itself as soon as they are let go.
_MAKE = """
udevadm control --stop-exec-queue; modprobe bcache
make-bcache --bucket 64k -B {backing} -C {cache} > /dev/null
"""
# Harmless where all is registered already, as udev may have done it.
_REGISTER = """
modprobe bcache
for n in $(seq 60); do
    [ ! -e {settings}/cache ] || break
    for drive in {backing} {cache}; do echo $drive > /sys/fs/bcache/register || :; done
    sleep 1
done 2> /dev/null
udevadm control --start-exec-queue
[ -e {settings}/cache ]
# a guest is slow, and bcache sends writes past a cache device that answers late
for set in /sys/fs/bcache/*-*-*; do
    echo 0 > $set/congested_write_threshold_us; echo 0 > $set/congested_read_threshold_us
done
"""
# Both are free again; a later registration finds what is in them.
_STOP = """
echo 1 > {settings}/stop; for set in /sys/fs/bcache/*-*-*/stop; do echo 1 > $set || :; done
for n in $(seq 60); do [ -e {settings} ] || ls -d /sys/fs/bcache/*-*-* || exit 0; sleep 1; done
exit 1
"""


class Bcache:
    """One bcache device, by the names of its drives in the lab."""

    device = DEVICE

    def __init__(self, lab: Lab, backing: str, cache: str) -> None:
        self._lab = lab
        self._drives = {"backing": backing, "cache": cache}

    def make(self) -> None:
        """Make it anew, in mode writeback, with streams going through the cache too."""
        self._run(_MAKE + _REGISTER)
        self.set("cache_mode", "writeback")
        self.set("sequential_cutoff", "0")

    def open(self) -> None:
        """Register its drives where that has not been done since the boot."""
        self._run(_REGISTER)

    def stop(self) -> None:
        """Take it down, which nothing may hold open."""
        self._run(_STOP)

    def set(self, name: str, value: str) -> None:
        """Write one of its attributes, as an admin would."""
        self._lab.guest.sh(f"echo {value} > {SETTINGS}/{name}").checked()

    def get(self, name: str) -> str:
        """What one of its attributes says."""
        return self._lab.guest.sh(f"cat {SETTINGS}/{name}").checked().strip()

    def _run(self, script: str) -> None:
        paths = {what: self._lab.drive(name).disk().path for what, name in self._drives.items()}
        script = script.format(settings=SETTINGS, **paths)
        self._lab.guest.sh(script, timeout_s=TIMEOUT_S).checked()
