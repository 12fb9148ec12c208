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
from wcache.analysis.__main__ import LINE_BYTES_MAX, answer, serve
from wcache.core import codec
from wcache.core.verdict.result import Analysed


def asked(request):
    return answer(json.dumps(request).encode())


def experiment(ratio=5.0, pairs=10):
    draw = synthetic.lognormal(random.Random(1), ratio=ratio, sample_sd=0.05)
    record = codec.to_plain(synthetic.record(draw, pairs))
    return {"id": 7, "record": record}


@pytest.mark.slow
def test_the_process_decides_over_its_pipes_and_exits_when_they_close():
    lines = [experiment(), {**experiment(), "id": 3}]
    # in Ceph's tree core is elsewhere than the module
    folders = (Path(wcache.__file__).parents[1], Path(codec.__file__).parents[2])
    run = subprocess.run(
        [sys.executable, "-m", "wcache.analysis"],
        input="".join(json.dumps(line) + "\n" for line in lines) + "not json\n",
        env={"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(map(str, folders))},
        capture_output=True, text=True, timeout=60, check=True,
    )
    replies = [json.loads(line) for line in run.stdout.splitlines()]
    assert [(reply["id"], reply["ok"]) for reply in replies] == [
        (7, True), (3, True), (None, False),
    ]
    assert replies[0]["result"]["result"]["verdict"] == "write through"
    assert run.stderr == ""


def test_a_record_that_breaks_the_schema_is_answered_with_its_path():
    request = experiment()
    request["record"]["pairs"][3]["write_back"]["seconds"] = "long"
    assert asked(request) == {
        "id": 7, "ok": False, "error": "record.pairs[3].write_back.seconds must be a number",
    }


def test_a_record_that_cannot_be_analysed_is_answered_once_for_all():
    request = experiment()
    request["record"]["pairs"][3]["write_back"]["seconds"] = -1.0
    reply = asked(request)
    found = codec.decode(Analysed, reply["result"], "it")
    assert found.result.why == (
        "its record cannot be analysed: a period of the record has an impossible duration"
    )
    assert (reply["ok"], found.stop, found.result.analysed) == (True, True, True)


@pytest.mark.parametrize("broken", [ImportError("no scipy"), MemoryError()])
def test_what_the_machine_lacks_is_not_said_of_the_record(monkeypatch, broken):
    def analyse(record, options):
        raise broken

    monkeypatch.setattr("wcache.analysis.experiment.analyse", analyse)
    assert not asked(experiment())["ok"]


def test_a_line_too_long_is_refused_and_the_next_one_answered():
    long = b'{"id": 1, "pad": "' + b"x" * LINE_BYTES_MAX + b'"}\n'
    sink = io.StringIO()
    serve(io.BytesIO(long + json.dumps(experiment()).encode() + b"\n"), sink)
    first, second = (json.loads(line) for line in sink.getvalue().splitlines())
    assert (first["id"], first["ok"]) == (None, False)
    assert (second["id"], second["ok"]) == (7, True)


def test_figures_out_of_range_are_an_error_reply_too():
    request = experiment()
    for pair in request["record"]["pairs"]:
        pair["write_back"]["seconds"] = 1e308
    sink = io.StringIO()
    serve(io.BytesIO(json.dumps(request).encode() + b"\n"), sink)
    assert json.loads(sink.getvalue())["id"] == 7


@pytest.mark.slow
@examples(60)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["id", "record", "x"]),
                          inner, max_size=5),
        max_leaves=12,
    ),
)
def test_whatever_is_asked_gets_one_line_of_json(body):
    request = {**body, "id": 1} if isinstance(body, dict) else body
    sink = io.StringIO()
    serve(io.BytesIO(json.dumps(request).encode() + b"\n"), sink)
    (line,) = sink.getvalue().splitlines()
    reply = json.loads(line)
    assert isinstance(reply["ok"], bool)
    assert reply["ok"] or "\n" not in reply["error"]
