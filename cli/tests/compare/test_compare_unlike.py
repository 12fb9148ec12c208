"""Files that were measured differently are not compared; what was not measured is not printed."""

import json
import random

import pytest
from wcache_cli.main import main

pytestmark = pytest.mark.slow

OPTIONS = {"rw": "randwrite", "bs": "4k", "iodepth": "1", "fdatasync": "1", "numjobs": "1"}
PERCENTILES = {f"{share:.6f}": 1000 * share for share in (1, 5, *range(10, 91, 10), 95, 99, 99.9)}


def histogram(seed, middle_ns, n=4000):
    rng, bins = random.Random(seed), {}
    for _ in range(n):
        value = str(int(middle_ns * rng.lognormvariate(0, 0.2)))
        bins[value] = bins.get(value, 0) + 1
    return {"N": n, "min": 7, "max": 9_000_000, "mean": 2 * middle_ns, "stddev": 55.5,
            "bins": bins}


def fio(path, seed=1, syncs=False, **options):
    job = {
        "error": 0, "job options": {**OPTIONS, **options},
        "write": {"clat_ns": histogram(seed, 20_000)},
        "sync": {"lat_ns": histogram(seed + 100, 500_000) if syncs else {"N": 0}},
    }
    path.write_text(json.dumps({"jobs": [job]}))
    return str(path)


def single(path, side):
    path.write_text(json.dumps({"jobs": [{"write": {"clat_ns": side}}]}))
    return str(path)


def log(path, seed=1, size=4096, period_ms=1, n=400):
    rng = random.Random(seed)
    path.write_text("".join(
        f"{i * period_ms}, {int(300_000 * rng.lognormvariate(0, 0.2))}, 1, {size}, 0\n"
        for i in range(n)
    ))
    return str(path)


def asked(capsys, back, through):
    words = ["--write-back", back, "--write-through", through, "--format", "json", "--synced"]
    assert main(["compare", *words]) == 0
    return json.loads(capsys.readouterr().out)


def refused(capsys, back, through):
    assert main(["compare", "--write-back", back, "--write-through", through]) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    return shown.err


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("fdatasync", "0", "fdatasync (1, 0)"),
        ("bs", "64k", "bs (4096, 65536)"),
        ("iodepth", "32", "iodepth (1, 32)"),
        ("rw", "write", "rw (randwrite, write)"),
        ("direct", "1", "direct (0, 1)"),
        ("buffered", "0", "direct (0, 1)"),
        ("ioengine", "a\n\x1b[2J", "ioengine (psync, a??[2j)"),
    ],
)
def test_a_setting_that_differs_between_the_modes_is_named(tmp_path, capsys, name, value, said):
    back, through = fio(tmp_path / "on"), fio(tmp_path / "off", 2, **{name: value})
    wanted = f"were not measured in the same way: {said}: compare measurements that"
    assert wanted in refused(capsys, back, through)


def test_the_same_setting_in_other_words_is_no_difference(tmp_path, capsys):
    back = fio(tmp_path / "on", bs="4096", size="1g")
    through = fio(tmp_path / "off", 2, bs="4KiB", size="1024m")
    assert asked(capsys, back, through)["ratio"] == pytest.approx(1, rel=0.05)


def test_runs_of_one_mode_have_to_be_alike_too(tmp_path, capsys):
    words = [fio(tmp_path / "a"), fio(tmp_path / "b", 3, bs="8k")]
    assert main(["compare", "--write-back", *words, "--write-through", fio(tmp_path / "c", 2)]) == 2
    assert "bs (4096, 8192)" in capsys.readouterr().err


@pytest.mark.slow
def test_writes_with_their_syncs_are_not_compared_with_writes_alone(tmp_path, capsys):
    with_sync = fio(tmp_path / "on", syncs=True)
    assert "syncs added to writes (yes, no)" in refused(
        capsys, with_sync, fio(tmp_path / "off", 2)
    )
    assert "syncs added to writes (yes, no)" in refused(capsys, with_sync, log(tmp_path / "log"))


def test_the_block_size_of_a_log_is_compared_with_what_others_tell(tmp_path, capsys):
    back = fio(tmp_path / "on", direct="1", fdatasync="0", sync="dsync")
    assert "bs (4096, 8192)" in refused(capsys, back, log(tmp_path / "off", size=8192))
    assert asked(capsys, back, log(tmp_path / "like"))["verdict"] == "write back"


def test_what_a_file_does_not_tell_is_no_difference(tmp_path, capsys):
    plain = tmp_path / "off"
    plain.write_text("".join(f"{500 + i % 7 + i / 997}\n" for i in range(400)))
    assert asked(capsys, fio(tmp_path / "on", syncs=True), str(plain))["ratio"] > 1


