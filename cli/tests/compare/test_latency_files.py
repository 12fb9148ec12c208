"""fio's files are read as fio 3.33 wrote them; distributions keep their quantiles."""

import json
import statistics

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from wcache.core.errors import MalformedError
from wcache.core.model import CacheMode
from wcache_cli.compare.reading import read_latencies, read_modes
from wcache_cli.files import numbered_lines


def fio(tmp_path, **job):
    path = tmp_path / "fio.json"
    path.write_text(json.dumps({"fio version": "fio-3.33", "jobs": [job]}))
    return str(path)


def bins(counts, **more):
    return {"N": sum(counts.values()), "bins": {str(k): v for k, v in counts.items()}, **more}


def test_json_plus_gives_its_histogram(tmp_path):
    path = fio(tmp_path, write={"clat_ns": bins({4000: 60, 6000: 39, 900_000: 1})})
    found = read_latencies(path, "us")
    assert found.n == 100
    assert not found.ordered
    assert statistics.median(found.latencies_us) == pytest.approx(4, rel=0.05)
    assert max(found.latencies_us) == pytest.approx(900, rel=0.5)


def bucket(ns):
    """The middle of fio's bucket of a latency (stat.h: 64 in an octave, 1 ns below 128)."""
    width = 1 << max(0, ns.bit_length() - 7)
    return ns // width * width + width // 2


@pytest.mark.slow
@examples(50)
@given(st.lists(st.integers(1, 10**10), min_size=1, max_size=40))
def test_a_histogram_keeps_each_latency_within_its_bucket(tmp_path_factory, latencies):
    path = tmp_path_factory.mktemp("bins") / "fio.json"
    counts = {str(bucket(ns)): sum(bucket(ns) == bucket(o) for o in latencies) for ns in latencies}
    side = {"N": len(latencies), "bins": counts}
    path.write_text(json.dumps({"jobs": [{"write": {"clat_ns": side}}]}))
    drawn, truth = read_latencies(str(path), "us").latencies_us, sorted(latencies)
    for i, ns in enumerate(truth):  # the middle of the share that this latency has
        drawn_ns = 1000 * drawn[int((i + 0.5) / len(truth) * len(drawn))]
        assert drawn_ns == pytest.approx(ns, rel=1 / 64, abs=0.5)


def test_a_histogram_is_filled_between_its_own_minimum_and_maximum(tmp_path):
    side = bins({bucket(6_000_000): 500}, min=5_999_000, max=6_001_000)
    drawn = read_latencies(fio(tmp_path, write={"clat_ns": side}), "us").latencies_us
    assert 5999 <= min(drawn) < max(drawn) <= 6001


def test_plain_json_gives_a_distribution_through_its_percentiles(tmp_path):
    percentile = {f"{p:.6f}": 1000 * p for p in (1, 5, 10, 25, 50, 75, 90, 95, 99)}
    side = {"N": 1000, "min": 900, "max": 120_000, "percentile": percentile}
    found = read_latencies(fio(tmp_path, write={"total_ios": 1000, "clat_ns": side}), "us")
    assert found.n == 1000
    assert statistics.median(found.latencies_us) == pytest.approx(50, rel=0.01)
    assert statistics.quantiles(found.latencies_us, n=10)[-1] == pytest.approx(90, rel=0.02)


@pytest.mark.slow
def test_a_write_and_its_own_sync_make_one_commit(tmp_path):
    path = fio(
        tmp_path, write={"clat_ns": bins({10_000: 300})},
        sync={"total_ios": 0, "lat_ns": bins({500_000: 299})},
    )
    commits = read_latencies(path, "us").latencies_us
    assert statistics.median(commits) == pytest.approx(510, rel=0.01)


def test_syncs_shared_by_many_writes_are_refused_with_what_to_run(tmp_path):
    path = fio(
        tmp_path, write={"clat_ns": bins({10_000: 320})},
        sync={"lat_ns": bins({500_000: 10})},
    )
    with pytest.raises(MalformedError, match="once per 32 writes") as caught:
        read_latencies(path, "us")
    assert "--fdatasync=1" in caught.value.line()


def test_microseconds_of_fio_2_and_lines_before_the_json_are_understood(tmp_path):
    path = tmp_path / "old.json"
    side = {"N": 10, "min": 90, "max": 200, "percentile": {"50.000000": 100}}
    path.write_text("fio: a warning\n" + json.dumps({"jobs": [{"write": {"clat": side}}]}))
    assert statistics.median(read_latencies(str(path), "us").latencies_us) == pytest.approx(
        100, rel=0.05
    )


def test_a_latency_log_gives_its_writes_in_order(tmp_path):
    path = tmp_path / "x_lat.1.log"
    path.write_text("0, 25448, 1, 4096, 0\n1, 99, 0, 4096, 0\n2, 8462, 1, 4096, 0, 0\n")
    found = read_latencies(str(path), "s")
    assert list(found.latencies_us) == [25.448, 8.462]
    assert found.ordered


@pytest.mark.parametrize(("unit", "factor"), [("ns", 1e-3), ("us", 1), ("ms", 1e3), ("s", 1e6)])
def test_plain_text_has_the_unit_that_is_given(tmp_path, unit, factor):
    path = tmp_path / "plain"
    path.write_text("# latencies\n\n1.5\n 2e0 \n")
    assert list(read_latencies(str(path), unit).latencies_us) == [1.5 * factor, 2 * factor]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["jobs", "write", "sync", "clat_ns", "lat_ns", "N", "bins", "percentile",
                         "min", "max", "mean", "stddev", "50.0", "10", "job options", "bs"]),
        inner, max_size=6),
    max_leaves=20,
)


