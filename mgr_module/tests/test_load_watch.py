"""Load profiles are read for measured OSDs only, kept over a restart, and never in the way."""

import pytest
from wcache.archive import Archive
from wcache.core.errors import StorageError
from wcache.core.load_profile import WorkCounters
from wcache.core.model import DriveModel, LoadPoint, Verdict
from wcache.core.policy import Result
from wcache.load_watch import OSDS_MAX, STORE_EVERY, LoadWatch


class Shelf:
    """A Store in memory; `full` makes it refuse."""

    def __init__(self):
        self.values = {}
        self.full = False

    def get(self, key):
        return self.values.get(key)

    def put(self, key, text):
        if self.full:
            raise StorageError("the store is full")
        self.values[key] = text

    def delete(self, key):
        self.values.pop(key, None)

    def keys(self, prefix):
        return sorted(key for key in self.values if key.startswith(prefix))


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
        "verdict": Verdict.WRITE_THROUGH, "pairs": 4, "seconds": 1.0, "bytes_written": 0,
        "ended": "decided",
    }
    return Result(**{**values, **changes})


def watch(results, reader, shelf=None):
    return LoadWatch(
        reader=reader, archive=Archive(shelf or Shelf()), results=lambda: list(results),
        log=lambda text: None,
    )


def test_only_measured_real_osds_are_read():
    reader = Reader()
    watch([result(1), result(1), result(5), result(9, simulated=True)], reader).read()
    assert reader.asked == [1, 5]


def test_the_osds_measured_last_are_read_and_profiles_of_others_go():
    shelf, reader = Shelf(), Reader()
    results = [result(0)]
    found = watch(results, reader, shelf)
    for _ in range(STORE_EVERY):
        found.read()
    assert list(shelf.values) == ["profile/0"]
    results += [result(n, ended_at_s=float(n)) for n in range(1, OSDS_MAX + 1)]
    for _ in range(STORE_EVERY):
        found.read()
    assert len(shelf.values) == OSDS_MAX
    assert "profile/0" not in shelf.values
    assert f"profile/{OSDS_MAX}" in shelf.values


def test_osds_of_a_drive_model_are_one_profile():
    found = watch([result(1), result(2)], Reader())
    for _ in range(3):
        found.read()
    (profile,) = found.profiles().values()
    assert profile.total.client_writes == 2 * 2 * 1000


def test_an_osd_that_says_nothing_does_not_hide_the_others():
    found = watch([result(1), result(2)], Reader(silent={1}))
    found.read()
    found.read()
    assert found.profiles()[("hdd", "A B C")].total.client_writes == 1000


def test_profiles_outlive_the_mgr():
    shelf = Shelf()
    first = watch([result(1)], Reader(), shelf)
    for _ in range(STORE_EVERY):
        first.read()
    second = watch([result(1)], Reader(), shelf)
    second.load()
    assert second.profiles() == first.profiles()


def test_a_store_that_refuses_is_an_error_of_the_reading_alone():
    shelf = Shelf()
    found = watch([result(1)], Reader(), shelf)
    shelf.full = True
    for _ in range(STORE_EVERY - 1):
        found.read()
    with pytest.raises(StorageError):
        found.read()
    assert found.profiles()[("hdd", "A B C")].hours


def test_nothing_measured_is_nothing_known():
    assert watch([], Reader()).profiles() == {}
