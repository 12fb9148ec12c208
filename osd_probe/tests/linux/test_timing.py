"""The fdatasync timer: as many flushes as asked for, and not one past a limit."""

import errno

import pytest
from wcache.core.errors import StorageError
from wcache_probe.linux.timing import time_fdatasync

MS = 1_000_000


class Device:
    """Flushes that take the given times on a clock of their own."""

    def __init__(self, *flush_ms):
        self.left = list(flush_ms)
        self.now = 0

    def sync(self, fd):
        self.now += int(self.left.pop(0) * MS)

    def clock(self):
        return self.now


def run(device, count=10, seconds=10.0, limit=100.0):
    return time_fdatasync(0, count, seconds, limit, sync=device.sync, clock_ns=device.clock)


def test_every_flush_is_a_sample_in_order_and_nothing_is_written():
    outcome = run(Device(1, 2, 3), count=3)
    assert outcome.samples_ns == (MS, 2 * MS, 3 * MS)
    assert (outcome.bytes_written, outcome.aborted) == (0, "")
    assert outcome.seconds == pytest.approx(0.006)


def test_flushes_spread_over_a_time_begin_when_they_should_and_say_when():
    device = Device(1, 1, 25, 1)

    def sleep(seconds):
        device.now += round(seconds * 1e9)

    outcome = time_fdatasync(
        0, 4, 10.0, 100.0, sync=device.sync, clock_ns=device.clock, spread_s=0.16, sleep=sleep
    )
    assert outcome.at_ns == (0, 10 * MS, 40 * MS, 90 * MS)
    assert outcome.samples_ns == (MS, MS, 25 * MS, MS)


def test_the_first_sample_past_the_limit_is_kept_and_is_the_last():
    device = Device(1, 200, 1, 1)
    outcome = run(device)
    assert outcome.samples_ns == (MS, 200 * MS)
    assert "200.0 ms" in outcome.aborted
    assert device.left == [1, 1]


def test_it_ends_when_the_seconds_are_spent():
    outcome = run(Device(*[30] * 10), seconds=0.1)
    assert len(outcome.samples_ns) == 4
    assert outcome.aborted == ""


def test_a_failing_flush_is_one_clear_error():
    def fail(fd):
        raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(StorageError, match="Input/output error"):
        time_fdatasync(0, 1, 1.0, 1.0, sync=fail, clock_ns=lambda: 0)
