"""Whatever the analysis child does, there is one answer, in one line, and the next one works."""

import ast
import os
import queue
import sys
import threading
import time
from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from wcache.core import codec
from wcache.core.experiment.budget import Experiment
from wcache.core.experiment.design import Slot
from wcache.core.experiment.run_state import RunState, RunStatus
from wcache.core.model import Arm
from wcache.core.verdict.result import Analysed, not_analysed
from wcache.engine.evidence.analysis_child import AnalysisChild


def script(path, body):
    """An interpreter that ignores its arguments and runs `body`."""
    path.write_text(f"#!{sys.executable}\n{body}")
    path.chmod(0o755)
    return str(path)


def record(samples=2000):
    arms = {Slot(0, False): Arm.A, Slot(0, True): Arm.B}
    many = tuple(10_000_000 + i for i in range(samples))
    periods = {
        slot: make.period(arm, samples_ns=many) for slot, arm in arms.items()
    }
    state = RunState(make.run_spec(make.setup()), RunStatus.RUNNING)
    return Experiment(state, 0, periods).record("x", 1.0)


FOUND = Analysed(not_analysed(record(10), "x"), True)
OTHER = codec.dumps({"found": replace(FOUND, result=replace(FOUND.result, record_id="other"))})
ANSWER = (
    "import sys\n"
    "for line in sys.stdin:\n"
    f"    print({codec.dumps({'found': FOUND})!r}, flush=True)\n"
)
BAD = {
    "dies": ("import sys\nsys.exit(3)\n", "ended with code 3"),
    "is killed": ("import os\nos.kill(os.getpid(), 9)\n", "killed by signal 9"),
    "hangs": ("import sys, time\nsys.stdin.readline()\ntime.sleep(60)\n", "no answer within"),
    "reads nothing": ("import time\ntime.sleep(60)\n", "it did not read the record within"),
    "garbage": (
        "import sys\nsys.stdin.readline()\nprint('what?\\x1b[31m', flush=True)\n", "failed",
    ),
    "another answer": (
        "import sys\nsys.stdin.readline()\n"
        f"print({OTHER!r}, flush=True)\n",
        "it answered another request",
    ),
    "too much": (
        "import sys\nsys.stdin.readline()\n"
        "while True: sys.stdout.write('x' * 65536)\n",
        "too long",
    ),
    "no numpy": (
        "import sys\nsys.stdin.readline()\n"
        "print('{\"error\": \"numpy is missing\\\\nreally\"}')\n"
        "sys.stdout.flush()\n"
        "sys.stdin.readline()\n",
        "numpy is missing really",
    ),
}


@pytest.fixture
def child():
    made = []

    def make_child(python, seconds=(20.0,)):
        found = AnalysisChild(python=lambda: python[0], seconds_max=lambda: seconds[0])
        made.append(found)
        return found

    yield make_child
    for found in made:
        found.close()


def ask(child, samples=10):
    """One question; whether its answer was waited for, and the answer."""
    answers = queue.Queue()
    child.start(record(samples), lambda result, error: answers.put((result, error)))
    waited = not answers.empty()
    return waited, answers.get(timeout=20)


@pytest.mark.slow
@pytest.mark.parametrize("how", sorted(BAD))
def test_a_child_that_fails_gives_one_line_and_is_started_anew(child, tmp_path, how):
    body, expected = BAD[how]
    python = [script(tmp_path / "bad", body)]
    seconds = [0.7 if how in ("hangs", "reads nothing") else 20.0]
    it = child(python, seconds)
    waited, (result, error) = ask(it, samples=9000 if how == "reads nothing" else 10)
    assert result is None
    assert expected in error
    assert "\n" not in error
    assert error.isprintable()
    if how in ("hangs", "reads nothing"):
        assert not waited, "the caller was held"
    python[0], seconds[0] = script(tmp_path / "good", ANSWER), 20.0
    if it.pid is not None:
        os.kill(it.pid, 9)
    assert ask(it)[1] == (FOUND, "")


@pytest.mark.parametrize("path", ["/nonexistent/python", "", "/etc/passwd", "a\0b"])
def test_an_interpreter_that_is_none_is_named_as_the_trouble(child, path):
    _, (result, error) = ask(child([path]))
    assert result is None
    assert error.startswith("mgr/wcache/python_path is not run: ")


def test_the_child_gets_nothing_of_the_mgrs_environment_but_the_way_to_our_code(
    child, tmp_path, monkeypatch
):
    """A mgr in a container or under Rook has its key and the mons there."""
    monkeypatch.setenv("CEPH_ARGS", "--key=AQsecret")
    monkeypatch.setenv("LD_PRELOAD", "")
    told = "import os, sys\n" f"open({str(tmp_path / 'told')!r}, 'w').write(str([\n" \
        "    sorted(set(os.environ) - {'LC_CTYPE'}), sorted(os.listdir('/proc/self/fd'))]))\n"
    assert ask(child([script(tmp_path / "good", told + ANSWER)]))[1] == (FOUND, "")
    names, files = ast.literal_eval((tmp_path / "told").read_text())
    assert names == ["LC_ALL", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PATH", "PYTHONPATH"]
    # its three pipes, the script, the file it writes and the folder it lists
    assert len(files) <= 6, files


def broken(*_):
    raise RuntimeError("can't start new thread")


def test_a_taker_that_breaks_does_not_end_the_worker(child, tmp_path):
    it = child([script(tmp_path / "good", ANSWER)])
    it.start(record(10), broken)
    assert ask(it)[1] == (FOUND, "")


def test_what_nobody_foresaw_does_not_end_the_worker(child, tmp_path, monkeypatch):
    it = child([script(tmp_path / "good", ANSWER)])
    with monkeypatch.context() as now:
        now.setattr(threading.Timer, "start", broken)
        assert ask(it)[1] == (None, "the analysis child failed: can't start new thread")
    assert ask(it)[1] == (FOUND, "")


def test_a_child_is_kept_for_the_next_record(child, tmp_path):
    it = child([script(tmp_path / "good", ANSWER)])
    ask(it)
    pid = it.pid
    ask(it)
    assert it.pid == pid is not None


def test_close_ends_a_hanging_child_and_starts_no_other(child, tmp_path):
    log = tmp_path / "starts"
    body = f"import time\nopen({str(log)!r}, 'a').write('x')\ntime.sleep(60)\n"
    it = child([script(tmp_path / "bad", body)], seconds=(30.0,))
    it.start(record(10), lambda result, error: None)
    while not (log.exists() and log.read_text()):
        time.sleep(0.01)
    pid = it.pid
    it.close()
    assert it.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert log.read_text() == "x"
