"""doc/add-a-knob.md does what it says: a folder and its lines make the toy a knob."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[3]
PAGE = PROJECT / "doc" / "add-a-knob.md"
HERE = Path("mgr_module/tests/knobs")
ROOM = Path("mgr_module/wcache/knobs/toy")
SHARED_FILES_MAX = 2
KNOWN_TO_COMMANDS = """
from wcache.commands.rows import OF_PLANS
from wcache.knobs.registry import ADVICE
from wcache.knobs.registry import KNOBS
from wcache.core.model import FindingCode
from wcache.options import read_options
assert "toy" in [knob.name for knob in KNOBS]
assert any("|toy|" in argument for argument in OF_PLANS[0].arguments)
assert read_options({"toy_depth": 9}).toy_depth == 9
assert set(ADVICE) == set(FindingCode)
"""


def changes(page):
    """(file, what stands there, what stands there then) for each hunk of the page's diffs."""
    found = []
    for block in page.split("```diff\n")[1:]:
        first, *lines = block.split("```")[0].splitlines()
        name = first.partition("+++ ")[2]
        for hunk in "\n".join(lines).split("\n@@\n"):
            kept = [line for line in hunk.splitlines() if line != "@@"]
            before = "".join(line[1:] + "\n" for line in kept if line[:1] != "+")
            after = "".join(line[1:] + "\n" for line in kept if line[:1] != "-")
            found.append((name, before, after))
    return found


def copied(folder):
    """The module with its tests in another folder; all else is linked."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PROJECT / "mgr_module", folder / "mgr_module", ignore=ignored)
    for name in ("pyproject.toml", "conftest.py"):
        shutil.copy(PROJECT / name, folder / name)
    for name in ("cli", "osd_probe", "qa", "vstart-tests", "packaging"):
        (folder / name).symlink_to(PROJECT / name)
    return folder


def run(folder, *arguments):
    env = {name: value for name, value in os.environ.items()
           if name != "PYTHONPATH" and not name.startswith("PYTEST_")}
    found = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=env, text=True, timeout=300, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )
    assert found.returncode == 0, found.stdout[-4000:]


def test_the_page_touches_two_shared_files_at_most():
    names = {name for name, _, _ in changes(PAGE.read_text()) if not name.startswith(f"{ROOM}/")}
    assert "mgr_module/wcache/knobs/registry.py" in names
    assert 0 < len(names) <= SHARED_FILES_MAX


@pytest.mark.slow
def test_the_toy_added_as_the_page_says_goes_through_the_registry(tmp_path):
    folder = copied(tmp_path)
    shutil.move(str(folder / HERE / "toy_knob"), str(folder / ROOM))
    for name, before, after in changes(PAGE.read_text()):
        path = folder / name
        text = path.read_text()
        assert text.count(before) == 1, f"{name} does not hold once:\n{before}"
        path.write_text(text.replace(before, after))
    tests = folder / HERE / "test_toy_knob.py"
    tests.write_text(tests.read_text().replace("toy_knob.", "wcache.knobs.toy."))
    run(folder / "mgr_module", "-c", KNOWN_TO_COMMANDS)
    run(folder, "-m", "pytest", "-p", "no:cacheprovider", "-m", "not slow",
        str(HERE / "test_toy_knob.py"))
