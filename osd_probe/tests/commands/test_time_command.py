"""`wcache-probe time`: the full table of flushes, of any device, with nothing changed."""

import json
import random
import statistics

import pytest
from wcache.core.figures.latency_table import HEADINGS, of_samples, row
from wcache_probe.main import main


def test_the_table_has_what_numpy_would_say():
    draw = random.Random(3)
    samples = [round(1e6 * draw.lognormvariate(0, 0.5)) for _ in range(400)]
    found = of_samples(samples)
    us = [ns / 1e3 for ns in samples]
    quarters = statistics.quantiles(us, n=4, method="inclusive")
    assert (found.n, found.min, found.max) == (400, min(us), max(us))
    assert [found.p25, found.p50, found.p75] == pytest.approx(quarters)
    assert found.mean == pytest.approx(statistics.fmean(us))
    assert found.std == pytest.approx(statistics.stdev(us))
    assert found.p99 == pytest.approx(statistics.quantiles(us, n=100, method="inclusive")[98])


def test_what_n_does_not_allow_is_not_told():
    assert of_samples([]).mean is None
    assert of_samples([5]).std is None
    assert of_samples([5] * 298).p99 is None
    assert len(row(of_samples([5]))) == len(HEADINGS)


def test_flushes_of_a_device_are_timed_and_nothing_is_written(loop_device, capsys):
    name, backing = loop_device
    before = backing.read_bytes()
    assert main(["time", f"/dev/{name}", "--count", "20", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["us"]["n"] == 20
    assert found["us"]["p50"] > 0
    assert main(["time", f"/dev/{name}", "--count", "20"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0].split() == list(HEADINGS)
    assert f"{name} was " in out
    assert backing.read_bytes() == before


def test_what_is_no_block_device_is_refused(tmp_path, capsys):
    assert main(["time", str(tmp_path)]) == 2
    assert "is no block device" in capsys.readouterr().err


@pytest.mark.parametrize("words", [
    ("time", "/dev/x", "--count", "0"), ("time", "/dev/x", "--count", "many"),
    ("time", "/dev/x", "--count", "9" * 5000), ("time", "/dev/x", "--seconds", "nan"),
    ("matrix", "--scratch", "/dev/x", "--pairs", "3"),
    ("matrix", "--scratch", "/dev/x", "--long", "1e9"),
])
def test_a_number_out_of_bounds_is_refused_in_one_line_with_the_bounds(words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    assert ended.value.code == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert "give a number from" in said
    assert len(said) < 160