@pytest.mark.slow
@examples(100)
@given(job=JSON)
def test_whatever_stands_in_the_json_there_is_one_line_or_positive_latencies(tmp_path_factory, job):
    path = tmp_path_factory.mktemp("fuzz") / "fio.json"
    path.write_text(json.dumps({"jobs": [job]}))
    try:
        smallest = min(read_latencies(str(path), "us").latencies_us)
    except MalformedError as error:
        smallest = 1.0 if "\n" not in error.line() else 0.0
    assert smallest > 0


@pytest.mark.slow
def test_several_jobs_count_for_as_many_writes_as_they_made(tmp_path):
    path = tmp_path / "jobs.json"
    jobs = [{"write": {"clat_ns": bins({1000 * us: n})}} for us, n in ((100, 10**7), (900, 10**6))]
    path.write_text(json.dumps({"jobs": jobs}))
    found = read_latencies(str(path), "us")
    assert found.n == 11 * 10**6
    assert sum(us > 500 for us in found.latencies_us) / len(found.latencies_us) == pytest.approx(
        1 / 11, rel=0.01
    )


def test_numbers_of_absurd_length_are_one_line_each(tmp_path):
    for place, side in enumerate((
        {"N": 10**4000, "bins": {"1000": 5}},
        {"N": 100, "min": 10**400, "percentile": {"50.0": 3}},
        {"N": 100, "bins": {"1000": 10**30}},
        {"N": 100, "mean": 9, "stddev": 1e300, "bins": {"1000": 100}},
        {"N": 100, "bins": {"9" * 400: 5}},
    )):
        path = tmp_path / f"{place}.json"
        path.write_text(json.dumps({"jobs": [{"write": {"clat_ns": side}}]}))
        with pytest.raises(MalformedError) as caught:
            read_latencies(str(path), "us")
        assert len(caught.value.line()) < 400


def test_percentiles_away_from_the_median_are_refused_with_what_to_run(tmp_path):
    side = {"N": 100, "min": 10, "max": 9000, "percentile": {"1.0": 20, "99.0": 5000}}
    with pytest.raises(MalformedError, match="no percentiles around the median") as caught:
        read_latencies(fio(tmp_path, write={"clat_ns": side}), "us")
    assert "json+" in caught.value.line()


def test_a_latency_under_a_picosecond_names_its_line(tmp_path):
    path = tmp_path / "plain"
    path.write_text("3\n1e-320\n")
    with pytest.raises(MalformedError, match="line 2: a latency of less than a picosecond"):
        read_latencies(str(path), "us")


def plain(tmp_path, name, first, n=400):
    path = tmp_path / name
    path.write_text("".join(f"{first + i}\n" for i in range(n)))
    return str(path)


def test_all_files_together_are_bounded_with_what_to_do(tmp_path):
    a, b, c = (plain(tmp_path, name, 1000 * k + 1) for k, name in enumerate("abc"))
    paths = {CacheMode.WRITE_BACK: [a, b], CacheMode.WRITE_THROUGH: [c]}
    runs = read_modes(paths, "us", 1200)
    assert [run.n for mode in CacheMode for run in runs[mode]] == [400] * 3
    with pytest.raises(MalformedError, match="the files hold more") as caught:
        read_modes(paths, "us", 1199)
    assert "json+" in caught.value.line()
    assert c in caught.value.line()


def test_the_jobs_of_a_run_have_no_more_room_than_files_of_their_own(tmp_path):
    logs = []
    for number in (1, 2, 3):
        logs.append(str(tmp_path / f"x_lat.{number}.log"))
        with open(logs[-1], "w", encoding="utf-8") as log:
            log.writelines(f"{i}, {i + number}000, 1, 4096, 0\n" for i in range(100))
    paths = {CacheMode.WRITE_BACK: logs, CacheMode.WRITE_THROUGH: [plain(tmp_path, "a", 1, 50)]}
    assert read_modes(paths, "us", 350)[CacheMode.WRITE_BACK][0].n == 300
    with pytest.raises(MalformedError, match=r"x_lat\.3\.log the files hold"):
        read_modes(paths, "us", 299)


def test_histograms_leave_room_for_each_other_and_still_say_how_many_there_were(tmp_path):
    paths = []
    for k in range(8):
        paths.append(str(tmp_path / f"{k}.json"))
        with open(paths[-1], "w", encoding="utf-8") as file:
            side = bins({1000 * k + 5000: 10**6})
            json.dump({"jobs": [{"write": {"clat_ns": side}}]}, file)
    found = {CacheMode.WRITE_BACK: paths[:4], CacheMode.WRITE_THROUGH: paths[4:]}
    runs = [run for runs in read_modes(found, "us", 10_000).values() for run in runs]
    assert sum(len(run.latencies_us) for run in runs) <= 10_000
    assert {run.n for run in runs} == {10**6}


@examples(50)
@given(st.lists(st.text("a1,\n\r", max_size=9), max_size=9))
def test_lines_are_the_same_wherever_a_block_ends(blocks):
    found = list(numbered_lines("x", blocks))
    assert found == list(enumerate("".join(blocks).split("\n"), 1))


def test_a_line_without_an_end_is_not_read_to_it(tmp_path):
    path = tmp_path / "long"
    path.write_text("1\n" + "5" * 200_000)
    with pytest.raises(MalformedError, match="line 2 is longer than any latency"):
        read_latencies(str(path), "us")
