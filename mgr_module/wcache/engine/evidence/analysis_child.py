"""The `Analysis` port: the statistics in a child process, one request at a time.

A mgr must never import scipy: 16 and 18 load modules in sub-interpreters, where it
deadlocks or breaks.  The child is started when it is first needed, bounded in time,
and started anew when it dies; without numpy it says what to install.

Whoever may set the module's options must not thereby run what anybody has put somewhere: of
the interpreter that an option names only what root, or the user that the mgr runs as, could
have put there is started.
"""

from __future__ import annotations

import contextlib
import os
import queue
import stat
import subprocess
import threading
import time
from pathlib import Path
from typing import Callable, Iterator, List, Optional, Tuple

from ...core import versions
from ...core.codec import as_object, decode, one_line, parse_json
from ...core.record import Record
from ...core.verdict.result import Analysed
from .analyses import Done

# as many as the kernel follows (include/linux/namei.h, MAXSYMLINKS)
LINKS_MAX = 40


def why_not(path: str) -> str:
    """Why a program may not be run, in words; empty where it may.

    Its file, every folder and every link on the way to it must belong to root or to us,
    and nobody else may write there.
    """
    if not os.path.isabs(path):
        return f"{path[:200]!r} is not an absolute path"
    found = None
    try:
        for place, found in _way_to(path):
            if found.st_uid not in (0, os.geteuid()):
                return f"{place} belongs to neither root nor the mgr's user"
            if _others_write(found):
                return f"{place} can be written by others"
    except (OSError, ValueError) as error:
        return f"{path[:200]!r} cannot be looked at ({type(error).__name__})"
    if found is None or not stat.S_ISREG(found.st_mode) or not os.access(path, os.X_OK):
        return f"{path[:200]!r} is not a program"
    return ""


def _others_write(found: os.stat_result) -> bool:
    if stat.S_ISLNK(found.st_mode):
        return False  # a link cannot be written, only replaced in its folder
    sticky_folder = stat.S_ISDIR(found.st_mode) and bool(found.st_mode & stat.S_ISVTX)
    by_group = bool(found.st_mode & stat.S_IWGRP) and found.st_gid != 0
    return (by_group or bool(found.st_mode & stat.S_IWOTH)) and not sticky_folder


def _way_to(path: str) -> Iterator[Tuple[str, os.stat_result]]:
    """Each folder, link and file that the kernel passes on its way, the last one last."""
    here, links = "/", 0
    yield here, os.lstat(here)
    left: List[str] = path.split("/")
    while left:
        part = left.pop(0)
        if part in ("", "."):
            continue
        if part == "..":
            here = os.path.dirname(here)
            continue
        place = os.path.join(here, part)
        found = os.lstat(place)
        yield place, found
        if not stat.S_ISLNK(found.st_mode):
            here = place
            continue
        links += 1
        if links > LINKS_MAX:
            raise ValueError("links that lead to each other")
        target = os.readlink(place)
        here = "/" if os.path.isabs(target) else here
        left = target.split("/") + left


ANSWER_BYTES_MAX = 4_000_000
# A child that has had nothing to do for this long is let go; it holds 60 MB.
IDLE_S = 60.0


def _import_path() -> str:
    """The folders that the child imports the module and `core` from, as PYTHONPATH has them."""
    # The module's real folder, not the mgr's module path, whose other modules would
    # be importable under names like `status` and `test`.
    folders = [Path(__file__).resolve().parents[3]]
    # In Ceph's tree `core` is in src/python-common: vstart.sh sets it in the mgr's PYTHONPATH.  An
    # installed one is where the interpreter looks by itself, after its own modules.
    core = Path(versions.__file__).resolve().parents[2]
    if core not in folders and core.name not in ("dist-packages", "site-packages"):
        folders.append(core)
    return os.pathsep.join(map(str, folders))


