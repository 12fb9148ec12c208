"""How many functions and files of the module a few usual things enter, counted as they run.

    make bench-walks [FORMAT=json]

The tests' own mgr, module and fake ports in one process, is traced by `sys.setprofile`, all its
threads too.  Only files of `mgr_module/wcache` count, so no fake does, and no analysis child.

- status: of 3 measured drives.  idle tick: 5 s later, with the probes' calls; and all such
  ticks of ten minutes.  apply + rollback: of 3 drives.  sample: from the start of a campaign of
  `osd bench` on 3 drives to the printed `recommend`.  memory plan: made, applied and shown with
  what was read back, on 4 hosts.
- files, functions: what was entered; functions of one name in one file are one.
- code: each of these apart, and lambdas and comprehensions too, which could hide a function.
- from start: the same walk with the start of the mgr and the first reports of all probes before
  it.  What an earlier call has kept for a walk is in here.

Each walk has a process of its own, and begins after a failover, so the mgr has kept nothing but
its store.  What `functools` would keep is computed anew each time.  Comprehensions are frames
on Python 3.11 and not on 3.12, so it asks for 3.11.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Callable, Dict, NamedTuple, Set

ROOT = Path(__file__).resolve().parents[2]
MODULE = str(ROOT / "mgr_module" / "wcache") + os.sep
PYTHON = (3, 11)
TICK_S = 5.0
Figures = Dict[str, int]
Do = Callable[[Any], object]


class Walk(NamedTuple):
    """A mgr, what is done between its start and the walk, and what is walked."""

    make: Callable[[], Any]
    prepare: Do
    go: Do


class Trace:
    """The code of the module that is entered meanwhile."""

    def __init__(self) -> None:
        self.code: Set[Any] = set()

    def __enter__(self) -> Trace:
        threading.setprofile(self._entered)
        sys.setprofile(self._entered)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]

    def _entered(self, frame: Any, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(MODULE):
            self.code.add(frame.f_code)

    @property
    def figures(self) -> Figures:
        """Distinct files, functions by file and name, and all code."""
        code = [one for one in self.code if one.co_name != "<module>"]
        functions = {
            (one.co_filename, one.co_name) for one in code if not one.co_name.startswith("<")
        }
        return {
            "files": len({one.co_filename for one in code}), "functions": len(functions),
            "code": len(code),
        }


def keep_nothing() -> None:
    """Have the module, which is imported after this, compute what `functools` would keep."""
    def of_module() -> bool:
        return str(sys._getframe(2).f_globals["__name__"]).partition(".")[0] == "wcache"

    def unless_module(kept: Any, anew: Any) -> Any:
        return lambda *args, **more: (anew if of_module() else kept)(*args, **more)

    def without_size(function: Any = None, **_: Any) -> Any:
        return function if callable(function) else lambda each: each

    functools.cache = unless_module(functools.cache, without_size)  # type: ignore[assignment]
    functools.lru_cache = unless_module(  # type: ignore[assignment]
        functools.lru_cache, without_size
    )
    functools.cached_property = unless_module(  # type: ignore[assignment, misc]
        functools.cached_property, property
    )


def walks() -> Dict[str, Walk]:
    """All walks; the worlds are imported here, once nothing is kept any more."""
    import memory_world as memory
    import module_world as module

    def nothing(_mgr: Any) -> None:
        pass

    def ticks(mgr: Any, count: int = 5) -> None:
        for _ in range(count):
            mgr.step(TICK_S)

    def measured() -> Any:
        mgr = module.a_mgr()
        sample(mgr)
        return mgr

    def planned() -> Any:
        mgr = measured()
        module.ok(mgr.command("plan"))
        return mgr

    def there_and_back(mgr: Any) -> None:
        module.ok(mgr.command("apply", plan_id="p1"))
        mgr.settle()
        mgr.report_all()
        module.ok(mgr.command("rollback"))
        mgr.settle()

    def sample(mgr: Any) -> None:
        module.start(mgr, seed=1)
        mgr.settle()
        mgr.report_all()
        module.ok(mgr.command("recommend"))

    def memory_plan(mgr: Any) -> None:
        assert module.said(mgr, "plan", knob="memory")["changes"]
        module.ok(mgr.command("apply", plan_id="p1"))
        memory.to_its_end(mgr)
        module.ok(mgr.command("plan show", plan_id="p1"))

    return {
        "status": Walk(measured, nothing, lambda mgr: module.ok(mgr.command("status"))),
        "idle tick": Walk(measured, ticks, lambda mgr: ticks(mgr, 1)),
        "ten idle minutes": Walk(measured, ticks, lambda mgr: ticks(mgr, 120)),
        "apply + rollback": Walk(planned, nothing, there_and_back),
        "sample": Walk(module.a_mgr, nothing, sample),
        "memory plan": Walk(
            lambda: memory.a_mgr(hosts=4, ram_bytes=int(7.8 * memory.GIB)), memory.watch,
            memory_plan,
        ),
    }


def walked(name: str) -> Figures:
    """Do a walk in this process."""
    keep_nothing()
    walk = walks()[name]
    mgr = walk.make()
    with Trace() as whole:
        mgr.restart()
        mgr.report_all()
        walk.prepare(mgr)
        with Trace() as alone:
            walk.go(mgr)
    whole.code |= alone.code
    return {
        **alone.figures,
        **{f"{key} from start": value for key, value in whole.figures.items()},
    }


def measure() -> Dict[str, Figures]:
    """The figures of all walks, each from a fresh process."""
    found = {}
    for name in walks():
        done = subprocess.run(
            [sys.executable, "-m", "bench.walks", name], check=True, stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONHASHSEED": "0"},
        )
        found[name] = json.loads(done.stdout)
    return found


def plain(found: Dict[str, Figures]) -> str:
    """The figures as a table."""
    lines = ["WALK               FILES  FUNCTIONS   CODE   FROM START: FILES  FUNCTIONS   CODE"]
    for name, one in found.items():
        line = f"{name:18}" + "".join(
            f"{one[key]:{width}}" for key, width in zip(one, (6, 11, 7, 19, 11, 7))
        )
        lines.append(line)
    return "\n".join(lines)


def main() -> int:
    """Print all walks, or one as JSON where it is named; returns the exit code."""
    if sys.version_info[:2] != PYTHON:
        version = sys.version.split()[0]
        print(f"this is Python {version}: set PYTHON=python3.11", file=sys.stderr)
        return 1
    if sys.argv[1:]:
        print(json.dumps(walked(sys.argv[1])))
        return 0
    found = measure()
    as_json = os.environ.get("FORMAT") == "json"
    print(json.dumps(found, indent=2) if as_json else plain(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
