"""bcache above a drive: what its files say, from which side; nothing where they make no sense."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prepare_bench import Bank, host_of
from sim_drives import MemoryJournal
from wcache.core.errors import RefusedError, StorageError
from wcache.core.model import FindingCode, Severity
from wcache_probe.linux.block.options import bcaches_on, parse_size
from wcache_probe.linux.block.sysfs import by_name
from wcache_probe.switcher import Switcher
from wcache_probe.switching.steps import AskCache, Switched

DEBUG = (
    "rate:\t\t4.0k/sec\ndirty:\t\t1.1G\ntarget:\t\t10.2G\nproportional:\t-8.0k\n"
    "integral:\t0\nchange:\t\t0k/sec\nnext io:\t-12ms\n"
)


def stacked(fake_host, mode="writethrough [writeback] writearound none", debug=DEBUG):
    """An HDD behind an SSD, as bcache0."""
    hdd = fake_host.disk("sda", "8:0", marker="bcache")
    fake_host.disk("nvme0n1", "259:0", marker="bcache")
    (hdd / "bcache/cache_mode").write_text(f"{mode}\n")
    (hdd / "stat").write_text("1 2 3 4 5 6 7 8 9 1234 11 12 13 14 15 16 17\n")
    top = fake_host.device("bcache0", "252:0", below=("sda", "nvme0n1"), marker="bcache")
    for name, text in (
        ("cache_mode", mode), ("sequential_cutoff", "4.0M"), ("dirty_data", "1.1G"),
        ("writeback_rate_debug", debug), ("writeback_consider_fragment", "1"),
    ):
        (top / "bcache" / name).write_text(f"{text}\n")


def test_both_sides_are_told_apart_and_all_settings_are_read(fake_host):
    stacked(fake_host)
    (backing,) = bcaches_on(by_name(fake_host.files, "sda"))
    (cache,) = bcaches_on(by_name(fake_host.files, "nvme0n1"))
    assert (backing.name, backing.is_cache, cache.is_cache) == ("bcache0", False, True)
    assert backing.mode == "writeback"
    assert backing.sequential_cutoff_bytes == 4 * 2**20
    assert backing.dirty_bytes == 2**30 + 103 * 2**20
    assert backing.target_bytes == 10 * 2**30 + 205 * 2**20
    assert backing.rate_bytes_s == 4096
    assert backing.above_target is False
    assert backing.considers_fragments is True
    assert (backing.busy_ms, cache.busy_ms) == (1234, 1234)  # of the backing disk


@pytest.mark.parametrize("mode", ["", "[evil\x1b]", "writeback", "[writearound"])
def test_a_mode_that_makes_no_sense_is_unknown_and_crosses_nothing(fake_host, mode):
    stacked(fake_host, mode=mode, debug="target: lots\n" * 1000)
    (found,) = bcaches_on(by_name(fake_host.files, "sda"))
    assert (found.mode, found.target_bytes, found.above_target) == ("unknown", None, None)


@given(st.text(max_size=40))
def test_no_text_is_a_size_by_mistake(text):
    found = parse_size(text)
    assert found is None or found >= 0


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("512", 512), ("1.5k", 1536), ("4.0M", 4 * 2**20), ("-8.0k", 0), ("", None),
     ("4.0MB", None), ("1e9", None)],
)
def test_sizes_are_read_as_bcache_prints_them(text, size):
    assert parse_size(text) == size


def printed(size):
    """The same as bch_hprint() of drivers/md/bcache/util.c."""
    for unit in "kMGTPE":
        size, rest = divmod(size, 1024)
        if size < 1000:
            return f"{size}.{rest * 10 // 1024}{unit}"
    raise AssertionError("too large")


@given(st.integers(0, 2**40))
@example(5_000_000)
@example(1000 * 2**30)
@example(1023 * 2**20)
def test_a_size_that_is_written_back_is_printed_as_it_was(size):
    found = parse_size(printed(size))
    assert printed(found) == printed(size)
    assert found <= size


@pytest.mark.parametrize(("state", "severity"), [
    ("clean", None), ("dirty", None), ("", None), ("evil\x1b[2J", None),
    ("no cache", Severity.INFO), ("inconsistent", Severity.WARNING),
])
def test_a_device_that_runs_without_its_cache_is_told_whatever_its_mode(
    fake_host, state, severity
):
    stacked(fake_host)
    (fake_host.root / "sys/class/block/bcache0/bcache/state").write_text(f"{state}\n")
    fake_host.osd(1, block="bcache0")
    host = fake_host.drive_host()
    found = [
        (drive.dev_name, item.severity) for drive in host.look() for item in drive.findings
        if item.code is FindingCode.BCACHE_STATE
    ]
    assert found == ([("sda", severity)] if severity else [])


# ---- whether bcache may go back to writeback


class Others(Bank):
    """Model drives of which each but those of the bcache device answers nothing."""

    def __init__(self, silent=("sdc",)):
        super().__init__()
        self.silent = silent

    def command(self, device, cdb, **more):
        if device.name in self.silent:
            raise StorageError(f"{device.name} was not reached")
        return super().command(device, cdb, **more)


def way_back(fake_host, bank=None, osds=("sdc",)):
    """The probe asks for the cache device sdb of bcache0, above sda, which no OSD uses any more."""
    wwids = tuple(f"naa.5000c5000000006{number}" for number in (1, 2, 3))
    host = host_of(fake_host, wwids=wwids, osds=osds, bank=bank or Others())
    for name in ("sda", "sdb"):
        (fake_host.root / "sys/class/block" / name / "bcache").mkdir()
    (fake_host.root / "sys/class/block/sda/bcache/cache_mode").write_text("[writethrough]\n")
    fake_host.device("bcache0", "252:0", below=("sda", "sdb"), marker="bcache")
    backing = host.drive_of(by_name(fake_host.files, "sda"))
    host.look = lambda: pytest.fail("every drive of the host was asked")

    def program():
        yield AskCache(backing)
        return Switched((), (), changed=False)

    return lambda: Switcher(host, MemoryJournal()).run(backing.domain_id, program())


def test_the_way_back_asks_the_members_alone_with_no_osd_to_be_seen(fake_host):
    ask = way_back(fake_host)
    ask()
    fake_host.set_view("sdb", "write through")
    with pytest.raises(RefusedError, match=r"sdb .*may not hold alone.* disk does not flush"):
        ask()


def test_the_way_back_is_refused_above_no_cache_and_one_that_answers_nothing(fake_host):
    bank = Others()
    ask = way_back(fake_host, bank)
    bank.silent = ("sdb",)
    with pytest.raises(StorageError, match="sdb was not reached"):
        ask()
    bank.silent = ()
    (fake_host.root / "sys/class/block/bcache0/slaves/sdb").unlink()
    with pytest.raises(RefusedError, match="none is attached"):
        ask()
