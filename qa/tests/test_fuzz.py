"""Fuzzing: no parser of outside input is forgotten, each target works, and a fault is found."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest
from fuzz import __main__ as runner
from fuzz import readers
from fuzz.target import SEEDS
from wcache.core import versions
from wcache.core.protocol import Post
from wcache_probe import safe_files

ROOT = Path(__file__).resolve().parents[2]
INPUTS_MAX = 20
# a parser as ours are, with a fault that no input it begins with shows
PLANTED = """
    import json

    def take(data):
        plain = json.loads(data.decode("utf-8", "replace"))
        if isinstance(plain, dict) and plain.get("kind") == "lease":
            return len(plain["drives"])
        return None
"""
FUZZED = """
    import sys
    from pathlib import Path
    sys.path[:0] = [{qa!r}, {here!r}]
    from fuzz.__main__ import installed, paths
    sys.path[:0] = paths()
    atheris, why = installed()
    if atheris is None:
        sys.exit(why)
    with atheris.instrument_imports(include=["planted"]):
        import planted
    from fuzz.engine import fuzz
    from fuzz.target import Target
    seed = b'{{"kind": "lease", "drives": ["sda"], "owner": "a"}}'
    target = Target("planted", planted.take, (ValueError,), lambda: [seed])
    fuzz(target, 60.0, Path({here!r}, "corpus"), Path({here!r}), 1)
"""


def test_the_kept_posts_of_probes_are_of_our_version():
    """Seeds of another number end at the number, and none of their fields is read."""
    kept = json.loads((SEEDS / "probes.json").read_text(encoding="utf-8"))
    posts = [post for post in map(json.loads, kept) if "outcome" in post]
    assert {post["outcome"]["kind"] for post in posts} == {"report", "drives", "state"}
    for post in posts:
        versions.take(Post, post, "it")


@pytest.mark.slow
def test_each_target_takes_its_inputs_and_each_reader_of_outside_input_is_entered(
    tmp_path, monkeypatch
):
    """A new parser needs a target, or a line in `readers.WITHOUT` that says why not."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    # `host_world` stands before it
    monkeypatch.setattr(safe_files, "read_handle", safe_files.read_handle)
    from fuzz.targets import TARGETS

    assert len({target.name for target in TARGETS}) == len(TARGETS)
    entered = readers.Entered()
    for target in TARGETS:
        inputs = target.inputs()[:INPUTS_MAX]  # the kept ones first, then the largest
        sys.settrace(entered)
        try:
            taken = [target.run(data) for data in inputs]
        finally:
            sys.settrace(None)
        assert any(taken), target.name
    seen = entered.of_project()
    missed = {
        f"{file} {name}" for (file, line), name in readers.reading().items()
        if (file, line) not in seen
    }
    assert missed == {*readers.WITHOUT}


@pytest.mark.slow
def test_what_reads_is_seen_in_the_code():
    names = {f"{file} {name}" for (file, _), name in readers.reading().items()}
    for known in (
        "osd_probe/wcache_probe/linux/vendor/tool.py wear_in",
        "qa/wcache_sim/toml_table.py parse_toml",
        "mgr_module/wcache/services/probes.py ProbeService._take",
        "mgr_module/wcache/ceph/command.py parse",
        "mgr_module/wcache/web/app.py _fields",
        "cli/wcache_cli/compare/fio_json.py fio_json",
        "osd_probe/wcache_probe/linux/block/options.py _state.said",
    ):
        assert known in names


@pytest.mark.slow
def test_a_fault_is_found_within_seconds(tmp_path):
    (tmp_path / "planted.py").write_text(textwrap.dedent(PLANTED))
    (tmp_path / "corpus").mkdir()
    script = textwrap.dedent(FUZZED).format(qa=str(ROOT / "qa"), here=str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=300
    )
    if done.returncode == 1:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert "Uncaught Python exception" in done.stdout + done.stderr
    (found,) = tmp_path.glob("planted.crash-*")
    assert b'"lease"' in found.read_bytes()


def test_an_input_is_one_word_that_gives_it_back(monkeypatch, capsys):
    from fuzz import targets
    from fuzz.target import Broken, Target

    seen = []

    def take(data):
        seen.append(data)
        raise Broken("this is what it finds")

    monkeypatch.setattr(targets, "TARGETS", (Target("planted", take),))
    data = bytes(range(256)) * 9
    word = runner.packed(data)
    assert word.isascii()
    assert not {*word} & {*" \n'\"$\\&|;"}
    with pytest.raises(Broken):
        runner.once("planted", word)
    assert seen == [data]
