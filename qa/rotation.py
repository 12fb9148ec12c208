"""Run the long test whose turn it is: each commit has one of them in `make test`.

python3 qa/rotation.py [COMMIT]   that of a commit; by default of the one that is checked out
python3 qa/rotation.py --stage    print the stage whose turn it is

Which one follows from the commit's hash, so that a run is the same when it is repeated, and all
come to their turn as commits go by.  Where there is no repository it is always the same one.
`make test-all` has every one of them, and every stage in its long form.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import List, Tuple

PROJECT = Path(__file__).resolve().parents[1]
SECONDS_MAX = 240
# What of the real surfaces takes turns, one a commit; the lab and release 20 are in every run.
STAGES = (
    "test-release-16", "test-release-18", "test-ceph-ci-short", "test-packages-short",
    "test-cephadm-short",
)
# A busy machine takes several times as long; what takes longer than this hangs.
HANGS_AFTER_S = 900


@dataclass(frozen=True)
class Turn:
    """A test marked long, and what it took on two cores, with its cluster or its guest."""

    test: str
    seconds: int


_CUT_OFF = "vstart-tests/memory/test_memory_trials_cut_off.py::test_every_target_is_back"
TURNS: Tuple[Turn, ...] = (
    Turn("vstart-tests/surfaces/test_web_page_in_a_browser.py", 83),
    Turn("vstart-tests/rollouts/test_slow_operations.py", 60),
    Turn("vstart-tests/test_shared_drives.py", 145),
    Turn("vstart-tests/test_by_hand.py::"
         "test_an_entry_of_a_later_probe_stops_its_drive_until_that_probe_brings_it_back", 38),
    Turn("qa/drive_lab/tests/probe/test_probe_behind_raid.py::"
         "test_a_disk_that_is_passed_on_is_a_drive_whose_refused_flush_ends_a_change[megasas]", 78),
    Turn(f"{_CUT_OFF}[kill_mgr-raised]", 43),
    Turn(f"{_CUT_OFF}[kill_osd-last_period]", 44),
    Turn(f"{_CUT_OFF}[fail_over-on_the_way_down]", 48),
    Turn("vstart-tests/rollouts/test_rollout_gate_on_a_cluster.py::"
         "test_what_is_better_in_the_bench_and_worse_for_clients_goes_back_at_the_canary", 96),
)


def chosen(commit: str) -> Turn:
    """The turn of a commit, by its hash."""
    return TURNS[int(commit, 16) % len(TURNS)]


def stage(commit: str) -> str:
    """The stage of a commit, by its hash, whichever long test it has."""
    return STAGES[int(commit, 16) // len(TURNS) % len(STAGES)]


def hash_of(name: str) -> str:
    """The hash of a commit; "" where there is none of that name, or no repository."""
    done = subprocess.run(
        ["git", "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"],
        cwd=PROJECT, capture_output=True, text=True, check=False,
    )
    return done.stdout.strip()


def main(words: List[str]) -> int:
    """Exit code 0 where it passed."""
    if words == ["--stage"]:
        print(stage(hash_of("HEAD") or "0"))
        return 0
    name = words[0] if words else "HEAD"
    commit = hash_of(name)
    if words and not commit:
        print(f"there is no commit {name}: give its hash or its name", file=sys.stderr)
        return 2
    turn = chosen(commit or "0")
    whose = commit[:12] or "no commit"
    print(f"turn of {whose}: {turn.test} (about {turn.seconds} s)", flush=True)
    return subprocess.run(
        # in the foreground: what ends the stage reaches the test as well
        ["timeout", "--foreground", "-s", "INT", "-k", "60", str(HANGS_AFTER_S),
         sys.executable, "-m", "pytest", "-rs", turn.test],
        cwd=PROJECT, check=False,
    ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