class AnalysisChild:
    """Runs `python -m wcache.analysis` and talks JSON lines with it."""

    def __init__(self, *, python: Callable[[], str], seconds_max: Callable[[], float]) -> None:
        self._python = python
        self._seconds_max = seconds_max
        self._jobs: queue.Queue[Optional[Tuple[Record, Done]]] = queue.Queue(maxsize=1000)
        self._child: Optional[subprocess.Popen[bytes]] = None
        self._started = ""
        self._closed = False
        self._thread = threading.Thread(target=self._work, daemon=True, name="wcache-analysis")
        self._thread.start()

    @property
    def pid(self) -> Optional[int]:
        """Process id of the child while it lives."""
        child = self._child
        return child.pid if child is not None and child.poll() is None else None

    def start(self, record: Record, done: Done) -> None:
        """Queue a record; `done(found, error)` is called once from the worker's thread."""
        try:
            self._jobs.put_nowait((record, done))
        except queue.Full:
            done(None, "too many analyses are waiting")

    def close(self) -> None:
        """Stop the worker and the child."""
        self._closed = True
        with contextlib.suppress(queue.Full):
            self._jobs.put_nowait(None)
        child = self._child
        if child is not None:
            child.kill()  # the worker sees the end of its pipe at once
        self._thread.join(timeout=5.0)
        self._stop()

    def _work(self) -> None:
        while not self._closed:
            try:
                job = self._jobs.get(timeout=IDLE_S)
            except queue.Empty:
                self._stop()
                continue
            if job is None:
                return
            record, done = job
            found, error = self._ask(record)
            with contextlib.suppress(Exception):
                # whatever its taker does, the next record needs this thread
                done(found, error)

    def _ask(self, record: Record) -> Tuple[Optional[Analysed], str]:
        """One record; a child that dies on it is started again once."""
        error = ""
        for _ in range(2):
            if self._closed:
                break
            try:
                return self._exchange(record), ""
            except _ChildRefusedError as refusal:
                return None, str(refusal)
            except Exception as failure:  # the next record needs this thread, whatever it is
                self._stop()
                error = str(failure) or type(failure).__name__
        return None, one_line(f"the analysis child failed: {error or 'the mgr stops'}", 300)

    def _exchange(self, record: Record) -> Analysed:
        child = self._child
        if child is None or child.poll() is not None or self._started != self._python():
            self._stop()
            child = self._child = self._spawn()
        answer = self._line_for(child, (versions.dumps(record) + "\n").encode())
        plain = parse_json(answer.decode("utf-8"), bytes_max=ANSWER_BYTES_MAX, what="its answer")
        if isinstance(plain, dict) and "error" in plain:
            raise _ChildRefusedError(one_line(str(plain["error"]), 300))
        found = decode(Analysed, as_object(plain).get("found"), "its answer")
        if found.result.record_id != record.record_id:
            raise _ChildDiedError("it answered another request")
        return found

    def _spawn(self) -> subprocess.Popen[bytes]:
        env = {"PATH": os.defpath, "PYTHONPATH": _import_path(), "LC_ALL": "C.UTF-8",
               "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        # a mgr's sys.executable is empty, so the interpreter is named by an option
        self._started = self._python()
        refused = why_not(self._started)
        if refused:
            raise _ChildRefusedError(
                one_line(f"mgr/wcache/python_path is not run: {refused}", 300)
            )
        return subprocess.Popen(
            [self._started, "-m", "wcache.analysis"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env, cwd="/",
        )

    def _line_for(self, child: subprocess.Popen[bytes], line: bytes) -> bytes:
        """Its answer to a line; one that does not read, or answers too late, is killed."""
        assert child.stdin is not None and child.stdout is not None  # noqa: S101, PT018  (PIPE)
        seconds_max = self._seconds_max()
        deadline = time.monotonic() + seconds_max
        late = threading.Timer(seconds_max, child.kill)
        late.daemon = True
        late.start()
        failed, received = "it did not read the record", b""
        try:
            child.stdin.write(line)
            child.stdin.flush()
            failed = "no answer"
            received = child.stdout.readline(ANSWER_BYTES_MAX)
        except BrokenPipeError:
            pass  # it has ended, by itself or since it was late
        finally:
            late.cancel()
        if received.endswith(b"\n"):
            return received
        if time.monotonic() >= deadline:
            raise _ChildDiedError(f"{failed} within {seconds_max:.0f} s")
        long = len(received) == ANSWER_BYTES_MAX
        raise _ChildDiedError("its answer is too long" if long else self._exit_text(child))

    @staticmethod
    def _exit_text(child: subprocess.Popen[bytes]) -> str:
        try:
            code = child.wait(timeout=2.0)
        except subprocess.TimeoutExpired:
            return "it closed its pipe"
        return f"killed by signal {-code}" if code < 0 else f"ended with code {code}"

    def _stop(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()  # first: a reader holds its pipe until then
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    continue  # its end is gone, which is what is wanted
        child.wait()


class _ChildDiedError(Exception):
    """The child ended, hung or spoke nonsense: worth a second try with a new one."""


class _ChildRefusedError(Exception):
    """The child answered that it cannot, whatever it is asked: numpy is missing."""
