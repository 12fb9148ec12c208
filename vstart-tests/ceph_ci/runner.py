"""What a test of Ceph's CI finds around it: its cluster, a node to run programs on."""

from __future__ import annotations

import importlib
import io
import os
import subprocess
import sys
import unittest
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Iterator, List, Optional, Sequence, Tuple

from harness import Cluster
from harness.processes import wait_until

HERE = Path(__file__).parent
QA = Cluster.project / "qa"


class Process:
    """A program under teuthology's daemon-helper: it ends when its standard input does."""

    class _Input:
        def __init__(self, process: subprocess.Popen[bytes]) -> None:
            self._process = process

        def close(self) -> None:
            """Ask the program to end, as `daemon-helper term` does."""
            if self._process.poll() is None:
                self._process.terminate()

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.stdin = self._Input(process)

    def wait(self) -> int:
        """Wait for its end; returns its exit code."""
        return self._process.wait(timeout=60)


class Remote:
    """The node of the first mon: here this machine, with the release's programs."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._folder = str(cluster.folder / "ci")

    def _own(self, text: str) -> str:
        """/tmp of a node of its own is a folder of this cluster here."""
        return text.replace("/tmp/", f"{self._folder}/", 1) if text.startswith("/tmp/") else text

    def write_file(self, path: str, data: str) -> None:
        """Write a file on the node."""
        target = Path(self._own(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(data, encoding="utf-8")

    def run(
        self, *, args: Sequence[str], wait: bool = True, stdin: Any = None
    ) -> Optional[Process]:
        """Run a program on the node; without `wait` it is under daemon-helper."""
        argv = [self._own(word) for word in args]
        if wait:
            self._cluster.run_inside(argv)
            return None
        assert argv[:2] == ["daemon-helper", "term"]
        program, *words = argv[2:]
        assert program == "wcache-probe"
        project = self._cluster.project
        with open(self._cluster.folder / "log" / "ci-probe.log", "ab") as log:
            process = self._cluster.popen_inside(
                [self._cluster.python_inside, "-m", "wcache_probe", *words],
                env={"PYTHONPATH": f"{project}/osd_probe:{project}/mgr_module"},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )
        return Process(process)


class MonManager:
    """`raw_cluster_cmd`: the ceph tool."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def raw_cluster_cmd(self, *args: str) -> str:
        """Run `ceph ...`; raises where it fails."""
        return self._cluster.ceph(*args).stdout


class MgrCluster:
    """The mgrs of a cluster, as `tasks.mgr.mgr_test_case.MgrCluster` offers them."""

    def __init__(self, cluster: Cluster, mgr_ids: Sequence[str]) -> None:
        self._cluster = cluster
        self.mgr_ids = list(mgr_ids)
        self.mon_manager = MonManager(cluster)
        self.admin_remote = Remote(cluster)

    def set_module_conf(self, module: str, key: str, val: str) -> None:
        """Set a module option."""
        self._cluster.ceph("config", "set", "mgr", f"mgr/{module}/{key}", val)

    def get_active_id(self) -> str:
        """The active mgr; empty where there is none."""
        return str(self._cluster.command("mgr dump")["active_name"])

    def mgr_fail(self, mgr_id: str) -> None:
        """Have the mons replace it."""
        self._cluster.ceph("mgr", "fail", mgr_id)

    def enabled_modules(self) -> List[str]:
        """Modules that are enabled and not always on."""
        return list(self._cluster.command("mgr module ls")["enabled_modules"])

    def enable_module(self, name: str) -> None:
        """Enable it and wait for the mgr that has it."""
        self._cluster.enable_module(name)

    def disable_module(self, name: str) -> None:
        """Disable it and wait for the mgr without it."""
        self._cluster.disable_module(name)

    def wait_all_mgrs(self) -> None:
        """One active mgr, all others standing by; RuntimeError where they do not come."""
        def all_here() -> bool:
            found = self._cluster.command("mgr dump")
            names = {found["active_name"], *(each["name"] for each in found["standbys"])}
            return bool(found["available"]) and names >= set(self.mgr_ids)

        if not wait_until(all_here, 60, 0.5):
            raise RuntimeError("not all mgrs are there")


@contextmanager
def _importable() -> Iterator[None]:
    """`tasks` and `teuthology` of this folder, `tasks.mgr.test_wcache` of qa; gone afterwards."""
    paths = [str(QA), str(HERE)]
    sys.path[:0] = paths
    try:
        yield
    finally:
        del sys.path[: len(paths)]
        for name in [n for n in sys.modules if n.partition(".")[0] in ("tasks", "teuthology")]:
            del sys.modules[name]


def run_unit(
    name: str, cluster: Cluster, mgr_ids: Sequence[str], only: Sequence[str] = ()
) -> Tuple[int, List[str], str]:
    """Run `tasks.mgr.<name>`; returns how many tests ran, which failed, and what was said.

    `only`: "Class.test_name" of each, where not all are meant.
    """
    said = io.StringIO()
    with _importable():
        module: ModuleType = importlib.import_module(f"tasks.mgr.{name}")
        base: Any = importlib.import_module("tasks.mgr.mgr_test_case").MgrTestCase
        base.mgr_cluster = MgrCluster(cluster, mgr_ids)
        loader = unittest.defaultTestLoader
        suite = (
            loader.loadTestsFromNames(only, module) if only else loader.loadTestsFromModule(module)
        )
        result = unittest.TextTestRunner(said, verbosity=2).run(suite)
    failed = [case.id().rpartition(".")[2] for case, _ in (*result.failures, *result.errors)]
    return result.testsRun - len(result.skipped), failed, said.getvalue()


def run_workunit(name: str, cluster: Cluster) -> str:
    """Run `qa/workunits/mgr/<name>`; returns what it printed, raises where it fails."""
    path = os.fspath(QA / "workunits" / "mgr" / name)
    return cluster.run_inside(["bash", path], timeout_s=300).stdout
