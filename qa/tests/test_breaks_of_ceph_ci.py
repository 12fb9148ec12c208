"""What tests of Ceph's CI take out of the module by hand is there to be taken out."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "qa/ceph_ci/tests/test_suite.py"


def breaks():
    """The text that each break looks for."""
    calls = (node for node in ast.walk(ast.parse(TESTS.read_text())) if isinstance(node, ast.Call))
    return [
        ast.literal_eval(call.args[0]) for call in calls
        if isinstance(call.func, ast.Name) and call.func.id == "Break"
    ]


@pytest.mark.parametrize("found", breaks())
def test_what_is_broken_by_hand_stands_in_one_file(found):
    files = [
        path for path in (ROOT / "mgr_module/wcache").rglob("*.py") if found in path.read_text()
    ]
    assert len(files) == 1, files


def test_there_are_breaks():
    assert len(breaks()) > 3