def test_one_measurement_is_not_taken_for_both_modes(tmp_path, capsys):
    one, copy = log(tmp_path / "one"), log(tmp_path / "copy")
    assert f"{one} gave the same latencies for both" in refused(capsys, one, one)
    assert "the same latencies for both cache modes" in refused(capsys, one, copy)


def test_a_log_of_means_says_that_it_is_one(tmp_path, capsys):
    back = log(tmp_path / "on", 1, size=0, period_ms=1000)
    through = log(tmp_path / "off", 2, size=0, period_ms=1000)
    result = asked(capsys, back, through)
    assert "averaged" in result["warnings"]
    assert result["tail_ratio"] is None
    row = result["per_mode"]["write back"]
    assert {name for name, value in row.items() if value is not None} == {"n", "p50_us"}
    assert "log_avg_msec (set, not set)" in refused(capsys, back, log(tmp_path / "each", 3))


def test_figures_are_those_of_the_file_and_not_of_what_was_drawn(tmp_path, capsys):
    back = single(tmp_path / "on", histogram(1, 20_000))
    result = asked(capsys, back, single(tmp_path / "off", histogram(2, 20_000)))
    row = result["per_mode"]["write back"]
    assert [row[f"{name}_us"] for name in ("min", "max", "mean", "std")] == [
        0.007, 9000, 40, 0.0555
    ]


def test_of_a_sum_there_is_no_deviation_and_of_its_extremes_a_bound(tmp_path, capsys):
    result = asked(
        capsys, fio(tmp_path / "on", syncs=True), fio(tmp_path / "off", 2, syncs=True)
    )
    row = result["per_mode"]["write back"]
    assert "summed" in result["warnings"]
    assert (row["mean_us"], row["std_us"], row["max_us"], row["stalls"]) == (1040, None, None, None)
    assert (row["min_at_least_us"], row["max_at_least_us"]) == (0.014, 9000)


def test_percentiles_that_end_before_the_tail_give_none(tmp_path, capsys):
    low = {share: ns for share, ns in PERCENTILES.items() if float(share) < 80}
    files = []
    for name, percentile in (("on", low), ("off", PERCENTILES)):
        side = {"N": 2000, "min": 900, "max": 105_000, "percentile": percentile}
        files.append(single(tmp_path / name, side))
    result = asked(capsys, *files)
    assert result["tail_ratio"] is None
    assert "untold" in result["warnings"]
    rows = result["per_mode"]
    row = rows["write back"]
    assert [row["p25_us"], row["p50_us"]] == pytest.approx([25, 50], rel=1e-3)
    assert [row[f"p{share}_us"] for share in (75, 90, 99)] == [None] * 3
    assert rows["write through"]["p90_us"] == pytest.approx(90, rel=1e-3)
    assert rows["write back"]["stall_rate_below"] is None


def test_files_of_one_mode_weigh_as_many_writes_as_they_tell_of(tmp_path, capsys):
    fast = {"N": 9 * 10**6, "bins": {"100000": 9 * 10**6}}
    slow = {"N": 10**6, "bins": {"900000": 10**6}}
    words = [single(tmp_path / "fast", fast), single(tmp_path / "slow", slow)]
    assert main(["compare", "--write-back", *words, "--write-through", log(tmp_path / "log"),
                 "--format", "json"]) == 0
    row = json.loads(capsys.readouterr().out)["per_mode"]["write back"]
    assert row["p75_us"] == pytest.approx(100, rel=0.01)
    assert row["n"] == 10**7


def test_a_histogram_with_a_gap_keeps_the_median_on_its_side(tmp_path, capsys):
    # three in ten hit a cache at 60 us, all others take 6.0 ms, which is one bucket of fio's
    hits = single(tmp_path / "on", {"N": 20_000, "bins": {"60160": 6000, "5996544": 14_000}})
    turns = single(tmp_path / "off", {"N": 20_000, "bins": {"5996544": 20_000}})
    result = asked(capsys, hits, turns)
    assert result["verdict"] == "no material difference"
    assert result["ratio_low"] < 1 < result["ratio_high"]
    row = result["per_mode"]["write back"]
    figures = [row[f"{name}_us"] for name in ("p25", "p50", "p90", "p99")]
    assert figures == pytest.approx([60.16, 5996.5, 5996.5, 5996.5], rel=1 / 64)


def test_what_lies_within_a_bucket_is_open_by_half_of_it_in_each_mode(tmp_path, capsys):
    back = single(tmp_path / "on", {"N": 10**9, "bins": {"5996544": 10**9}})
    through = single(tmp_path / "off", {"N": 10**9, "bins": {"5898240": 1, "5996544": 10**9 - 1}})
    result = asked(capsys, back, through)
    assert result["ratio_low"] < 1 - 1 / 70
    assert result["ratio_high"] > 1 + 1 / 70
    assert "coarse" not in result["warnings"]
