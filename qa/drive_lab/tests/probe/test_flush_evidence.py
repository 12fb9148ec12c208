"""What shows that flushes are carried out: a power cut with a witness; and a kernel that is old."""

import json
import time

import pytest
from drive_lab.lab import Lab
from drive_lab.machine import MachineSpec
from lab_bench import Bench
from probe_bench import BACK, THROUGH
from wcache.core.loads import FLUSH_FLOOR_ROTATIONAL_US

pytestmark = [pytest.mark.lab, pytest.mark.long]

SPAN_MIB = 18  # what has to be blank
ACKNOWLEDGED_MIN = 30  # lines of the log


class Witnessed:
    """A run of `witness` on a drive whose power is cut."""

    def __init__(self, bench, forks, name):
        self.bench, self.forks, self.name = bench, forks, name
        self.disk = bench.all_on(name)
        self.log = f"/tmp/witness-{name}.log"
        self.drives = [
            "--osd-data", "/nonexistent/*", "--state-dir", f"/var/lib/wcache-witness-{name}",
            "--run-dir", f"/run/wcache-witness-{name}",
        ]
        last = bench.lab.drive(name).fitted.placed.spec.size_bytes // 2**20 - 1
        bench.sh(
            f"ip link set lo up; rm -f {self.log}\n"
            f"blkdiscard --force --zeroout --length {SPAN_MIB}M {self.disk.path}\n"
            f"dd if=/dev/zero of={self.disk.path} bs=1M seek={last} oflag=direct",
        )

    def until_the_cut(self):
        """Write until the power is cut; the mean time of a flush until then, in us."""
        before = self._flushes()
        listener = self.forks.fork(
            ["witness", "listen", "--at", "127.0.0.1:0", "--log", self.log, "--idle", "10"]
        )
        words = self._words_of(listener)
        writer = self.forks.fork([
            "witness", "write", self.disk.path, "--to", words["--to"], "--token",
            words["--token"], *self.drives,
        ])  # fmt: skip
        deadline = time.monotonic() + 120
        count = f"cat {self.log} 2>/dev/null | wc -l"
        while int(self.bench.sh(count).checked()) < ACKNOWLEDGED_MIN:
            assert writer.ended() is None, writer.output() + listener.output()
            assert time.monotonic() < deadline, writer.output() + listener.output()
            time.sleep(0.1)
        flushes, spent_ms = (b - a for a, b in zip(before, self._flushes()))
        writer.kill()
        self.bench.lab.drive(self.name).power_cut()
        assert listener.wait(60) == 0, listener.output()
        return 1e3 * spent_ms / flushes

    def _words_of(self, listener):
        deadline = time.monotonic() + 60
        while "--token" not in listener.output():
            assert time.monotonic() < deadline, listener.output()
            time.sleep(0.1)
        words = listener.output().split()
        return {name: words[words.index(name) + 1] for name in ("--to", "--token")}

    def check(self):
        done = self.forks.fork(
            ["witness", "check", self.disk.path, "--log", self.log, *self.drives]
        )
        return done.wait(120), done.output()

    def _flushes(self):
        """The kernel's flushes so far, and the ms they took."""
        fields = self.bench.sh(f"cat /sys/block/{self.disk.name}/stat").checked().split()
        return int(fields[15]), int(fields[16])


def test_an_honest_drive_has_kept_all_that_it_acknowledged(bench, forks):
    run = Witnessed(bench, forks, "scsi")
    run.until_the_cut()
    code, said = run.check()
    assert code == 0, said
    assert "none lost" in said


def test_a_liar_that_passes_every_timing_check_is_caught_by_its_power_cut(bench, forks):
    run = Witnessed(bench, forks, "liar")
    flush_us = run.until_the_cut()
    assert flush_us > 1.5 * FLUSH_FLOOR_ROTATIONAL_US, "no timing check could doubt it"
    code, said = run.check()
    assert code == 1, said
    assert "LOST" in said


def test_a_kernel_whose_flush_fields_are_hidden_changes_drives_and_counts_nothing(
    bench, probe_of
):
    probe = probe_of("scsi")
    name = probe.begin(BACK).name
    stat = f"/sys/block/{name}/stat"
    bench.sh(
        f"set -- $(cat {stat}); echo $1 $2 $3 $4 $5 $6 $7 $8 $9 0 0 > /tmp/stat\n"
        f"mount --bind /tmp/stat {stat}"
    ).checked()
    try:
        outcome = probe.set_mode(THROUGH)
        assert outcome["kind"] == "state", outcome
        assert outcome["counters"] == []
        assert probe.mode() is THROUGH
        probe.end()
        code, said = probe.restore_all()
        assert code == 0, said
        assert probe.mode() is BACK
    finally:
        bench.sh(f"umount {stat}").checked()


