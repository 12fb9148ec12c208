"""Load profiles are read for measured OSDs only, kept over a restart, and never in the way."""


import mgr_fakes.builders as make
import pytest
from mgr_fakes.store import MemoryStore
from wcache.core.cluster import OsdNow
from wcache.core.fleet.claims import osds_now
from wcache.core.model import DriveModel, LoadPoint, Verdict
from wcache.core.verdict.load_profile import WorkCounters
from wcache.core.verdict.result import Result
from wcache.engine.load_watch import OSDS_MAX, STORE_EVERY, LoadWatch
from wcache.engine.storing.archive import Archive
from wcache.engine.world import World


class Reader:
    """OSDs that write 1,000 times between readings; those in `silent` say nothing."""

    def __init__(self, silent=()):
        self.silent = set(silent)
        self.asked = []

    def work(self, osd_id):
        self.asked.append(osd_id)
        if osd_id in self.silent:
            return None
        n = self.asked.count(osd_id)
        return WorkCounters(600.0 * n, 1000 * n, 500 * n, 1000 * n, 4096 * 1000 * n, 0, 0)


def result(osd_id, **changes):
    values = {
        "record_id": f"r{osd_id}", "campaign_id": "c1", "hostname": "h1", "osd_id": osd_id,
        "device_class": "hdd", "domain_id": "d", "drive_id": "d",
        "drive_model": DriveModel("A", "B", "C"), "load_point": LoadPoint.OSD_BENCH_DEPTH1,
        "verdict": Verdict.B, "pairs": 4, "seconds": 1.0, "bytes_written": 0,
        "ended": "decided",
    }
    return Result(**{**values, **changes})


def on(*drives, uuid="u"):
    """An OSD on these drives of host h1."""
    return OsdNow(uuid, frozenset(("h1", drive) for drive in drives))


# every OSD that the tests have, on the drive of `result`
ALL = {osd_id: on("d", uuid=f"u{osd_id}") for osd_id in range(OSDS_MAX + 1)}


def watch(results, reader, shelf=None, osds=None):
    def world():
        measured = {str(number): one for number, one in enumerate(results)}
        now = World(0.0, lambda: None, all_results=measured)
        vars(now)["osds_now"] = ALL if osds is None else osds
        return now

    found = LoadWatch(
        work=reader.work, archive=Archive(shelf or MemoryStore()), world=world,
        log=lambda text: None,
    )
    found.world = world
    return found


def profiles(found):
    now = found.world()
    return found.profiles(now)


HDD, SSD = ("hdd", "A B C"), ("ssd", "S S S")


def writes(found, key):
    """Client writes by OSD of a device class and drive model."""
    return {osd_id: p.total.client_writes for osd_id, p in profiles(found)[key].items()}


def test_only_measured_real_osds_are_read():
    reader = Reader()
    watch([result(1), result(1), result(5), result(9, simulated=True)], reader).read()
    assert reader.asked == [1, 5]
    assert profiles(watch([], Reader())) == {}


def test_the_osds_measured_last_are_read_and_profiles_of_others_go():
    shelf, reader = MemoryStore(), Reader()
    results = [result(0)]
    found = watch(results, reader, shelf)
    for _ in range(STORE_EVERY):
        found.read()
    assert list(shelf.kept) == ["profile/0"]
    results += [result(n, ended_at_s=float(n)) for n in range(1, OSDS_MAX + 1)]
    for _ in range(STORE_EVERY):
        found.read()
    assert len(shelf.kept) == OSDS_MAX
    assert "profile/0" not in shelf.kept
    assert f"profile/{OSDS_MAX}" in shelf.kept


@pytest.mark.parametrize(("silent", "known"), [((), {1: 2000, 2: 2000}), ((1,), {2: 2000})])
def test_osds_of_a_drive_model_stand_together_and_one_that_says_nothing_hides_no_other(
    silent, known
):
    found = watch([result(1), result(2)], Reader(silent))
    for _ in range(3):
        found.read()
    assert list(profiles(found)) == [HDD]
    assert writes(found, HDD) == known


def test_profiles_outlive_the_mgr():
    shelf = MemoryStore()
    first = watch([result(1)], Reader(), shelf)
    for _ in range(STORE_EVERY):
        first.read()
    second = watch([result(1)], Reader(), shelf)
    second.load()
    assert profiles(second) == profiles(first)


def test_what_a_store_refuses_is_kept_in_memory_and_stored_later():
    shelf = MemoryStore()
    found = watch([result(1)], Reader(), shelf)
    shelf.fails = lambda key: True
    for _ in range(STORE_EVERY):
        found.read()
    assert writes(found, HDD)
    assert shelf.kept == {}
    shelf.fails = lambda key: False
    shelf.answer()
    assert list(shelf.kept) == ["profile/1"]


def reused(found, results, osds):
    """Read id 1 as a disk's, then purge it and give it to an SSD that is measured too."""
    for _ in range(4):
        found.read()
    osds[1] = on("s", uuid="new")
    results.append(result(
        1, drive_id="s", device_class="ssd", drive_model=DriveModel("S", "S", "S"),
        ended_at_s=9.0,
    ))


def test_a_purged_osds_load_is_not_that_of_the_osd_that_gets_its_id():
    results, osds = [result(1)], {1: on("d", uuid="old")}
    found = watch(results, Reader(), osds=osds)
    reused(found, results, osds)
    assert list(profiles(found)) == [SSD]
    assert found.by_osd()[1].total.client_writes == 0
    for _ in range(3):
        found.read()
    assert writes(found, SSD) == {1: 2 * 1000}
    assert HDD not in profiles(found)


def test_an_id_that_was_used_again_while_no_mgr_ran_starts_anew():
    shelf, results, osds = MemoryStore(), [result(1)], {1: on("d", uuid="old")}
    first = watch(results, Reader(), shelf, osds)
    for _ in range(STORE_EVERY):
        first.read()
    second = watch(results, Reader(), shelf, osds)
    second.load()
    assert writes(second, HDD) == {1: (STORE_EVERY - 1) * 1000}
    osds[1] = on("d", uuid="new")
    assert writes(second, HDD) == {1: 0}


@pytest.mark.parametrize("now", [{}, {1: on()}, {1: on("e")}], ids=["purged", "untold", "moved"])
def test_a_drive_that_is_not_under_its_osd_now_has_no_load(now):
    osds = {1: on("d")}
    found = watch([result(1)], Reader(), osds=osds)
    found.read()
    found.read()
    assert profiles(found)
    osds.clear()
    osds.update(now)
    assert profiles(found) == {}
    assert found.by_osd() == {}


def test_an_osd_is_on_the_drives_that_its_own_host_reports():
    seen = make.cluster([make.osd(1, "h2", uuid="u1"), make.osd(2, "h3.example", uuid="u2")])
    reports = [
        make.report("h1", make.drive("old", 1)),  # from before the id was used again
        make.report("h2", make.drive("sda", 1), make.drive("nvme0n1", 1)),
        make.report("h3", make.drive("sda", 2)),
    ]
    assert osds_now(reports, seen) == {
        1: OsdNow("u1", frozenset({("h2", "wwn-sda"), ("h2", "wwn-nvme0n1")})),
        2: OsdNow("u2", frozenset({("h3", "wwn-sda")})),
    }
    assert osds_now([], seen)[1] == OsdNow("u1", frozenset())
