"""What bcache's rate controller does at its target, on a slow disk behind an NVMe drive.

The P term goes by how far dirty data is from its target in sectors, so on a cache device of
256 MiB the default of 40 is as slow as 4,000 on one a hundred times larger, and 1 as fast as 40
on one forty times larger.  A program in the guest writes at a steady pace, syncs now and then, and
reads what is on the disk alone.  Its latencies are printed and not judged: the machine's are in
them.
"""

import base64
import json

import pytest
from drive_lab.lab import Lab
from lab_bench import Bench

pytestmark = [pytest.mark.lab, pytest.mark.long]

DRIVES = """
schema = 1
[[drive]]
name = "disk"
model = "Lab disk"
transport = "scsi"
rotational = true
size_bytes = 1073741824
cache = { default = "write through" }
latency = { fua_write = { median_us = 8000 }, dirty_flush = { median_us = 8000 } }
[[drive]]
name = "flash"
model = "Lab flash"
transport = "nvme"
size_bytes = 268435456
latency = { fua_write = { median_us = 300 }, dirty_flush = { median_us = 500 } }
"""
SETTINGS = "/sys/block/bcache0/bcache"
SECONDS, WRITES_S, LOOK_EVERY_S = 75, 120, 2.5
PERCENT = 2  # of the cache device: a target of 5 MiB
FAST, SLOW = 1, 4000  # inverse P terms
MAKE = """
udevadm control --stop-exec-queue; modprobe bcache
make-bcache --bucket 64k -B {disk} -C {flash} > /dev/null
for n in $(seq 60); do
    for drive in {disk} {flash}; do echo $drive > /sys/fs/bcache/register || :; done
    [ ! -e {settings}/cache ] || break; sleep 1
done
udevadm control --start-exec-queue
echo writeback > {settings}/cache_mode; echo 0 > {settings}/sequential_cutoff
# a guest is slow, and bcache sends writes past a cache device that answers late
for set in /sys/fs/bcache/*-*-*; do
    echo 0 > $set/congested_write_threshold_us; echo 0 > $set/congested_read_threshold_us
done
"""
# Clean first: with a target of 0 all of it is written back at once.
CLEAN = """
echo {fragment} > {settings}/writeback_consider_fragment || [ {fragment} = 0 ]
echo {term} > {settings}/writeback_rate_p_term_inverse; echo 0 > {settings}/writeback_percent
for n in $(seq 180); do
    grep -qE '^dirty:[[:space:]]+0' {settings}/writeback_rate_debug && break; sleep 1
done
echo {percent} > {settings}/writeback_percent; sleep 6
"""
LOAD = """
import json, mmap, os, random, threading, time
SETTINGS, SECONDS, WRITES_S, EVERY_S = {settings!r}, {seconds}, {writes_s}, {every_s}
disk = [name for name in os.listdir("/sys/block/bcache0/slaves") if name.startswith("sd")][0]
half = int(open("/sys/block/bcache0/size").read()) * 256
reads, lock, end = [], threading.Lock(), time.monotonic() + SECONDS

def size(text):
    text = text.strip().split("/")[0]
    unit = {{"k": 2**10, "M": 2**20, "G": 2**30}}.get(text[-1])
    return float(text[:-1]) * unit if unit else float(text)

def look():
    lines = open(SETTINGS + "/writeback_rate_debug").read().splitlines()
    said = dict(line.split(":", 1) for line in lines if ":" in line)
    busy = int(open("/sys/block/%s/stat" % disk).read().split()[9])
    return size(said["dirty"]), size(said["target"]), size(said["rate"]), busy

def work(write, a_second, sync, seed):
    draw, due = random.Random(seed), time.monotonic()
    device = os.open("/dev/bcache0", os.O_RDWR | os.O_DIRECT | (os.O_DSYNC if sync else 0))
    block = mmap.mmap(-1, 4096)
    while time.monotonic() < end:
        at = draw.randrange(half // 4096) * 4096 + (0 if write else half)
        began = time.monotonic()
        os.pwritev(device, [block], at) if write else os.preadv(device, [block], at)
        if not write:
            with lock:
                reads.append(time.monotonic() - began)
        due = max(due + 1 / a_second, time.monotonic() - 1)
        time.sleep(max(0, due - time.monotonic()))

threads = [threading.Thread(target=work, args=args) for args in (
    (True, 5, True, 1), (False, 5, False, 2),
    *((True, WRITES_S / 4, False, 3 + n) for n in range(4)),
)]
for thread in threads: thread.start()
rows, before, then = [], look(), time.monotonic()
while time.monotonic() < end:
    time.sleep(EVERY_S)
    now, at = look(), time.monotonic()
    with lock:
        seen = sorted(reads) or [0.0]
        reads.clear()
    rows.append({{
        "dirty": now[0], "target": now[1], "rate": now[2],
        "busy": (now[3] - before[3]) / 1000 / (at - then),
        "read_p90_ms": 1000 * seen[int(len(seen) * 0.9)],
    }})
    before, then = now, at
for thread in threads: thread.join()
print(json.dumps(rows))
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory, release, private_network):
    drives = tmp_path_factory.mktemp("bcache") / "drives.toml"
    drives.write_text(DRIVES)
    with Lab(drives, release=release) as lab:
        bench = Bench(lab)
        bench.sh(MAKE.format(
            disk=bench.disk("disk").path, flash=bench.disk("flash").path, settings=SETTINGS,
        )).checked()
        program = LOAD.format(
            settings=SETTINGS, seconds=SECONDS, writes_s=WRITES_S, every_s=LOOK_EVERY_S
        )
        word = base64.b64encode(program.encode()).decode()
        bench.sh(f"echo {word} | base64 -d > /tmp/load.py").checked()
        yield bench


def run(stack, fragment, term):
    """What was seen from when dirty data was at its target for the first time."""
    stack.sh(CLEAN.format(
        fragment=fragment, term=term, percent=PERCENT, settings=SETTINGS
    )).checked()
    rows = json.loads(stack.sh("python3 /tmp/load.py").checked())
    for row in rows:
        print({name: round(value, 2) for name, value in row.items()})
    reached = [at for at, row in enumerate(rows) if row["target"] and row["dirty"] > row["target"]]
    assert reached, "the machine was too slow for dirty data to come to its target"
    return rows[reached[0]:]


@pytest.mark.parametrize("fragment", [0, 1])
def test_a_fast_p_term_saturates_the_backing_disk_at_the_target_and_a_slow_one_does_not(
    stack, fragment
):
    fast, slow = run(stack, fragment, FAST), run(stack, fragment, SLOW)
    assert max(row["busy"] for row in fast) > 0.9
    assert sum(row["busy"] for row in slow) / len(slow) < 0.5
    # the rate swings between its least and more than the disk can do
    assert max(row["rate"] for row in fast) > 500 * 2**10
    assert max(row["rate"] for row in slow) < 200 * 2**10
