"""Fuzz every target for its share of some seconds: `make fuzz SECONDS=600`.

Each is in a process of its own, with a bound of memory and one of time for each input.  What is
found is printed as one line that finds it again: `make fuzz TARGETS=name INPUT=...`.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import glob
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any, Dict, List, Tuple

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.9 and 3.10
    import tomli as tomllib

from .readers import others

PROJECT = Path(__file__).resolve().parents[2]
LINE = "{:<12} {:>9} {:>7} {:>7} {:>7} {:>5}  {}"
HEADS = ("target", "inputs", "seeds", "edges", "new", "MiB", "found")
PACKAGES = ["wcache", "wcache_probe", "wcache_cli", "wcache_sim"]
ALL_FROM_S = 120.0  # shorter runs see the coverage of the modules that read alone
LOST_S = 60.0  # a child that has not ended so long after its time is killed


def main() -> int:
    """0: nothing was found, or atheris is not to be had here, and why is said."""
    parser = argparse.ArgumentParser(prog="make fuzz")
    parser.add_argument("--seconds", type=float, default=20.0, help="for all targets together")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--input", default="", help="the one that a line of a fault names")
    parser.add_argument("--corpus", default="", help="a folder that keeps what was found new")
    parser.add_argument("targets", nargs="*")
    options = parser.parse_args()
    sys.path[:0] = paths()
    if options.input:
        return once(options.targets[0], options.input)
    atheris, why = installed()
    if atheris is None:
        print(f"fuzzing is skipped: {why}", flush=True)
        return 0
    # rewriting all of our code takes half a minute
    left_out = [] if options.seconds >= ALL_FROM_S else others()
    with contextlib.redirect_stderr(io.StringIO()), atheris.instrument_imports(
        include=PACKAGES, exclude=left_out
    ):
        from .engine import fuzz
        from .targets import TARGETS
    chosen = {t.name: t for t in TARGETS if not options.targets or t.name in options.targets}
    each_s = max(1.0, options.seconds * options.jobs / len(chosen))
    print(LINE.format(*HEADS), flush=True)
    todo, bad = [*chosen], 0
    running: Dict[int, Child] = {}
    while todo or running:
        while todo and len(running) < options.jobs:
            name = todo.pop(0)
            one = Child(name, each_s + LOST_S, options.corpus)
            pid = os.fork()
            if pid == 0:
                one.become()
                fuzz(chosen[name], each_s, one.corpus, one.place, options.seed)
            running[pid] = one
        for pid, one in running.items():
            if time.monotonic() > one.until_s:
                os.kill(pid, signal.SIGKILL)
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            time.sleep(0.02)
        else:
            bad += running.pop(pid).told(os.waitstatus_to_exitcode(status))
    print(f"{len(chosen)} targets, {each_s:.0f} s each: {bad} with a fault", flush=True)
    return 1 if bad else 0


def paths() -> List[str]:
    """Where tests find what they share."""
    with open(PROJECT / "pyproject.toml", "rb") as file:
        settings = tomllib.load(file)["tool"]["pytest"]["ini_options"]
    return [str(PROJECT), *(str(PROJECT / path) for path in settings["pythonpath"])]


def installed() -> Tuple[Any, str]:
    """atheris, from an environment of its own; else why there is none."""
    done = subprocess.run(
        ["sh", str(PROJECT / "qa/venv.sh"), "fuzz"], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHON": sys.executable},
    )
    if done.returncode:
        return None, (done.stderr.strip() or "nothing was said").splitlines()[-1]
    sys.path.append(glob.glob(f"{done.stdout.strip()}/lib/python3*/site-packages")[0])
    import atheris

    return atheris, ""


def once(name: str, data: str) -> int:
    """One input, without atheris: what it raises is seen."""
    from .targets import TARGETS

    (target,) = (target for target in TARGETS if target.name == name)
    print("taken" if target.run(unpacked(data)) else "refused")
    return 0


def packed(data: bytes) -> str:
    """An input as one word."""
    return base64.urlsafe_b64encode(zlib.compress(data, 9)).decode()


def unpacked(word: str) -> bytes:
    """The input that such a word is."""
    return zlib.decompress(base64.urlsafe_b64decode(word))


class Child:
    """One target at work."""

    def __init__(self, name: str, seconds_max: float, kept: str) -> None:
        self.name = name
        self.until_s = time.monotonic() + seconds_max
        shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.place = Path(tempfile.mkdtemp(prefix=f"fuzz-{name}-", dir=shared))
        self.corpus = Path(kept, name).resolve() if kept else self.place / "corpus"
        self.corpus.mkdir(parents=True, exist_ok=True)

    def become(self) -> None:
        """In the child: what it says and writes stays in its place."""
        tempfile.tempdir = str(self.place)
        with open(self.place / "said", "wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)

    def told(self, code: int) -> int:
        """Print what came of it; 1 where there is a fault."""
        said = (self.place / "said").read_text(errors="replace")
        seen = [re.findall(rf"{what}:? +(\d+)", said) or ["0"] for what in
                ("executed_units", "cov", "new_units_added", "peak_rss_mb")]
        if seen[0] == ["0"]:  # it has ended too early
            seen[0] = re.findall(r"^#(\d+)", said, re.M) or ["0"]
        found = sorted(self.place.glob(f"{self.name}.*-*"))
        why = "" if code == 0 else _why(said) or f"it ended with code {code}"
        print(LINE.format(self.name, seen[0][-1], seen[1][0], seen[1][-1], seen[2][-1], seen[3][-1],
                          why[:300]), flush=True)
        for path in found:
            print(f"  make fuzz TARGETS={self.name} INPUT={packed(path.read_bytes())}")
        shutil.rmtree(self.place, ignore_errors=True)
        return 1 if code else 0


def _why(said: str) -> str:
    """The exception, or what libFuzzer says, and the place in our code where it was raised."""
    lines = re.findall(r"Uncaught Python exception: ===\n(.*)|ERROR: libFuzzer: (.*)", said)
    where = re.findall(r'File ".*/(?:wcache|wcache_probe|wcache_cli)/(.*)", line (\d+)', said)
    told = "".join(lines[0]) if lines else ""
    return f"{told} ({':'.join(where[-1])})" if where else told


if __name__ == "__main__":
    sys.exit(main())
