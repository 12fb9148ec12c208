"""What an admin calls by hand on a host never refuses without a next step."""

import ast
from pathlib import Path

import pytest
from house import tree
from wcache.core import errors

PROBE = Path(__file__).resolve().parents[2] / "osd_probe" / "wcache_probe"
FILES = [
    PROBE / "commands" / "bench.py",
    *(PROBE / "matrix" / f"{name}.py" for name in ("command", "measurement", "scratch")),
    PROBE / "prove.py",
    *sorted((PROBE / "witness").glob("*.py")),
]
# a stop that was asked for needs no advice
ASKED_FOR = ("'stopped'",)


def without_advice(path):
    """The refusals of a file that say what is wrong and not what to do."""
    for node in ast.walk(tree(path)):
        if not isinstance(node, ast.Raise) or not isinstance(node.exc, ast.Call):
            continue
        call = node.exc
        kind = getattr(errors, getattr(call.func, "id", ""), None)
        if not isinstance(kind, type) or not issubclass(kind, errors.WcacheError):
            continue
        said = ast.unparse(call.args[0]) if call.args else ""
        if len(call.args) < 2 and not kind.advice and said not in ASKED_FOR:
            yield f"{path.name}:{node.lineno}: {said}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_refusal_says_what_to_do_next(path):
    assert list(without_advice(path)) == []


def pages_named(program):
    """The pages of the project's tree that a program names to who reads its answers."""
    told = {id(node.value) for node in ast.walk(program) if isinstance(node, ast.Expr)}
    return [
        node.value for node in ast.walk(program) if isinstance(node, ast.Constant)
        and isinstance(node.value, str) and "doc/" in node.value and id(node) not in told
    ]


def test_no_page_is_named_on_a_host_that_has_none():
    assert [found for path in PROBE.rglob("*.py") for found in pages_named(tree(path))] == []
    found = pages_named(ast.parse('"""See doc/a.md."""\nsay(f"{x}: see doc/b.md")'))
    assert found == [": see doc/b.md"]


def test_a_refusal_without_a_next_step_is_found(tmp_path):
    path = tmp_path / "x.py"
    path.write_text("raise RefusedError('no')\nraise RefusedError('no', 'do this')\n")
    assert list(without_advice(path)) == ["x.py:1: 'no'"]
