"""Make each mutation in a copy of the project, and demand that its tests fail.

python -m mutations [WORD ...]   all, or those with one of the words in their file or reason
TURNS=24 python -m mutations     every twenty-fourth one: which ones follows from the commit's hash

They are in `lists/`, by the part of the project that they change.  Of each:
    why      what is lost with it
    file     where
    find     the text there, exactly once; if the code changed, change this along
    replace  what stands there instead
    tests    those that must fail
"""

from __future__ import annotations

import os
import queue
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator, List, Sequence, Tuple

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.9 and 3.10
    import tomli as tomllib

from rotation import hash_of

PROJECT = Path(__file__).resolve().parents[2]
LISTS = Path(__file__).with_name("lists")
COPIED = (
    "cli", "doc", "mgr_module", "osd_probe", "qa", "templates", "vstart-tests", "pyproject.toml",
)
SECONDS_MAX = 900.0  # a machine that is busy with the drive lab too takes its time
TEST_SECONDS_MAX = 20.0  # of each, where those of all mutations run in one go
TESTS_PASSED, TESTS_FAILED = 0, 1  # pytest's exit codes; others say that nothing was tested


class MutationError(Exception):
    """A mutation that proves nothing, with what to do about it."""


@dataclass(frozen=True)
class Mutation:
    """One protection taken away, and the tests that must notice."""

    why: str
    file: str
    find: str
    replace: str
    tests: Tuple[str, ...]

    def apply(self, text: str) -> str:
        """The text of its file, mutated."""
        if text.count(self.find) != 1:
            raise MutationError(
                f"what to find stands {text.count(self.find)} times in {self.file}, "
                f"not once ({self.why}); change the mutation along with the code"
            )
        mutated = text.replace(self.find, self.replace)
        try:
            if self.file.endswith(".py"):
                compile(mutated, self.file, "exec")
        except SyntaxError as error:
            raise MutationError(f"{self.file} is no Python with it ({self.why}): {error}") from None
        return mutated


def load() -> List[Mutation]:
    """The mutations of all lists."""
    return [
        Mutation(**{**table, "tests": tuple(table["tests"])})
        for path in sorted(LISTS.glob("*.toml"))
        for table in tomllib.loads(path.read_text(encoding="utf-8"))["mutation"]
    ]


class Copy:
    """A copy of the project in which one mutation at a time is made."""

    def __init__(self, folder: Path, names: Sequence[str] = COPIED) -> None:
        self._folder = folder
        self._mutated = 0
        for name in names:
            source = PROJECT / name
            if source.is_dir():
                shutil.copytree(
                    source, folder / name, symlinks=True,
                    ignore=shutil.ignore_patterns("__pycache__", ".*", "out"),
                )
            elif source.exists():
                shutil.copy2(source, folder / name)

    def run(self, tests: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run some tests of it."""
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", *tests],
            cwd=self._folder, env={
                **os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
                "PYTHONDONTWRITEBYTECODE": "",
                "PYTHONPYCACHEPREFIX": str(self._folder / "compiled"),
            },
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=max(SECONDS_MAX, TEST_SECONDS_MAX * len(tests)), check=False,
        )

    def result(self, mutation: Mutation) -> str:
        """Empty where its tests fail with a mutation; else what is wrong."""
        path = self._folder / mutation.file
        sound = path.read_text(encoding="utf-8")
        times = path.stat()
        path.write_text(mutation.apply(sound), encoding="utf-8")
        # Python knows compiled code by the second and the size of its source
        self._mutated += 1
        os.utime(path, (self._mutated, self._mutated))
        try:
            after = self.run(mutation.tests)
        finally:
            path.write_text(sound, encoding="utf-8")
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        if after.returncode == TESTS_PASSED:
            return "no test fails with it"
        if after.returncode != TESTS_FAILED:
            return f"its tests do not run with it:\n{after.stdout[-2000:]}"
        return ""


def judge(mutation: Mutation, copies: queue.Queue[Copy]) -> str:
    """Empty where a test notices a mutation; else what is wrong."""
    copy = copies.get()
    try:
        return copy.result(mutation)
    except (MutationError, OSError) as error:
        return str(error)
    except subprocess.TimeoutExpired:
        return f"its tests took more than {SECONDS_MAX:.0f} s"
    finally:
        copies.put(copy)


def unnoticed(mutations: Sequence[Mutation], jobs: int) -> Iterator[str]:
    """What is wrong with each mutation that no test notices."""
    copies: queue.Queue[Copy] = queue.Queue()
    tests = dict.fromkeys(test for mutation in mutations for test in mutation.tests)
    with tempfile.TemporaryDirectory(prefix="wcache-mutations-") as root:
        sound, *others = [Copy(Path(root) / str(number)) for number in range(jobs + 1)]
        for copy in others:
            copies.put(copy)
        with ThreadPoolExecutor(jobs) as pool:
            before = pool.submit(sound.run, list(tests))
            results = pool.map(lambda mutation: judge(mutation, copies), mutations)
            for mutation, wrong in zip(mutations, results):
                print(f"{'SURVIVED' if wrong else 'noticed '}  {mutation.why}", flush=True)
                if wrong:
                    yield f"{mutation.file}: {wrong}"
            try:
                done = before.result()
            except subprocess.TimeoutExpired as error:
                yield f"without a mutation the tests took more than {error.timeout:.0f} s"
                return
            if done.returncode != TESTS_PASSED:
                yield f"without a mutation the tests fail too:\n{done.stdout[-4000:]}"


def main(words: Sequence[str]) -> int:
    """Exit code 0 where every mutation is noticed."""
    began_s = time.monotonic()
    turns = int(os.environ.get("TURNS") or 1)
    turn = int(hash_of("HEAD") or "0", 16) % turns
    mutations = [
        one for one in load()
        if not words or any(word in one.file or word in one.why for word in words)
    ][turn::turns]
    if not mutations:
        print("no mutation has one of these words in its file or reason", file=sys.stderr)
        return 1
    wrong = list(unnoticed(mutations, jobs=min(2, os.cpu_count() or 1)))
    for line in wrong:
        print(line, file=sys.stderr)
    took_s = time.monotonic() - began_s
    print(f"{len(mutations)} mutations, {len(wrong)} complaints, {took_s:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
