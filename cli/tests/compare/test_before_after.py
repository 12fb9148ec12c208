"""`wcache compare --before --after`: two records, or two saved answers of observed campaigns."""

import json
import random
from dataclasses import replace

import pytest
from bench_decision import synthetic
from wcache.core import codec
from wcache.core.experiment.two_campaigns import ObservedLoad
from wcache.core.figures.latency_table import of_samples
from wcache.core.model import CacheMode, LoadPoint, Role
from wcache.core.options.entries import OptionTrial
from wcache_cli.main import main


def a_record(seed, ratio, base_us, at_s, **setup):
    draw = synthetic.lognormal(random.Random(seed), ratio=ratio, base_us=base_us)
    record = synthetic.record(draw, 12)
    return codec.to_plain(replace(
        record, started_at_s=at_s, setup=replace(record.setup, **setup)
    ))


def observed(middle_ns, at_s):
    rng = random.Random(7)
    table = of_samples([int(middle_ns * rng.uniform(0.9, 1.1)) for _ in range(320)])
    row = codec.to_plain(ObservedLoad(
        "h1", 0, "d0", "sda", Role.BLOCK, LoadPoint.FDATASYNC_TIMER, table,
        mode=CacheMode.WRITE_BACK,
    ))
    return {"created_at_s": at_s, "observed": [{**row, "dev_names": ["sda"], "seconds": 3.0}]}


@pytest.fixture
def compare(tmp_path, capsys):
    def run(before, after, *words):
        for name, plain in (("before", before), ("after", after)):
            (tmp_path / name).write_text(plain if isinstance(plain, str) else json.dumps(plain))
        code = main([
            "compare", "--before", str(tmp_path / "before"), "--after", str(tmp_path / "after"),
            *words,
        ])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_each_mode_of_two_records_is_compared(compare):
    before = a_record(1, 2.0, 10_000.0, 1000.0)
    after = a_record(2, 4.0, 5000.0, 90_000.0, ceph_version="20.2.5")
    code, out, _ = compare(before, after, "--format", "json")
    modes = json.loads(out)["modes"]
    assert code == 0
    assert modes["write through"]["ratio"]["low"] > 1.6
    assert modes["write through"]["ratio"]["high"] < 2.5
    assert modes["write back"]["ratio"]["low"] < 1.0 < modes["write back"]["ratio"]["high"]
    code, out, _ = compare(before, after)
    assert "24.7 h passed between the two" in out
    assert "Ceph differs: 20.2.4, then 20.2.5" in out


def test_values_of_an_option_are_compared_by_their_own_names(compare):
    trial = OptionTrial("nr_requests", "64", "256")
    code, out, _ = compare(*(
        a_record(seed, 2.0, 1e4, 1.0 + seed, option=trial)
        for seed in (1, 2)
    ))
    assert code == 0
    assert out.startswith("OPTION ")
    assert "nr_requests 64 " in out
    assert "nr_requests 256 " in out


def test_observed_campaigns_are_compared_as_the_module_does(compare):
    code, out, _ = compare(observed(2e6, 10.0), observed(1e6, 70.0))
    assert code == 0
    assert "P50 BEFORE" in out
    assert "60 s passed between the two" in out


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        (observed(1e6, 9.0), observed(1e6, 1.0), "earlier"),
        (observed(1e6, 9.0), a_record(1, 2.0, 1e4, 1.0), "not two files of one kind"),
        ({}, {}, "not two files of one kind"),
        ("[1]", "[1]", "not a JSON object"),
        ("{", "{}", "not"),
        ({"observed": [], "created_at_s": "x"}, observed(1e6, 1.0), "when it was measured"),
        (a_record(1, 2, 1e4, 1.0), a_record(1, 2, 1e4, 2.0, load_point=LoadPoint.OSD_BENCH_4M),
         "different loads"),
        (a_record(1, 2, 1e4, 1.0),
         a_record(1, 2, 1e4, 2.0, option=OptionTrial("nr_requests", "64", "256")),
         "do not compare the same two things"),
    ],
)
def test_files_that_cannot_be_compared_are_refused_in_one_line(compare, before, after, wanted):
    code, _, error = compare(before, after)
    assert code == 2
    assert wanted in error
    assert error.count("\n") == 1


def test_two_modes_or_two_times_are_needed(tmp_path, capsys):
    assert main(["compare", "--before", "a"]) == 2
    assert main(["compare", "--before", "a", "--after", "b", "--write-back", "c"]) == 2
    assert "--before and --after" in capsys.readouterr().err
