"""A drive of the lab takes the time its model says, counts what came, and loses what it may."""

import pytest
from drive_lab.drives.counters import CounterFile, Counters, read_counters
from drive_lab.drives.medium import BLOCK_BYTES, Medium
from drive_lab.drives.modelled_drive import ModelledDrive

BLOCK = b"x" * BLOCK_BYTES


class Clock:
    def __init__(self):
        self.ns = 0

    def now_ns(self):
        return self.ns

    def sleep(self, seconds):
        self.ns += round(seconds * 1e9)


class FlatPhysics:
    def read(self, now_ns, size):
        return 1_000

    def write(self, now_ns, size, fua=False):
        return 300_000 if fua else 20_000

    def flush(self, now_ns):
        return 15_000_000

    def power_cut(self):
        return 0


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def make(tmp_path, clock):
    def made(**how):
        return ModelledDrive(
            medium=Medium(tmp_path / "drive", 64 * BLOCK_BYTES, 64 * BLOCK_BYTES),
            physics=FlatPhysics(),
            publish=CounterFile(tmp_path / "counters").publish,
            now_ns=clock.now_ns,
            sleep=clock.sleep,
            **how,
        )

    return made


def test_each_command_takes_the_time_of_the_physics(make, clock):
    drive = make()
    drive.write(0, BLOCK, fua=False)
    drive.write(0, BLOCK, fua=True)
    drive.flush()
    drive.read(0, BLOCK_BYTES)
    assert clock.ns == 20_000 + 300_000 + 15_000_000 + 1_000


def test_counters_tell_cached_from_stable_writes_and_dirty_from_clean_flushes(make, tmp_path):
    drive = make()
    drive.write(0, BLOCK, fua=False)
    assert read_counters(tmp_path / "counters").dirty == 1
    drive.flush()
    drive.write(0, BLOCK, fua=True)
    drive.flush()
    drive.read(0, BLOCK_BYTES)
    assert read_counters(tmp_path / "counters") == Counters(
        read=1, write=1, fua=1, flush=2, flush_dirty=1, bytes_written=2 * BLOCK_BYTES
    )


def test_a_drive_that_lies_about_flushes_loses_flushed_data(make, tmp_path):
    drive = make(flush_lies=True)
    drive.write(0, BLOCK, fua=False)
    drive.flush()
    assert drive.power_cut() == 1
    assert drive.read(0, BLOCK_BYTES) == bytes(BLOCK_BYTES)
    assert read_counters(tmp_path / "counters").lost == 1


def test_a_protected_drive_loses_nothing(make):
    drive = make(protected=True)
    drive.write(0, BLOCK, fua=False)
    assert drive.power_cut() == 0
    assert drive.read(0, BLOCK_BYTES) == BLOCK


def test_a_drive_without_power_takes_no_write_and_shows_its_medium(make):
    drive = make()
    drive.write(0, BLOCK, fua=True)
    drive.write(BLOCK_BYTES, BLOCK, fua=False)
    assert drive.power_off() == 1
    for fua in (True, False):
        drive.write(0, bytes(BLOCK_BYTES), fua=fua)
        drive.write(BLOCK_BYTES, BLOCK, fua=fua)
    drive.flush()
    assert drive.read(0, 2 * BLOCK_BYTES) == BLOCK + bytes(BLOCK_BYTES)
    assert drive.power_on() == 0
    drive.write(BLOCK_BYTES, BLOCK, fua=True)
    assert drive.read(BLOCK_BYTES, BLOCK_BYTES) == BLOCK


def test_counters_survive_their_text_and_refuse_another(tmp_path):
    counters = Counters(read=3, dirty=2, bytes_written=10**15)
    assert Counters.decode(counters.encode().decode()) == counters
    with pytest.raises(ValueError, match="counters should be"):
        Counters.decode("read 1\n")
