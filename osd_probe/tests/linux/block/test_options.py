"""Options in sysfs: read in their entries' words, written by their entries or not at all."""

import pytest
from wcache.core.errors import Refusal, RefusalKind, RefusedError
from wcache.core.options.entries import OPTIONS
from wcache_probe.linux.block.options import set_option, values_on
from wcache_probe.linux.block.sysfs import by_name

QUEUE = {
    "scheduler": "none [mq-deadline] kyber", "nr_requests": "256", "read_ahead_kb": "128",
    "wbt_lat_usec": "75000",
}
BCACHE = {
    "cache_mode": "writethrough [writeback] writearound none", "dirty_data": "1.5k",
    "sequential_cutoff": "4.0M", "writeback_percent": "10", "writeback_rate_minimum": "8",
    "writeback_rate_p_term_inverse": "40", "writeback_rate_i_term_inverse": "10000",
}


@pytest.fixture
def folders(fake_host):
    """An HDD behind an SSD, as bcache0: where the options' files are."""
    hdd = fake_host.disk("sda", "8:0", marker="bcache")
    fake_host.disk("nvme0n1", "259:0", marker="bcache")
    (hdd / "bcache/cache_mode").write_text("writethrough [writeback] writearound none\n")
    top = fake_host.device("bcache0", "252:0", below=("sda", "nvme0n1"), marker="bcache")
    for folder, texts in ((hdd / "queue", QUEUE), (top / "bcache", BCACHE)):
        for name, text in texts.items():
            (folder / name).write_text(f"{text}\n")
    (hdd / "device/scsi_disk").mkdir()
    return hdd / "queue", top / "bcache"


def values(fake_host, name="sda"):
    return {one.name: one.value for one in values_on(by_name(fake_host.files, name))}


def test_all_options_of_a_drive_and_of_the_bcache_that_it_backs_are_read(fake_host, folders):
    assert values(fake_host) == {
        **QUEUE, "scheduler": "mq-deadline", **BCACHE, "sequential_cutoff": str(4 * 2**20),
        "cache_mode": "writeback", "dirty_data": "1536",
    }
    # those of bcache are of the backing drive, not of the cache device
    assert not set(values(fake_host, "nvme0n1")) & set(BCACHE)


def test_what_cannot_be_read_is_not_there(fake_host, folders):
    queue, _ = folders
    (queue / "wbt_lat_usec").unlink()
    (queue / "nr_requests").write_text("lots\n")
    (queue / "scheduler").write_text("none\n")
    found = values(fake_host)
    assert {"wbt_lat_usec", "nr_requests"} & set(found) == set()
    assert found["scheduler"] == "none"


@pytest.mark.parametrize(
    ("text", "told"), [("0.0k", "0"), ("0.5k", "512"), ("-0.5k", None), ("", None), ("1 k", None)]
)
def test_dirty_data_that_cannot_be_read_is_not_taken_for_none(fake_host, folders, text, told):
    _, bcache = folders
    (bcache / "dirty_data").write_text(f"{text}\n")
    assert values(fake_host).get("dirty_data") == told
    (bcache / "dirty_data").unlink()
    assert "dirty_data" not in values(fake_host)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cache_mode", "writearound"), ("scheduler", "none"), ("nr_requests", "64"),
        ("writeback_percent", "20"),
    ],
)
def test_a_value_of_an_entry_is_written(fake_host, folders, name, value):
    set_option(by_name(fake_host.files, "sda"), name, value)
    queue, bcache = folders
    folder = bcache if name in BCACHE else queue
    # a file of the test keeps what lies beyond, which sysfs does not
    assert (folder / name).read_text()[:len(value)] == value


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("name", [
    "write_cache", "fua", "cache_type", "max_sectors_kb", "../scheduler", "",
    "osd_mclock_profile", "dirty_data",
])
def test_whatever_has_no_entry_on_a_host_is_refused_by_name(fake_host, folders, name, back):
    before = {path: path.read_text() for folder in folders for path in folder.iterdir()}
    with pytest.raises(RefusedError) as refused:
        set_option(by_name(fake_host.files, "sda"), name, "0", back=back)
    assert name in refused.value.message
    assert {path: path.read_text() for folder in folders for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("nr_requests", "3"), ("nr_requests", "5000"), ("nr_requests", "64\n"),
        ("scheduler", "cfq"), ("cache_mode", "none"), ("writeback_percent", "0"),
        ("writeback_percent", "70"),
    ],
)
def test_the_probe_holds_to_an_entrys_bounds_whoever_asks(fake_host, folders, name, value):
    with pytest.raises(RefusedError):
        set_option(by_name(fake_host.files, "sda"), name, value)
    assert values(fake_host)["nr_requests"] == "256"
    assert values(fake_host)["writeback_percent"] == "10"


