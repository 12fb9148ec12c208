"""Run make targets as stages, and say when each begins and what it took.

python3 qa/stages.py [NAME=VALUE ...] GROUP ...

Groups run one after another.  A group is targets in a row ("check test-mutations"), or rows
beside each other ("test-lab | test-release-18 ~check").  A target after a ~ has a low priority:
it takes the time that the other row leaves, which runs nearly as it would alone.  Output of a
group of rows is shown when a stage has ended, so that no two are mixed.

The first stage that fails ends the others and the run.  One after a + is of pytest, whose tests
have clocks that go on while others have the processors: what fails of it is done once more when
all rows have ended, by itself, and decides then.  Both are printed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event, Lock
from typing import IO, List, Optional, Sequence

LOW = 10  # nice; a tenth of the time where the first row wants all of it
END_S = 60.0  # for a stage to clean up after itself
POLL_S = 0.2


class Stages:
    """A run of stages; `variables` are given to each make."""

    def __init__(
        self, make: Sequence[str], variables: Sequence[str] = (), caches: Path = Path()
    ) -> None:
        self._make = [*make, *variables]
        self._caches = caches  # pytest keeps there, a folder for each stage, which tests failed
        self._began_s = time.monotonic()
        self._stop = Event()
        self._printing = Lock()
        self._again: List[str] = []

    def run(self, groups: Sequence[str]) -> bool:
        """Whether every stage of all groups ended well, at once or by itself."""
        for group in groups:
            rows = [row.split() for row in group.split("|")]
            with ThreadPoolExecutor(len(rows)) as pool:
                done = [pool.submit(self._row, row, len(rows) > 1) for row in rows]
                try:
                    good = [one.result() for one in done]
                except BaseException:
                    self._stop.set()
                    raise
            if not all(good) or not all([self._alone(stage) for stage in sorted(self._again)]):
                return False
            self._again.clear()
        self._say(f"== all done in {self._seconds()} s")
        return True

    def _row(self, targets: Sequence[str], apart: bool) -> bool:
        for target in targets:
            if self._stop.is_set():
                return False
            stage = target.lstrip("~+")
            low, again = ("~" in target, "+" in target)
            self._say(f"== {stage}: begins after {self._seconds()} s")
            from_s = time.monotonic()
            with tempfile.TemporaryFile() as output:
                options = self._kept(stage) if again else ""
                code = self._stage(stage, low, output if apart else None, options)
                took = f"in {time.monotonic() - from_s:.0f} s"
                if code is None:
                    self._say(f"== {stage}: stopped {took}", output)
                    return False
                if code and again:
                    self._again.append(stage)
                    self._say(f"== {stage}: failed {took}; once more by itself, later", output)
                elif code:
                    self._stop.set()
                    self._say(f"== {stage}: FAILED {took}", output)
                    return False
                else:
                    self._say(f"== {stage}: done {took}", output)
        return True

    def _alone(self, stage: str) -> bool:
        """Whether the tests of a stage that failed beside other rows pass without them."""
        self._say(f"== {stage}: what failed of it begins alone after {self._seconds()} s")
        from_s = time.monotonic()
        failed_only = f"{self._kept(stage)} --last-failed --last-failed-no-failures=none"
        good = self._stage(stage, False, None, failed_only) == 0
        took = f"in {time.monotonic() - from_s:.0f} s"
        if good:
            self._say(f"== {stage}: unsteady: FAILED beside other stages, passed alone {took}")
        else:
            self._say(f"== {stage}: FAILED twice, the second time alone {took}")
        return good

    def _kept(self, stage: str) -> str:
        return f"-o cache_dir={self._caches / stage}"

    def _stage(
        self, stage: str, low: bool, output: Optional[IO[bytes]], options: str
    ) -> Optional[int]:
        """Its exit code; None where it was stopped because another one failed."""
        nice = ["nice", "-n", str(LOW)] if low else []
        process = subprocess.Popen(
            [*nice, *self._make, stage], stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT if output else None, start_new_session=True,
            env={**os.environ, "PYTEST_ADDOPTS": options} if options else None,
        )
        if low:
            _lower_session(process.pid)
        try:
            while process.poll() is None and not self._stop.is_set():
                time.sleep(POLL_S)
            return process.poll()
        finally:
            _end(process)

    def _say(self, line: str, output: Optional[IO[bytes]] = None) -> None:
        with self._printing:
            if output:
                output.seek(0)
                sys.stdout.flush()
                sys.stdout.buffer.write(output.read())
            print(line, flush=True)

    def _seconds(self) -> int:
        return round(time.monotonic() - self._began_s)


def _lower_session(pid: int) -> None:
    """Where the kernel shares time among sessions first, nice counts inside of each (sched(7))."""
    with suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(LOW))


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask a stage to end, with all that it started; kill what has not after a while."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            os.killpg(process.pid, number)
            try:
                process.wait(timeout=END_S)
            except subprocess.TimeoutExpired:
                continue


def _terminated(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


def main(words: List[str]) -> int:
    """Exit code 0 where every stage ended well."""
    signal.signal(signal.SIGTERM, _terminated)
    variables = [word for word in words if "=" in word]
    groups = [word for word in words if "=" not in word]
    make = [os.environ.get("MAKE", "make"), "--no-print-directory"]
    with tempfile.TemporaryDirectory(prefix="wcache-stages-") as caches:
        return 0 if Stages(make, variables, Path(caches)).run(groups) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
