"""An OSD of Ceph 20 on a real bcache: what its controller does to clients, and its options
compared, followed and put back, whatever befalls probe, mgr and host meanwhile."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from drive_lab import campaign
from drive_lab.agent import HANG_S
from drive_lab.osds import Stack
from drive_lab.stage import Stage
from harness import CommandError
from wcache_probe.linux.block.options import parse_size
from what_stands import applied, ended

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


# Values of `sequential_cutoff`, each as bcache prints it.
NO_CUTOFF, CUTOFF, OTHER_CUTOFF = ("0", "0.0k"), ("65536", "64.0k"), ("1048576", "1.0M")
JOURNAL = "find /var/lib/wcache/journal -type f"
PROBE = "/run/wcache-probe.pid"
TRIAL = f"sequential_cutoff={CUTOFF[0]},{OTHER_CUTOFF[0]}"


class Compared:
    """A campaign of `ab` on the one OSD."""

    def __init__(self, stage, trial, **more):
        self.stage = stage
        self.asked = {"option": trial, "scope": "osd.0", "accept_cost": True, **more}
        self.begin()

    def begin(self):
        """Start it; again where a busy machine was silent for so long that it ended."""
        said = self.stage.wait("a campaign", lambda: self.stage.wcache("ab", **self.asked))
        self.id = said["campaign_id"]

    def wait_set(self):
        """Wait for a value under its lease."""
        def is_set():
            if self.stage.wcache.campaign(self.id)["status"] != "running":
                self.begin()
            return self.stage.bcache.get("sequential_cutoff") in (CUTOFF[1], OTHER_CUTOFF[1])
        self.stage.wait("a value under a lease", is_set, HANG_S)
        assert journal(self.stage)

    def over(self, timeout_s=900.0):
        return self.stage.wcache.wait_over(self.id, timeout_s)

    def stop(self):
        """End it, and return what is shown of its run, once its drives are restored."""
        if self.stage.wcache.campaign(self.id)["status"] == "running":
            self.stage.wcache("campaign stop", campaign_id=self.id)

        def restored():
            (run,) = self.over(HANG_S)["run_list"]
            return run if run["restored"] else None

        return self.stage.wait("the mgr to hear that all is as before", restored, HANG_S)


def result_of(stage, trial, **more):
    shown = Compared(stage, trial, **more).over()
    assert all(run["restored"] for run in shown["run_list"]), shown
    (result,) = shown["option_results"]
    print(result)
    return result


# Every write of 4 KiB and more goes to the disk.
PAST = ("4096", "4.0k")
PAIRS = 12  # several times what such an effect needs
REPEATED_MAX = 3  # a busy machine leaves a verdict open, which is no failure


def test_writes_past_the_cache_are_found_planned_applied_and_taken_back(clean):
    stage, cutoff = clean, lambda: clean.bcache.get("sequential_cutoff")
    for _ in range(REPEATED_MAX):
        trial = f"sequential_cutoff={NO_CUTOFF[0]},{PAST[0]}"
        result = result_of(stage, trial, loads="batch", pairs=PAIRS)
        if result["decided"]:
            break
    assert result["verdict"] == "sequential_cutoff 0", result
    assert result["ratio_high"] < 1 / 1.1
    assert cutoff() == NO_CUTOFF[1]
    stage.bcache.set("sequential_cutoff", PAST[0])
    plan_id = applied(stage.wcache, timeout_s=2 * HANG_S, knob="options", scope="osd.0")
    assert cutoff() == NO_CUTOFF[1]
    (change,) = stage.wcache("plan show", plan_id=plan_id)["changes"]
    assert (change["status"], change["expected"], change["value"]) == ("applied", PAST[0], "0")
    stage.wcache("rollback", plan_id=plan_id)
    assert ended(stage.wcache, plan_id, HANG_S)["status"] == "rolled back"
    assert cutoff() == PAST[1]


def test_of_two_values_that_no_stream_comes_to_none_is_better(clean):
    trial = f"sequential_cutoff={2**29},{2**30}"
    result = result_of(clean, trial, loads="batch", pairs=PAIRS)
    assert result["verdict"] in ("no material difference", "insufficient data"), result


def test_dirty_data_is_brought_to_its_target_before_each_period(clean):
    clean.bcache.set("writeback_percent", "1")
    trial = f"sequential_cutoff={2**29},{2**30}"
    result = result_of(clean, trial, loads="batch", pairs=4, dirty_data="target")
    record = clean.wcache("campaign record", record_id=result["record_id"])
    assert record["pairs"], result
    for pair in record["pairs"]:
        for period in (pair["a"], pair["b"]):
            began = period["bcache"][-2]
            share = began["dirty_bytes"] / began["target_bytes"]
            assert 0.9 <= share <= 1.1, period["bcache"]
    assert clean.bcache.get("writeback_rate_minimum") == DEFAULTS["writeback_rate_minimum"]


FREED_RATE = "65536"  # sectors a second, so that the disk alone bounds it


def test_its_mode_leaves_writeback_when_nothing_is_dirty_and_comes_back_with_consent(clean):
    stage = clean
    stage.fill()
    plan_id = of_mode(stage, "writethrough")
    stage.wcache("apply", plan_id=plan_id)
    stage.wait("the mode", lambda: mode_of(stage) == "writethrough", HANG_S)
    for _ in range(2):
        (left,) = stage.wait("what is left", lambda: waited_for(stage, plan_id), HANG_S)
        assert "of dirty data" in left
        assert stage.wcache("plan show", plan_id=plan_id)["status"] == "running"
        stage.cluster.fail_mgr()
        stage.wait("the module", lambda: stage.wcache("status"))
    stage.bcache.set("writeback_rate_minimum", FREED_RATE)
    stage.bcache.set("writeback_running", "1")
    assert ended(stage.wcache, plan_id, 2 * HANG_S)["status"] == "done"
    assert (mode_of(stage), stage.bcache.get("dirty_data")) == ("writethrough", "0.0k")

    back_id = of_mode(stage, "writeback")
    with pytest.raises(CommandError, match=r"nvme0n1 \(.*under osd\.0 .*--consent-turn-on"):
        stage.wcache("apply", plan_id=back_id)
    assert mode_of(stage) == "writethrough"
    stage.wcache("apply", plan_id=back_id, consent_turn_on=True)
    # a busy machine may make the step look worse: then it went back by itself
    assert ended(stage.wcache, back_id, 2 * HANG_S)["status"] in ("done", "rolled back")
    if stage.wcache("plan show", plan_id=back_id)["status"] == "done":
        assert mode_of(stage) == "writeback"
        stage.wcache("rollback", plan_id=back_id)
        assert ended(stage.wcache, back_id, 2 * HANG_S)["status"] == "rolled back"
    assert (mode_of(stage), stage.bcache.get("dirty_data")) == ("writethrough", "0.0k")
    stage.wcache("rollback", plan_id=plan_id)
    assert ended(stage.wcache, plan_id, 2 * HANG_S)["status"] == "rolled back"
    assert mode_of(stage) == "writeback"


def of_mode(stage, mode):
    def planned():
        option = f"cache_mode={mode}"
        return stage.wcache("plan", knob="options", option=option, scope="osd.0")["plan_id"]
    return stage.wait("a plan", planned, HANG_S)


def mode_of(stage):
    return re.findall(r"\[(\w+)\]", stage.bcache.get("cache_mode"))[0]


def waited_for(stage, plan_id):
    return stage.wcache("rollout show", plan_id=plan_id)["waiting_for"]


@pytest.fixture
def held(clean):
    """A campaign that has set a value, and will for long."""
    start_probe(clean)
    made = Compared(clean, TRIAL, loads="depth1", pairs=80)
    made.wait_set()
    return made


def journal(stage):
    return stage.up.lab.guest.sh(JOURNAL).checked().split()


def assert_undone(stage):
    assert stage.bcache.get("sequential_cutoff") == NO_CUTOFF[1]
    assert journal(stage) == []


def start_probe(stage):
    """Start it where it does not run, as after a test that failed."""
    running = f"[ -e {PROBE} ] && [ -e /proc/$(cat {PROBE}) ]"
    stage.up.lab.guest.sh(f"{running} || systemctl enable --now wcache-probe").checked()


def kill_probe(stage):
    script = f"kill -9 $(cat {PROBE}); while [ -e /proc/$(cat {PROBE}) ]; do sleep 0.1; done"
    stage.up.lab.guest.sh(script).checked()
    assert stage.bcache.get("sequential_cutoff") != NO_CUTOFF[1], "nobody has put it back yet"
    assert journal(stage)


def test_a_value_is_back_after_kill_9_of_the_probe(held):
    stage = held.stage
    kill_probe(stage)
    restore = "wcache-probe restore --all"  # it says so where a busy machine takes too long
    guest = stage.up.lab.guest
    stage.wait("a restore", lambda: guest.sh(restore, timeout_s=HANG_S).returncode == 0, HANG_S)
    assert_undone(stage)
    start_probe(stage)
    held.wait_set()  # the campaign goes on
    kill_probe(stage)
    stage.wcache("campaign stop", campaign_id=held.id)
    start_probe(stage)
    held.stop()
    assert_undone(stage)


def test_a_value_is_back_after_a_failover_and_kill_9_of_the_mgr(held):
    stage = held.stage
    stage.cluster.fail_mgr()
    stage.wait("the module", lambda: stage.wcache("status"))
    held.wait_set()  # the campaign goes on
    name = f"mgr.{stage.cluster.active_mgr()}"
    old_gid = stage.cluster.active_gid()
    stage.cluster.stop_daemon(name, kill=True)
    # the probe hears of no mgr, and its lease ends
    stage.wait("the value from before", lambda: not journal(stage), HANG_S)
    assert_undone(stage)
    stage.cluster.start_daemon(name)
    stage.cluster.wait_new_mgr(old_gid)
    stage.wait("the module", lambda: stage.wcache("status"))
    held.stop()
    assert_undone(stage)


def reset(stage):
    """Press the host's reset button; its bcache has the kernel's values then."""
    stage.up.lab.reset()
    stage.cluster.ceph("osd", "down", "0")


def start_osd(stage):
    stage.up.osds.start(0)
    stage.up.osds.wait_up()
    stage.wait_clean()


def test_after_a_reboot_of_the_host_nothing_is_owed(held):
    stage = held.stage
    reset(stage)
    start_osd(stage)
    assert stage.bcache.get("sequential_cutoff") == "4.0M"
    assert journal(stage)
    start_probe(stage)
    stage.wait("what is owed", lambda: not journal(stage), HANG_S)
    assert held.stop()["status"] == "aborted"
    assert_undone(stage)


def test_after_a_reboot_a_bcache_that_comes_after_the_probe_has_its_value_again(held):
    stage = held.stage
    reset(stage)
    stage.bcache.stop()
    start_probe(stage)
    said = stage.up.lab.share / "probe.log"
    stage.wait("a try", lambda: "sda has no sequential_cutoff" in said.read_text(), HANG_S)
    assert journal(stage)
    start_osd(stage)
    stage.wait("what is owed", lambda: not journal(stage), HANG_S)
    assert held.stop()["status"] == "aborted"
    assert_undone(stage)
