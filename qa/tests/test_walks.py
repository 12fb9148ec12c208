"""The walks that doc/architecture.md tells: each stop is there, and there are few of them."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "doc" / "architecture.md").read_text()
WALK = re.compile(r"^### (.+): (\d+) files, (\d+) stops$", re.MULTILINE)
STOP = re.compile(r"^1\. `([^`]+\.py)` ((?:`\w+`(?:, )?)+):", re.MULTILINE)
FILES_MAX, STOPS_MAX = 45, 80
# Stops that no file of the walk calls before, and the file that does; "" for the mgr.
ENTRIES = {
    ("engine/engine.py", "tick"): "module.py",
    ("analysis/__main__.py", "serve"): "analysis/__main__.py",
    ("module.py", "handle_command"): "",
    ("ceph/compat.py", "load_counters"): "module.py",
    ("services/plans/plans.py", "apply"): "commands/rows.py",
    ("wcache_probe/agent.py", "run_turn"): "wcache_probe/agent.py",
}


class Stop(NamedTuple):
    path: str
    function: str


def walks():
    """By title: the figures that the text gives, and the stops, told in order."""
    parts = WALK.split(TEXT)
    return {
        title: (int(files), int(stops), stops_of(body.partition("\n## ")[0]))
        for title, files, stops, body in zip(parts[1::4], parts[2::4], parts[3::4], parts[4::4])
    }


def stops_of(body):
    return [
        Stop(path, name) for path, names in STOP.findall(body)
        for name in re.findall(r"\w+", names)
    ]


def file_of(path):
    if path.startswith("wcache_probe/"):
        return ROOT / "osd_probe" / path
    return ROOT / "mgr_module" / "wcache" / path


@cache
def functions(path):
    """The names of all functions of a file, methods and inner ones included."""
    nodes = ast.walk(ast.parse(file_of(path).read_text()))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef)}


@cache
def named(path):
    """What a file calls or hands on, without leading underscores: a port may be kept as `_x`."""
    found = set()
    for node in ast.walk(ast.parse(file_of(path).read_text())):
        if isinstance(node, ast.Attribute):
            found.add(node.attr.lstrip("_"))
        elif isinstance(node, ast.Name):
            found.add(node.id.lstrip("_"))
    return found


def callers(stops, number):
    stop = stops[number]
    entry = ENTRIES.get(stop)
    if entry is not None:
        return [entry]
    return [before.path for before in stops[:number] if before.path != stop.path]


def strays(stops):
    """Stops that are not there, or that no file before them names."""
    gone = [stop for stop in stops if stop.function not in functions(stop.path)]
    return gone or [
        stop for number, stop in enumerate(stops)
        if number and not any(
            not path or stop.function.lstrip("_") in named(path) for path in callers(stops, number)
        )
    ]


def test_three_walks_are_told():
    assert len(walks()) == 3


@pytest.mark.slow
@pytest.mark.parametrize("title", walks())
def test_a_walk_is_as_told(title):
    files, stops, told = walks()[title]
    assert strays(told) == []
    assert len(told) == len(set(told)), "told twice"
    assert (files, stops) == (len({stop.path for stop in told}), len(told))


@pytest.mark.parametrize("title", walks())
def test_a_walk_is_short(title):
    files, stops, _ = walks()[title]
    assert files <= FILES_MAX
    assert stops <= STOPS_MAX


def test_a_stop_that_is_gone_and_one_that_nobody_calls_are_found():
    loads = Stop("ceph/loads.py", "start")
    assert strays([loads, Stop("ceph/command.py", "ask_osds")])
    assert strays([loads, Stop("ceph/store.py", "put_key")])
    assert not strays([loads, Stop("ceph/command.py", "ask_osd")])
