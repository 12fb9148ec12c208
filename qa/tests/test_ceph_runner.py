"""What Ceph's vstart_runner.py says of tests is read however it hands the lines on."""

import itertools

from ceph_ci.suite import results_of

# Where it may be cut: at |.
WORDS = (
    "test_a (tasks.T.test_a)|\nWhat it is about| ... |ok|\n|"
    "test_b (tasks.T.test_b)| ... |FAIL|\n"
    "=====\nFAIL: test_b (tasks.T.test_b)\nWhy it failed ... ok\n"
)


def logged(words):
    """As the runner's LogStream writes it."""
    return "".join(f"2026-11-26T13:00:00.000 INFO:__main__:{line}\n" for line in words.split("\n"))


def test_a_result_may_be_lines_apart_from_the_tests_name():
    pieces = WORDS.split("|")
    for cuts in itertools.combinations(range(1, len(pieces)), 2):
        said = "".join(
            logged("".join(pieces[begin:end])) + "2026 DEBUG:teuthology:... ok\n"
            + logged("Stopped test: test_a (tasks.T.test_a) in 1s")
            for begin, end in zip((0, *cuts), (*cuts, len(pieces)))
        )
        assert results_of(said) == {"tasks.T.test_a": "ok", "tasks.T.test_b": "FAIL"}, cuts
