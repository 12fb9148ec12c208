"""An OSD's stack in the lab: a backing drive, a drive as its cache, bcache over both."""

from __future__ import annotations

from lab_bench import OFFSET_BLOCKS
from probe_bench import BACK
from wcache.core import codec
from wcache.core.hardware import BcacheState

BACKING, CACHE = "scsi", "nvme"
DEVICE, SETTINGS = "/dev/bcache0", "/sys/block/bcache0/bcache"
MIB = 2**20
# Without udev meanwhile: it would register drives by itself as soon as they are let go.
REGISTER = """
for n in $(seq 60); do
    for drive in {backing} {cache}; do echo $drive > /sys/fs/bcache/register || :; done
    [ ! -e {settings}/cache ] || break; sleep 1
done
udevadm control --start-exec-queue
"""
MAKE = """
udevadm control --stop-exec-queue; modprobe bcache
make-bcache --bucket 256k -B {backing} -C {cache}
""" + REGISTER + """
for set in /sys/fs/bcache/*-*-*; do
    # or a cache drive that a busy machine slows down is passed by (request.c: congested)
    echo 0 > $set/congested_write_threshold_us; echo 0 > $set/congested_read_threshold_us
done
"""
STOP = """
udevadm control --stop-exec-queue
echo 1 > {settings}/stop; for set in /sys/fs/bcache/*-*-*/stop; do echo 1 > $set || :; done
for n in $(seq 60); do [ -e {settings} ] || ls -d /sys/fs/bcache/*-*-* || break; sleep 1; done
"""


class Cached:
    """The stack, and the probe of each of its drives."""

    def __init__(self, bench, probe_of, cache):
        self.bench = bench
        self.paths = {
            "backing": bench.all_on(BACKING).path, "cache": bench.all_on(cache).path,
            "settings": SETTINGS,
        }
        self.probes = {name: probe_of(name) for name in (BACKING, cache)}

    def make(self):
        self.bench.sh(MAKE.format(**self.paths)).checked()
        self.set("sequential_cutoff", 0)
        self.bench.settle()

    def make_osd(self):
        """One OSD on both drives, each prepared."""
        for probe in self.probes.values():
            probe.data = f"/var/lib/wcache-lab/{BACKING}"  # they are under one OSD
            probe.begin(BACK, DEVICE)
        self.bench.settle()

    def set(self, setting, value):
        self.bench.sh(f"echo {value} > {SETTINGS}/{setting}").checked()

    def has(self, setting):
        return self.bench.sh(f"cat {SETTINGS}/{setting}").checked().strip()

    def counters(self):
        return {name: self.bench.lab.drive(name).counters() for name in self.probes}

    def since(self, before):
        return {name: now.since(before[name]) for name, now in self.counters().items()}

    def told(self, name):
        """The one bcache device that `look` tells of a drive."""
        (one,) = self.probes[name].look()["bcache"]
        return codec.decode(BcacheState, one, "bcache")

    def kept(self, word):
        """What was acknowledged is on the medium of a drive that bcache takes it from."""
        self.bench.write_and_sync(DEVICE, word)
        for name in self.probes:
            self.bench.lab.drive(name).power_cut()
        return self.bench.on_the_medium(DEVICE) == word

    def survives_a_crash(self, word):
        """What was acknowledged is there when bcache has found both drives anew."""
        self.bench.write_and_sync(DEVICE, f"{word}-before")
        self.bench.write_and_sync(DEVICE, word)
        self.lose_power()
        return self.bench.on_the_medium(DEVICE) == word

    def lose_power(self):
        """Both drives lose what they have not written, and bcache finds them anew."""
        for name in self.probes:
            self.bench.lab.drive(name).power_off()
        self.bench.sh(STOP.format(**self.paths))
        for name in self.probes:
            self.bench.lab.drive(name).power_on()
        self.bench.sh(REGISTER.format(**self.paths))

    def make_dirty(self, count):
        """So many times 256 KiB stay dirty."""
        self.set("writeback_running", 0)
        self.bench.sh(
            f"dd if=/dev/urandom of={DEVICE} bs=256k count={count} seek={OFFSET_BLOCKS} "
            "oflag=direct",
        ).checked()

    def write_back(self):
        """All that is dirty, at once."""
        self.set("writeback_percent", 0)
        self.set("writeback_running", 1)

    def end(self):
        for probe in self.probes.values():
            probe.end()
        self.bench.sh(STOP.format(**self.paths))
        self.bench.sh(
            "wipefs -qa {backing} {cache}; udevadm control --start-exec-queue".format(**self.paths)
        )
        self.bench.settle()
