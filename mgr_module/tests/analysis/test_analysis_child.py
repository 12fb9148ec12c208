"""The analysis child answers every line with one line, and ends only with its input."""

import io
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import wcache
from bench_decision import synthetic
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from wcache.analysis.__main__ import answer, serve
from wcache.core import codec
from wcache.core.record import RECORD_BYTES_MAX
from wcache.core.verdict.result import Analysed


def asked(record):
    return json.loads(answer(json.dumps(record).encode()))


def experiment(ratio=5.0, pairs=10):
    draw = synthetic.lognormal(random.Random(1), ratio=ratio, sample_sd=0.05)
    return codec.to_plain(synthetic.record(draw, pairs))


@pytest.mark.slow
def test_the_process_decides_over_its_pipes_and_exits_when_they_close():
    lines = [experiment(), experiment(ratio=0.2)]
    # in Ceph's tree core is elsewhere than the module
    folders = (Path(wcache.__file__).parents[1], Path(codec.__file__).parents[2])
    run = subprocess.run(
        [sys.executable, "-m", "wcache.analysis"],
        input="".join(json.dumps(line) + "\n" for line in lines) + "not json\n",
        env={"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(map(str, folders))},
        capture_output=True, text=True, timeout=60, check=True,
    )
    replies = [json.loads(line) for line in run.stdout.splitlines()]
    assert [reply["found"]["result"]["verdict"] for reply in replies[:2]] == ["b", "a"]
    assert set(replies[2]) == {"error"}
    assert run.stderr == ""


def test_a_record_that_breaks_the_schema_is_answered_with_its_path():
    record = experiment()
    record["pairs"][3]["a"]["seconds"] = "long"
    assert asked(record) == {"error": "record.pairs[3].a.seconds must be a number"}


def test_a_record_that_cannot_be_analysed_is_answered_once_for_all():
    record = experiment()
    record["pairs"][3]["a"]["seconds"] = -1.0
    found = codec.decode(Analysed, asked(record)["found"], "it")
    assert found.result.why == (
        "its record cannot be analysed: a period of the record has an impossible duration"
    )
    assert (found.stop, found.result.analysed) == (True, True)


@pytest.mark.parametrize("broken", [ImportError("no scipy"), MemoryError()])
def test_what_the_machine_lacks_is_not_said_of_the_record(monkeypatch, broken):
    def analyse(record, options):
        raise broken

    monkeypatch.setattr("wcache.analysis.experiment.analyse", analyse)
    assert "error" in asked(experiment())


def test_a_line_too_long_is_refused_and_the_next_one_answered():
    long = b'{"pad": "' + b"x" * RECORD_BYTES_MAX + b'"}\n'
    sink = io.StringIO()
    serve(io.BytesIO(long + json.dumps(experiment()).encode() + b"\n"), sink)
    first, second = (json.loads(line) for line in sink.getvalue().splitlines())
    assert (set(first), set(second)) == ({"error"}, {"found"})


def test_figures_out_of_range_are_an_error_reply_too():
    record = experiment()
    for pair in record["pairs"]:
        pair["a"]["seconds"] = 1e308
    assert set(asked(record)) == {"error"}


@pytest.mark.slow
@examples(60)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["version", "pairs", "x"]),
                          inner, max_size=5),
        max_leaves=12,
    ),
)
def test_whatever_is_asked_gets_one_line_of_json(body):
    sink = io.StringIO()
    serve(io.BytesIO(json.dumps(body).encode() + b"\n"), sink)
    (line,) = sink.getvalue().splitlines()
    assert "\n" not in json.loads(line)["error"]
