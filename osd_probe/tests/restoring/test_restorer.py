"""Children that restore: who hangs is left behind, who is done is told, slots are never held."""

import os
import subprocess
import sys
import time

import pytest
from wcache.core.errors import NotReadyError, StorageError
from wcache_probe.restoring.restorer import (
    RestoreApart,
    answer,
    start_again,
    start_command,
    verdict,
)


class Children:
    """Starts a shell for each key: one that hangs on the key's pipe, or one that is done."""

    def __init__(self, tmp_path):
        self.folder = tmp_path
        self.hang = set()
        self.started = []

    def __call__(self, words):
        key = words[-1]
        self.started.append(key)
        pipe = self.folder / key
        if key not in self.hang:
            return start_command(["true"])
        if not pipe.exists():
            os.mkfifo(pipe)
        # until somebody opens the other end
        return start_command(["sh", "-c", f"exec 3< '{pipe}'"])

    def let_go(self, key):
        self.hang.discard(key)
        with open(self.folder / key, "w"):
            pass


@pytest.fixture
def children(tmp_path):
    made = Children(tmp_path)
    yield made
    for key in sorted(made.hang):
        made.let_go(key)


@pytest.mark.slow
def test_many_that_hang_hold_nobody_and_are_not_waited_for_twice(children):
    keys = [f"k{number}" for number in range(24)]
    children.hang = set(keys[:-1])
    apart = RestoreApart(children, lambda: ["one"], patience_s=4.0, hangs_s=1000.0)
    results = apart.restore(keys)
    assert results["k23"] is None
    assert all(isinstance(results[key], NotReadyError) for key in keys[:-1])
    began_s = time.monotonic()
    again = apart.restore([*keys[:-1], "k24"])
    assert again["k24"] is None
    assert time.monotonic() - began_s < 4.0, "they had their time"
    assert sorted(children.started) == sorted([*keys, "k24"]), "none is started twice"


def test_one_that_ends_late_is_told_though_nobody_asks_for_it_and_may_be_tried_again(children):
    children.hang = {"k"}
    apart = RestoreApart(children, list, patience_s=0.1, hangs_s=0.0)
    (error,) = apart.restore(["k"]).values()
    assert isinstance(error, StorageError)
    assert "hangs in its drive" in error.message
    assert apart.restore([]) == {}
    children.let_go("k")
    deadline = time.monotonic() + 30

    def told(asked):
        """What is said in the end: on a busy machine a child takes longer than the patience."""
        results = apart.restore(asked)
        while results != {"k": None} and time.monotonic() < deadline:
            results = apart.restore([])
        return results

    assert told([]) == {"k": None}
    assert told(["k"]) == {"k": None}
    assert children.started == ["k", "k"]


def test_what_a_child_says_is_one_line_whatever_it_says():
    assert verdict(0, b"anything") is None
    told = verdict(1, answer(StorageError("it\nis gone", "look")).encode())
    assert (told.message, told.advice) == ("it is gone", "look")
    for said in (b"", b"\xff", b"[]", b"{}", b"Traceback (most recent call last)", b"null",
                 b"[" * 60_000, b'{"message": "", "advice": "a"}'):
        assert "ended with code -9" in verdict(-9, said).message


def test_a_child_that_cannot_be_started_is_an_error_of_that_entry_alone():
    def start(words):
        if words == ["bad"]:
            raise OSError(11, "Resource temporarily unavailable")
        return start_command(["true"])

    results = RestoreApart(start, list).restore(["bad", "good"])
    assert "could be started" in results["bad"].message
    assert results["good"] is None


@pytest.mark.slow
def test_the_program_is_started_again_from_where_it_is_and_never_from_the_working_folder(
    tmp_path
):
    (tmp_path / "wcache_probe").mkdir()
    (tmp_path / "wcache_probe/__init__.py").write_text("raise SystemExit(99)")
    program = (
        "from wcache_probe.restoring.restorer import start_again; "
        "child = start_again(['--version']); print(child.stdout.read(), child.wait())"
    )
    places = [place for place in sys.path if place]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:] = {places!r}; {program}"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )
    assert "wcache-probe " in done.stdout, done.stderr
    assert done.stdout.endswith(" 0\n")
    assert callable(start_again)
