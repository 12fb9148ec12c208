"""`wcache analyze`: the same verdict offline, from the record alone."""

import json
import os
import random
import re
import subprocess
import sys
import zipapp
from dataclasses import replace
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest
import wcache
import wcache_cli
from bench_decision import synthetic
from matrices import a_matrix
from wcache.analysis.__main__ import answer
from wcache.analysis.decision import Materiality
from wcache.analysis.experiment import analyse, analysed
from wcache.core import codec
from wcache.core.options.entries import CACHE_MODES, OptionTrial
from wcache.core.record import RECORD_VERSION
from wcache.core.verdict.recommend import recommend
from wcache_cli.main import main


def made(drive="d0", ratio=4.0, seed=1, base_us=10_000.0, pairs=12, sd=0.02, **changes):
    draw = synthetic.lognormal(
        random.Random(seed), ratio=ratio, base_us=base_us, sample_sd=0.05, period_sd=sd
    )
    setup = replace(synthetic.SETUP, domain_id=drive, drive_id=drive, **changes)
    return synthetic.record(draw, pairs, setup=setup, record_id=f"r.{drive}")


def stored(path, *records):
    path.write_text("".join(codec.dumps(record) + "\n" for record in records))
    return str(path)


def test_the_result_is_bit_for_bit_that_of_the_analysis_child(tmp_path, capsys):
    record = made()
    assert main(["analyze", stored(tmp_path / "r", record), "--format", "json"]) == 0
    offline = json.loads(capsys.readouterr().out)["results"][0]
    online = json.loads(answer(codec.dumps(record).encode()))["found"]
    assert online == codec.to_plain(analysed(record, offline))


def test_too_few_pairs_foretell_nothing_of_more_pairs(tmp_path, capsys):
    whole = made()
    few = replace(whole, record_id="r.few", pairs=whole.pairs[:2])
    main(["analyze", stored(tmp_path / "r", few)])
    said = capsys.readouterr().out
    assert "2 usable pairs; nothing is decided on fewer than 4" in said
    assert "more:" not in said


def test_like_records_of_three_drives_are_pooled_and_unlike_ones_are_not(tmp_path, capsys):
    files = [stored(tmp_path / f"r{i}", made(f"d{i}", seed=i)) for i in range(3)]
    other = stored(tmp_path / "other", made("x", device_class="ssd"))
    main(["analyze", *files, other, "--format", "json"])
    found = json.loads(capsys.readouterr().out)
    assert len(found["results"]) == 4
    (pool,) = found["pools"]
    assert (pool["drives"], pool["verdict"]) == (3, "write through")


def test_a_drive_measured_twice_counts_as_on_the_cluster(tmp_path, capsys):
    records = [made(f"d{i}", 1.5, seed=i) for i in range(3)]
    # one that decided nothing, and one that contradicts what was decided
    for other in (made("d0", 1.42, seed=7, pairs=8, sd=0.08), made("d0", 1.0, seed=8)):
        again = replace(other, record_id="again", ended_at_s=9.0)
        found = [*records, *[made(f"d{i}", 1.5, seed=i) for i in (3, 4)], again]
        main(["analyze", stored(tmp_path / "r", *found), "--format", "json"])
        (pool,) = json.loads(capsys.readouterr().out)["pools"]
        (advice,) = recommend([
            analysed(record, analyse(record, Materiality())).result for record in found
        ])
        (load,) = advice.loads
        assert (pool["verdict"], pool["ratio_low"], pool["ratio_high"]) == (
            CACHE_MODES.said(load.verdict), load.ratio_low, load.ratio_high)


def test_experiments_of_one_drive_are_weighed_by_the_material_ratio_that_was_given(
    tmp_path, capsys
):
    """Those of d0 lie beyond a tenth and not beyond a half: by 1.5 nothing is proven of it."""
    records = [made(f"d{i}", 1.4, seed=i) for i in range(3)]
    records.append(replace(made("d0", 1.4, seed=7), record_id="again", ended_at_s=9.0))
    given = stored(tmp_path / "r", *records)
    for asked, verdict in (("1.1", "write through"), ("1.5", "no material difference")):
        main(["analyze", given, "--material-ratio", asked, "--format", "json"])
        found = json.loads(capsys.readouterr().out)
        assert {item["verdict"] for item in found["results"]} == {verdict}
        (pool,) = found["pools"]
        assert {item["verdict"] for item in pool["per_drive"].values()} == {verdict}