def test_what_was_there_before_goes_back_beyond_the_bounds_but_is_a_value(fake_host, folders):
    drive = by_name(fake_host.files, "sda")
    set_option(drive, "writeback_percent", "70", back=True)
    assert values(fake_host)["writeback_percent"] == "70"
    with pytest.raises(RefusedError):
        set_option(drive, "writeback_percent", "70; reboot", back=True)


def test_an_option_that_the_drive_has_not_is_refused_and_made_nowhere(fake_host):
    fake_host.disk("sda", "8:0")
    for one in OPTIONS:
        if one.on_host:
            value = one.words[0] if one.words else str(one.high)
            with pytest.raises(RefusedError) as refused:
                set_option(by_name(fake_host.files, "sda"), one.name, value)
            assert "sda has no" in refused.value.message


@pytest.mark.parametrize(("name", "asks"), [("writeback_percent", True), ("nr_requests", False)])
def test_a_value_that_goes_back_once_its_bcache_is_there_says_so(fake_host, name, asks):
    """As after a reboot, where the probe may be there first."""
    fake_host.disk("sda", "8:0")
    for back in (False, True):
        with pytest.raises(RefusedError) as refused:
            set_option(by_name(fake_host.files, "sda"), name, "20", back=back)
        assert ("register its bcache device" in refused.value.advice) is (back and asks)


def test_two_bcaches_on_one_drive_cannot_be_told_apart_and_are_left_alone(fake_host, folders):
    second = fake_host.device("bcache1", "252:16", below=("sda",), marker="bcache")
    (second / "bcache/writeback_percent").write_text("10\n")
    assert not set(values(fake_host)) & set(BCACHE)


OF_OSDS = [one for one in OPTIONS if not one.on_host]


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("entry", OF_OSDS, ids=lambda one: one.name)
def test_an_option_of_osds_is_no_file_whatever_is_planted_there(fake_host, folders, entry, back):
    value = entry.words[0] if entry.words else str(entry.high)
    planted = [folder / entry.name for folder in folders]
    for path in planted:
        path.write_text("0\n")
    with pytest.raises(RefusedError, match="is an option of the OSD: the mgr sets it"):
        set_option(by_name(fake_host.files, "sda"), entry.name, value, back=back)
    assert [path.read_text() for path in planted] == ["0\n", "0\n"]


def a_host(fake_host, boot_pins=None):
    return fake_host.drive_host(
        find_foreign_rules=tuple, boot_pins=boot_pins or fake_host.boot_pins,
    )


def test_no_option_is_set_on_a_drive_that_is_left_alone_and_what_was_there_goes_back(fake_host):
    folder = fake_host.disk("vda", "252:0")
    (folder / "queue/nr_requests").write_text("256\n")
    fake_host.osd(0, block="vda")
    host = a_host(fake_host)
    (drive,) = host.look()
    with pytest.raises(RefusedError, match="vda is left alone: a virtio-blk disk"):
        host.set_option(drive, "nr_requests", "64")
    assert (folder / "queue/nr_requests").read_text() == "256\n"
    host.set_option(drive, "nr_requests", "128", back=True)
    assert (folder / "queue/nr_requests").read_text()[:3] == "128"


class InRam:
    journal_lost = "its folder is on tmpfs"

    def refusal(self, wwid):
        return ""


@pytest.mark.parametrize("used", [True, False])
@pytest.mark.parametrize("transport", ["has no cache", "left alone"])
def test_every_drive_tells_where_the_journal_is_in_ram(fake_host, used, transport):
    name = "vda" if transport == "left alone" else "nvme0n1"
    folder = fake_host.disk(name, "252:0")
    if used:
        fake_host.osd(0, block=name)
    host = a_host(fake_host, InRam)
    device = by_name(fake_host.files, name)
    for drive in (host.drive_of(device), *host.look()):
        assert Refusal(RefusalKind.JOURNAL_LOST, InRam.journal_lost) in drive.refusals, folder
