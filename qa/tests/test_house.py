"""`make house` and `make bench-walks` count what they say."""

import re
import subprocess
import sys
import threading

import house
from bench.walks import Trace
from wcache.core import text

SAMPLE = '''"""A subject,
told in two lines."""

from typing import (
    Any,
)

# a comment


class One:
    """Words."""

    def two(self) -> Any:
        import json  # late
        return """of
two lines"""
'''
CALLED_TWICE = """
from bench.walks import Trace, keep_nothing
keep_nothing()
from wcache.core import codec
from wcache.core.protocol import Hello
hello = Hello(1, "p", "i", "", False)
kept = []
for _ in range(2):
    with Trace() as trace:
        codec.dumps(hello)
    kept.append(trace.figures)
assert kept[0] == kept[1], kept
"""


def test_code_is_what_is_no_blank_line_comment_docstring_or_import(tmp_path):
    path = tmp_path / "sample.py"
    path.write_text(SAMPLE)
    assert [line.split()[0] for line in house.code_lines(path)] == ["class", "def", "return", "two"]


def test_a_circle_of_files_is_found_whoever_is_asked_first(monkeypatch):
    edges = {"wcache.a": ["wcache.b"], "wcache.b": ["wcache.c"], "wcache.c": ["wcache.b"]}
    monkeypatch.setattr(house, "modules", lambda: [(name, house.ROOT) for name in edges])
    monkeypatch.setattr(house, "imported", lambda name, path: edges[name])
    assert house.circles() == [{"wcache.b", "wcache.c"}]


def test_what_is_entered_is_counted_also_in_threads():
    with Trace() as trace:
        thread = threading.Thread(target=text.amount, args=(5,))
        thread.start()
        thread.join()
        house.lines(())
    assert trace.figures["files"] == 1
    assert "amount" in {code.co_name for code in trace.code}


def test_nothing_that_an_earlier_call_has_kept_is_missing():
    path = ":".join(str(house.ROOT / part) for part in ("qa", "mgr_module"))
    subprocess.run(
        [sys.executable, "-c", CALLED_TWICE], check=True, env={"PYTHONPATH": path}
    )


def test_a_figure_beyond_what_it_is_held_to_is_marked():
    rows = [house.Row("commands", 50), house.Row("commands", 51), house.Row("another", 52)]
    assert [line.endswith(" over") for line in house.plain(rows).splitlines()] == [0, 1, 0]


def test_figures_are_held_to_what_the_decision_calls_honest():
    text = (house.ROOT / "doc/decisions/0018-the-size-of-the-module.md").read_text()
    honest = text.partition("**Honest figures**")[2].partition("\n\n")[0]
    said = set(re.findall(r"\d+(?:,\d+)*", honest))
    assert {f"{held:,}" for _, held in house.LIMITS.values() if held} <= said


def test_a_type_that_knows_of_simulation_is_found_by_each_of_its_names():
    for name in ("MayBeSimulated", "OfDrives", "OfDriveKind"):
        assert house.SIMULATED.search(f"class Change({name}):")