TWO_PATHS = """
schema = 1

[[drive]]
name = "nvme"
model = "Lab NVMe"
transport = "nvme"
size_bytes = 134217728
latency = { fua_write = { median_us = 300 }, dirty_flush = { median_us = 500 } }
"""
COMMITS = 40
COMMIT_AND_COUNT = f"""
import json, os, sys
sys.path[:0] = ["/wcache/osd_probe", "/wcache/mgr_module"]
from wcache.core.codec import to_plain
from wcache_probe.linux.block.host_files import HostFiles
from wcache_probe.linux.block.sysfs import by_name

name = sys.argv[1]
drive = by_name(HostFiles(), name)
before = drive.counters(0)
fd = os.open("/dev/" + name, os.O_WRONLY)
for number in range({COMMITS}):
    for half in (0, 2**26):  # two writes and a flush, so that paths in turn take flushes
        os.pwrite(fd, bytes(4096), half + 4096 * number)
    os.fdatasync(fd)
print(json.dumps([to_plain(before), to_plain(drive.counters(0))]))
"""


VIEWS = """
import sys
sys.path[:0] = ["/wcache/osd_probe", "/wcache/mgr_module"]
from wcache_probe.linux.block.host_files import HostFiles
from wcache_probe.linux.block.sysfs import by_name, queues_on

layers = queues_on(by_name(HostFiles(), sys.argv[1]))
print(" ".join(sorted(layer.kernel_view.value for layer in layers)))
"""


@pytest.fixture(scope="module")
def two_paths(release, tmp_path_factory):
    """A guest whose NVMe drive has two controllers, as a dual-port one has."""
    drives = tmp_path_factory.mktemp("two-paths") / "drives.toml"
    drives.write_text(TWO_PATHS)
    with Lab(drives, release=release, machine=MachineSpec(nvme_paths=2)) as running:
        yield Bench(running)


def test_flushes_of_a_drive_with_two_nvme_paths_are_counted_over_both(two_paths):
    bench = two_paths
    disk = bench.disk("nvme")
    paths = bench.sh(f"ls -d /sys/block/{disk.name.replace('n1', 'c*n1')}").checked().split()
    assert len(paths) == 2, paths
    bench.sh(
        "for policy in /sys/class/nvme-subsystem/*/iopolicy; do echo round-robin > $policy; done"
    ).checked()

    def flushes(folder):
        return int(bench.sh(f"cat {folder}/stat").checked().split()[15])

    head = f"/sys/block/{disk.name}"
    before = [flushes(folder) for folder in (head, *paths)]
    reached = bench.lab.drive("nvme").counters()
    said = bench.lab.guest.run(
        ["python3", "-c", COMMIT_AND_COUNT, disk.name]
    ).checked()
    after = [flushes(folder) for folder in (head, *paths)]
    assert bench.lab.drive("nvme").counters().flush - reached.flush >= COMMITS
    assert after[0] == before[0], "the head of native multipath counts no flush"
    seen = bench.sh("head /sys/block/nvme*/stat /sys/class/nvme-subsystem/*/iopolicy").stdout
    assert after[1] > before[1], seen
    assert after[2] > before[2], seen
    start, end = json.loads(said)
    assert (start["paths"], end["paths"]) == (2, 2)
    assert end["flushes"] - start["flushes"] >= COMMITS
    assert end["writes"] - start["writes"] >= COMMITS


def test_what_a_path_drops_is_seen_in_a_view_of_its_own(two_paths):
    """The kernel goes by the view of the path that a flush goes down, whatever the head's is."""
    bench = two_paths
    disk = bench.disk("nvme")
    paths = f"/sys/block/{disk.name.replace('n1', 'c*n1')}/queue/write_cache"

    def reached():
        before = bench.lab.drive("nvme").counters().flush
        bench.lab.guest.run(["python3", "-c", COMMIT_AND_COUNT, disk.name]).checked()
        return bench.lab.drive("nvme").counters().flush - before

    def views():
        return bench.lab.guest.run(["python3", "-c", VIEWS, disk.name]).checked().strip()

    assert views() == "write back write back"
    assert reached() >= COMMITS
    bench.sh(f"for path in {paths}; do echo 'write through' > $path; done").checked()
    head = bench.sh(f"cat /sys/block/{disk.name}/queue/write_cache").checked().strip()
    assert (head, views()) == ("write back", "write through write through")
    assert reached() == 0, "the kernel drops them"
    bench.sh(f"for path in {paths}; do echo 'write back' > $path; done").checked()
    assert views() == "write back write back"
    assert reached() >= COMMITS
