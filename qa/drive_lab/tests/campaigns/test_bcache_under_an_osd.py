"""An OSD of Ceph 20 on a real bcache: what its controller does to clients, and its options
compared, followed and put back, whatever befalls probe, mgr and host meanwhile."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from drive_lab import campaign
from drive_lab.agent import HANG_S
from drive_lab.osds import Stack
from drive_lab.stage import Stage
from wcache_probe.linux.block.bcache import parse_size

pytestmark = [pytest.mark.lab, pytest.mark.long]

DRIVES = Path(__file__).resolve().parent / "bcache_drives.toml"
RELEASE = 20
CLASS = "hdd"
# What the kernel begins with, but for `sequential_cutoff`, and for the 30 s that writeback rests
# after each time that it saw all dirty data.
DEFAULTS = {
    "writeback_delay": "1",
    "writeback_running": "1", "writeback_percent": "10", "writeback_consider_fragment": "1",
    "writeback_rate_p_term_inverse": "40", "writeback_rate_i_term_inverse": "10000",
    "writeback_rate_minimum": "8", "sequential_cutoff": "0",
}
# Inverses of the P and the I term: the kernel's, and a hundred times as slow.  With a slow P term
# alone the I term comes to the disk's speed within a minute here.
DEFAULT, SLOW = ("40", "10000"), ("4000", "1000000")
# 256 MiB of objects, and 4 KiB at a time in them: 13% of the cache device.
FILL = ("bench", "12288000", "4096", "4194304", "64")
TARGET_PERCENT = "2"
ALONE_S, WATCHED_S, LOOK_EVERY_S = 12.0, 44.0, 4.0
# From then on what was written at first has reached the disk's queue.
SWUNG_IN_S = 16.0


class OnBcache(Stage):
    """One OSD, its block on a bcache."""

    @property
    def bcache(self):
        return self.up.osds.bcache

    def clean(self):
        """The options as they were at first, and no dirty data."""
        for name, value in {**DEFAULTS, "writeback_percent": "0"}.items():
            self.bcache.set(name, value)
        self.wait("no dirty data", lambda: self.controller()["dirty"] < 2**20, HANG_S)
        self.bcache.set("writeback_percent", DEFAULTS["writeback_percent"])

    def controller(self):
        """What bcache says of its rate, its dirty data and their target, in bytes."""
        lines = self.bcache.get("writeback_rate_debug").splitlines()
        said = dict(line.split(":", 1) for line in lines)
        return {name: parse_size(said[name].strip().partition("/")[0])
                for name in ("rate", "dirty", "target")}

    def fill(self):
        """Have the OSD write more than any target that follows, and keep it in the cache."""
        self.bcache.set("writeback_running", "0")
        self.bcache.set("writeback_percent", "40")
        self.cluster.ceph("tell", "osd.0", *FILL, timeout_s=HANG_S)

    def counted(self):
        """What grows: for how long the disk was busy in s, client writes and their latency."""
        stat = f"/sys/block/{self.up.lab.drive('disk').disk().name}/stat"
        busy_ms = int(self.up.lab.guest.run(["cat", stat]).checked().split()[9])
        writes = self.cluster.command("perf dump", target=0)["osd"]["op_w_latency"]
        return time.monotonic(), busy_ms / 1000, writes["avgcount"], writes["sum"]

    def watch(self, seconds):
        """Rows of what bcache, the disk and clients do, one each few seconds."""
        rows, before, end = [], self.counted(), time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(LOOK_EVERY_S)
            now = self.counted()
            took_s, busy_s, writes, latency_s = (b - a for a, b in zip(before, now))
            before = now
            rows.append({
                **self.controller(), "busy": busy_s / took_s, "writes_s": writes / took_s,
                "latency_ms": 1000 * latency_s / max(1, writes),
            })
            print({name: round(value, 2) for name, value in rows[-1].items()})
        return rows


def mean(rows, name):
    return sum(row[name] for row in rows) / len(rows)


@pytest.fixture(scope="module")
def stage():
    job = campaign.LabJob(drive_file=DRIVES, release=RELEASE, stack=Stack.BCACHE)
    with campaign.running(job, campaign.Stages()) as up:
        made = OnBcache(up, time.monotonic())
        up.clients.make_pool(CLASS)
        made.enable({"poll_idle_s": "0.5", "latency_limit_ms": "60000"})  # a busy machine stalls
        made.add_host()
        made.wait_clean()
        yield made


@pytest.fixture
def clean(stage):
    stage.clean()
    return stage


def beyond_the_target(stage, terms, fragments):
    """Rows before dirty data is far beyond its target all at once, and after it."""
    stage.fill()
    for letter, inverse in zip("pi", terms):
        stage.bcache.set(f"writeback_rate_{letter}_term_inverse", inverse)
    stage.bcache.set("writeback_consider_fragment", fragments)
    stage.start_clients(CLASS)
    try:
        alone = stage.watch(ALONE_S)
        stage.bcache.set("writeback_percent", TARGET_PERCENT)
        stage.bcache.set("writeback_running", "1")
        return alone, stage.watch(WATCHED_S)[int(SWUNG_IN_S / LOOK_EVERY_S):]
    finally:
        stage.stop_clients()


@pytest.mark.parametrize("fragments", ["0", "1"])
def test_with_the_default_terms_clients_stand_beyond_the_target_and_with_others_they_do_not(
    clean, fragments
):
    (alone, fast), (_, slow) = (
        beyond_the_target(clean, terms, fragments) for terms in (DEFAULT, SLOW)
    )
    assert mean(alone, "busy") < 0.6
    assert mean(fast, "busy") > 0.9
    assert mean(slow, "busy") < 0.6
    assert min(row["rate"] for row in fast) > 2 * max(row["rate"] for row in slow)
    assert min(row["dirty"] / row["target"] for row in fast + slow) > 1
    # clients in a closed loop: the machine's noise is far smaller
    latency_ms, other_ms = mean(fast, "latency_ms"), mean(slow, "latency_ms")
    assert latency_ms > 5 * other_ms, (latency_ms, other_ms)
    assert mean(fast, "writes_s") < mean(slow, "writes_s") / 5
