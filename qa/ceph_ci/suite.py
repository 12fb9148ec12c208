"""Ceph's vstart.sh and vstart_runner.py in a place, and what the runner says of each test."""

from __future__ import annotations

import re
import time
from typing import Dict, NamedTuple, Optional, Sequence

from harness.errors import HarnessError, NotPossible

from .place import BUILD, TREE, Place

RUNNER = ("python", "-W", "ignore", "../qa/tasks/vstart_runner.py")
RUN_TIMEOUT_S = 1800.0
WAIT_S = 180.0
# What unittest says of a test.  The runner hands its words on some lines at a time, so a test's
# name, what it is about, and what it came to may be lines apart.
_SAID = re.compile(r"INFO:__main__:(.*)")
_NAME = re.compile(r"\w+ \(([\w.]+)\)")
_RESULT = re.compile(r"(?:^|\.\.\. )(ok|FAIL|ERROR|skipped)\b")


class Outcome(NamedTuple):
    """What a run of the runner came to; `results` are unittest's words by the test's whole name."""

    code: int
    results: Dict[str, str]
    said: str


def start(place: Place, *options: str, osds: int = 3, mgrs: int = 2) -> None:
    """Start a cluster by vstart.sh; HarnessError where it does not come up."""
    environment = [f"OSD={osds}", f"MGR={mgrs}", "MON=1", "MDS=0", "FS=0"]
    argv = ["bash", "../src/vstart.sh", "-n", "--nolockdep", "--without-dashboard", *options]
    place.check(["env", *environment, *argv], timeout_s=400)


def stop(place: Place) -> None:
    """End the cluster by stop.sh, and forget it."""
    place.check(["bash", "../src/stop.sh"], timeout_s=120)
    place.check(["rm", "-rf", "dev", "out"])


def wait(place: Place, command: str) -> None:
    """Repeat a line of shell until it succeeds: a mgr that was just enabled needs some seconds."""
    end_s = time.monotonic() + WAIT_S
    while True:
        done = place.run(["sh", "-c", command], timeout_s=60)
        if done.returncode == 0:
            return
        if time.monotonic() > end_s:
            raise HarnessError(f"{command} has not succeeded: {done.stdout[-2000:]}")
        time.sleep(1.0)


def enable(place: Place) -> None:
    """Enable the module, as an admin does, and wait until it answers."""
    place.check(["bin/ceph", "mgr", "module", "enable", "wcache"])
    wait(place, "bin/ceph wcache status")


def run_named(place: Place, *names: str, options: Sequence[str] = ()) -> Outcome:
    """Run tests by their names, on the cluster that is there."""
    return _run(place, [*options, *names])


def run_yaml(place: Place, text: str) -> Outcome:
    """Run the tasks of a suite's YAML by teuthology's run_tasks, as `--config-mode` does.

    Raises NotPossible on 18, whose runner has no such mode.
    Workunits leave the build folder: vstart_environment.sh names the configuration for them.
    """
    runner = place.outside(f"{TREE}/qa/tasks/vstart_runner.py")
    if "--config-mode" not in runner.read_text(encoding="utf-8"):
        raise NotPossible(f"vstart_runner.py of {place.release} has no --config-mode")
    path = f"{BUILD}/tasks.yaml"
    place.outside(path).write_text(text, encoding="utf-8")
    return _run(place, ["--config-mode", path], {"CEPH_CONF": f"{BUILD}/ceph.conf"})


def _run(
    place: Place, words: Sequence[str], environment: Optional[Dict[str, str]] = None
) -> Outcome:
    done = place.run([*RUNNER, *words], timeout_s=RUN_TIMEOUT_S, environment=environment)
    return Outcome(done.returncode, results_of(done.stdout), done.stdout)


def results_of(said: str) -> Dict[str, str]:
    """Unittest's words by the test's whole name, out of what the runner said."""
    results: Dict[str, str] = {}
    name = ""
    for line in _SAID.findall(said):
        named, came_to = _NAME.match(line), _RESULT.search(line)
        if named:
            name = named[1]
        if name and came_to:
            results[name], name = came_to[1], ""
    return results


def make_repository(place: Place) -> str:
    """A repository with Ceph's workunits and ours, as teuthology's task clones one; its URL."""
    place.check(["sh", "-c", f"""
        set -e
        rm -rf /repository
        git init -q -b main /repository
        mkdir -p /repository/qa/workunits
        cp -a {TREE}/qa/workunits/mgr /repository/qa/workunits/
        cd /repository
        git add -A
        git -c user.name=ceph -c user.email=ceph@localhost commit -q -m workunits
        echo "ceph_git_url: file:///repository" >/root/.teuthology.yaml
        echo "ceph_qa_suite_git_url: file:///repository" >>/root/.teuthology.yaml
    """])
    return "file:///repository"