def test_a_pool_decides_nothing_while_one_of_its_drives_may_be_ignoring_flushes(tmp_path, capsys):
    bases_us = {"d0": 10_000.0, "d1": 10_000.0, "d2": 1_500.0}
    files = [
        stored(tmp_path / name, made(name, 0.5, seed=i, base_us=base_us))
        for i, (name, base_us) in enumerate(bases_us.items())
    ]
    main(["analyze", *files[:2], "--format", "json"])
    assert {r["verdict"] for r in json.loads(capsys.readouterr().out)["results"]} == {"write back"}
    main(["analyze", *files])
    *_, pooled = capsys.readouterr().out.split("3 drives of ")
    assert "verdict: insufficient data" in pooled
    assert "why: h1 d2 raised WCACHE_FLUSH_TOO_FAST, so there is no verdict" in pooled


def test_a_matrix_beside_a_record_is_decided_cell_by_cell(tmp_path, capsys):
    files = [stored(tmp_path / "m", a_matrix()), stored(tmp_path / "r", made())]
    assert main(["analyze", *files, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["results"]) == 1
    (matrix,) = found["matrices"]
    assert {(c["sync"], c["better"]) for c in matrix["cells"] if c["sync"] != "O_DSYNC"} == {
        ("none", "write back"), ("fdatasync", "write through"),
    }
    main(["analyze", files[0]])
    shown = capsys.readouterr().out
    assert "sdz1 on h1, V M 1, scsi: 8 pairs, latency with the cache on -> off" in shown
    assert "none decides for one" in shown
    assert len(shown.splitlines()) == 16


def test_a_matrix_that_is_none_is_refused_in_one_line(tmp_path, capsys):
    path = tmp_path / "m"
    path.write_text('{"format": "wcache.matrix", "version": 1}')
    assert main(["analyze", str(path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert str(path) in line


def test_plain_output_names_the_drive_the_reason_and_the_cost(tmp_path, capsys):
    main(["analyze", stored(tmp_path / "r", made(), made("d1", ratio=1.3, seed=2))])
    shown = capsys.readouterr().out
    assert "r.d0: ACME HD1 1 d0 (osd.0 block), depth1 [simulated]" in shown
    assert "verdict: write through" in shown
    assert re.search(r"\d [KM]?i?B written", shown)


def test_the_percentage_follows_from_the_latencies_beside_it(tmp_path, capsys):
    main(["analyze", stored(tmp_path / "r", made(ratio=4.0)), stored(tmp_path / "m", a_matrix())])
    shown = capsys.readouterr().out
    found = re.findall(r"([\d.]+) (ms|us) -> ([\d.]+) (ms|us) \(([+-]\d+)%, 99%: ", shown)
    assert len(found) > 5
    us = {"ms": 1000.0, "us": 1.0}
    for on, on_unit, off, off_unit, percent in found:
        change = 100 * (float(off) * us[off_unit] / (float(on) * us[on_unit]) - 1)
        assert abs(change - float(percent)) <= 1.5  # all three are rounded
    assert "ratio" not in shown.partition("why:")[0]


def test_values_of_an_option_are_called_by_their_names_also_where_drives_are_pooled(
    tmp_path, capsys
):
    trial = OptionTrial("nr_requests", "64", "256")
    records = [made(f"d{i}", seed=i, option=trial) for i in range(3)]
    main(["analyze", stored(tmp_path / "r", *records)])
    shown = capsys.readouterr().out
    assert shown.count("nr_requests 64 -> nr_requests 256: ") == 4  # three and their pool
    assert shown.count("verdict: nr_requests 256") == 4
    assert "\nnr_requests 64  " in shown
    assert not re.search("write (back|through)", shown)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("{}", "has no version"),
        ("hello", "is not JSON"),
        ('{"format": "wcache.record", "version": 1}', "version 1"),
        (f'{{"format": "wcache.record", "version": {RECORD_VERSION}, "oops": 1}}',
         "unknown field 'oops'"),
    ],
)
def test_what_is_no_record_is_one_clear_line_and_code_2(tmp_path, capsys, text, said):
    path = tmp_path / "bad"
    path.write_text(text)
    assert main(["analyze", str(path)]) == 2
    shown = capsys.readouterr()
    assert said in shown.err
    assert len(shown.err.splitlines()) == 1


@pytest.mark.slow
def test_it_runs_as_a_module_and_from_a_zipapp(tmp_path):
    record = stored(tmp_path / "r", made())
    places = [Path(wcache.__file__).parents[1], Path(wcache_cli.__file__).parents[1]]
    tree = tmp_path / "tree"
    for place, name in zip(places, ("wcache", "wcache_cli")):
        copytree(place / name, tree / name, ignore=ignore_patterns("__pycache__"))
    zipapp.create_archive(tree, tmp_path / "wcache.pyz", main="wcache_cli.main:main")
    outputs = []
    for start in (["-m", "wcache_cli"], [str(tmp_path / "wcache.pyz")]):
        run = subprocess.run(
            [sys.executable, *start, "analyze", record],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places))},
            capture_output=True, text=True, timeout=60, check=True,
        )
        outputs.append(run.stdout)
    assert outputs[0] == outputs[1]
    assert "verdict: write through" in outputs[0]
