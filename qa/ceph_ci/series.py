"""A series of patches that puts wcache into Ceph's source, by `git format-patch`.

What module and probe share goes to src/python-common/ceph/wcache, so both import it from there:
`wcache.core` becomes `ceph.wcache`.  Files that only Ceph's tree needs are in `tree/` here; lines
of Ceph's own files that change are in `edits.py`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Sequence, Tuple

from harness import Cluster

from .edits import Edit, edits_of
from .health_page import health_checks
from .module_page import module_page

PROJECT = Cluster.project
TREE = Path(__file__).parent / "tree"
CORE, MODULE, PROBE = "src/python-common/ceph/wcache", "src/pybind/mgr/wcache", "src/wcache-probe"
MODULE_TESTS, PROBE_TESTS = f"{MODULE}/tests", f"{PROBE}/tests"
SIMULATION = "qa/workunits/mgr/wcache_sim"
# Tests of what only the project has: its documentation, its packages and the program `wcache`.
LEFT_OUT = (
    "test_add_a_knob.py", "test_hostile_names.py", "test_probe_package.py", "test_sim_probe.py",
    "test_own_upgrade.py",
)

# What somebody reads in one go; a patch with more in it is cut into parts.
CHARS_MAX = 100_000

_ABSOLUTE = re.compile(r"\bwcache\.core\b")
_RELATIVE = re.compile(r"^(\s*from )\.+core((?:\.\w+)*) import", re.M)
# As Ceph's other modules do it: unit tests get a stand-in for the mgr's own `ceph_module`.
_FOR_TESTS = """
import os

if 'UNITTEST' in os.environ:
    import tests  # noqa: F401

try:"""
_OF_QA = re.compile(r'Path\(__file__\)(?:\.resolve\(\))?\.parents\[\d+\] / "qa" / ')

Files = Dict[str, str]


@dataclass(frozen=True)
class Patch:
    """One commit: what it says, the files it brings, the lines it changes."""

    subject: str
    body: str
    files: Files
    edits: Sequence[Edit] = ()


def moved(text: str) -> str:
    """A file of ours as it stands in Ceph's tree: core is imported from python-common."""
    return _ABSOLUTE.sub("ceph.wcache", _RELATIVE.sub(r"\1ceph.wcache\2 import", text))


def _files(
    there: str, here: Path, pattern: str = "**/*", change: Callable[[str], str] = moved
) -> Iterator[Tuple[str, str]]:
    for path in sorted(here.glob(pattern)):
        if path.is_file() and "__pycache__" not in path.parts and path.name not in LEFT_OUT:
            name = f"{there}/{path.relative_to(here)}"
            text = path.read_text(encoding="utf-8")
            yield name, _beside(name, text, change)


def _beside(name: str, text: str, change: Callable[[str], str]) -> str:
    """Tests find beside them what they read of qa/: drive models."""
    for tests in (MODULE_TESTS, PROBE_TESTS):
        if name.startswith(f"{tests}/"):
            above = name[len(tests) :].count("/") - 1
            text = _OF_QA.sub(f"Path(__file__).parents[{above}] / ", text)
    return change(text)


def _same(text: str) -> str:
    return text


def _core() -> Iterator[Patch]:
    """The shared part, a patch for each of its folders, in the order of their imports."""
    here = PROJECT / "mgr_module/wcache/core"
    body = "Standard library only, no I/O, no clock: mgr/wcache and wcache-probe both import it."
    yield Patch(
        "python-common: add ceph.wcache, its words", body, dict(_files(CORE, here, "*.py"))
    )
    order = (
        "figures", "options", "drive", "setting", "experiment", "verdict", "change",
        "automation", "fleet",
    )
    for folder in order:
        files = dict(_files(f"{CORE}/{folder}", here / folder, "**/*.py"))
        yield Patch(f"python-common: ceph.wcache: {folder}", about(here / folder), files)


def about(folder: Path) -> str:
    """What a folder says of itself."""
    text = (folder / "__init__.py").read_text(encoding="utf-8")
    return text.strip().strip('"').strip()


def _module() -> Iterator[Patch]:
    here = PROJECT / "mgr_module/wcache"
    for folder in (
        "deployment", "knobs", "analysis", "ceph", "engine", "services", "commands", "web",
    ):
        files = dict(_files(f"{MODULE}/{folder}", here / folder))
        yield Patch(f"mgr/wcache: {folder}", about(here / folder), files)
    files = dict(_files(MODULE, here, "*.py"))
    start = f"{MODULE}/__init__.py"
    files[start] = files[start].replace("\ntry:", _FOR_TESTS)
    yield Patch(
        "mgr/wcache: the module", "What wires the parts together, and its options.", files,
        edits_of("mgr"),
    )
    worlds = f"{MODULE_TESTS}/worlds"
    shared = dict(_files(worlds, PROJECT / "mgr_module/tests/worlds"))
    for folder in ("mgr_fakes", "bench_decision"):
        shared.update(_files(f"{worlds}/{folder}", PROJECT / "qa" / folder, "**/*.*"))
    del shared[f"{worlds}/bench_decision/__main__.py"]  # the project's program, not a test's part
    models = PROJECT / "qa/drive_models"
    shared.update(_files(f"{MODULE_TESTS}/drive_models", models, "lab-dear-flush.toml"))
    shared[f"{worlds}/examples.py"] = (PROJECT / "qa/examples.py").read_text()
    shared.update(_files(MODULE_TESTS, TREE / MODULE_TESTS, "*.py", _same))
    yield Patch(
        "mgr/wcache: what tests share", "Fakes of all that is outside of the module.", shared
    )
    tests = PROJECT / "mgr_module/tests"
    for folder in (
        "core", "deployment", "knobs", "analysis", "ceph", "engine", "services", "commands", "web",
        "end_to_end",
    ):
        yield Patch(
            f"mgr/wcache: tests of {folder}",
            "Those that need hypothesis skip themselves where it is missing.",
            dict(_files(f"{MODULE_TESTS}/{folder}", tests / folder)),
        )


def _probe() -> Iterator[Patch]:
    """The probe, a patch for each of its folders; the program itself comes last."""
    here = PROJECT / "osd_probe/wcache_probe"
    inside = f"{PROBE}/wcache_probe"
    switching = here / "switching"
    files = dict(_files(f"{inside}/switching", switching, "**/*.py"))
    yield Patch("wcache-probe: switching", about(switching), files)
    linux = here / "linux"
    for folder in ("block", "vendor", "transports", "persistence"):
        files = dict(_files(f"{inside}/linux/{folder}", linux / folder, "**/*.py"))
        yield Patch(f"wcache-probe: linux/{folder}", about(linux / folder), files)
    yield Patch(
        "wcache-probe: linux", about(linux), dict(_files(f"{inside}/linux", linux, "*.py"))
    )
    for folder in ("journal", "restoring", "matrix", "witness", "commands"):
        files = dict(_files(f"{inside}/{folder}", here / folder, "**/*.py"))
        yield Patch(f"wcache-probe: {folder}", about(here / folder), files)
    files = dict(_files(inside, here, "*.py"))
    files.update(_files(PROBE, TREE / PROBE, "*", _same))
    unit = (PROJECT / "templates/wcache-probe.service").read_text()
    files[f"{PROBE}/wcache-probe.service"] = unit.replace("/usr/bin/", "/usr/sbin/")
    yield Patch(
        "wcache-probe: the program",
        "It reads and toggles the write caches of OSD drives under leases of mgr/wcache, through\n"
        "librados, with a key that is good for two mgr commands under its own host name.",
        files, edits_of("probe"),
    )
    simulation = PROJECT / "qa/wcache_sim"
    files = dict(_files(SIMULATION, simulation, "*.*"))
    yield Patch("qa: simulated drives for wcache-probe", about(simulation), files)
    tests = PROJECT / "osd_probe/tests"
    shared = dict(_files(PROBE_TESTS, tests, "*.py"))
    shared.update(_files(f"{PROBE_TESTS}/worlds", tests / "worlds"))
    shared[f"{PROBE_TESTS}/worlds/examples.py"] = (PROJECT / "qa/examples.py").read_text()
    yield Patch("wcache-probe: what tests share", "Trees that look like /sys, /dev, /proc.", shared)
    for folder in (
        "agent", "commands", "journal", "linux", "matrix", "prove", "restoring", "sim", "switching",
        "witness",
    ):
        here = PROJECT / "qa/tests/sim" if folder == "sim" else tests / folder
        files = dict(_files(f"{PROBE_TESTS}/{folder}", here))
        yield Patch(
            f"wcache-probe: tests of {folder}", "tox in src/wcache-probe runs them.", files
        )


def patches() -> List[Patch]:
    """The series, in order."""
    units = "qa/suites/rados/mgr/tasks/4-units/wcache.yaml"
    qa = {
        name: (PROJECT / name).read_text()
        for name in (
            units, "qa/tasks/mgr/test_wcache.py", "qa/workunits/mgr/test_wcache.sh",
            "qa/workunits/mgr/wcache_vstart.sh",
        )
    }
    found = [
        *_core(), *_module(), *_probe(),
        Patch("ceph.spec: package wcache and its probe", "Beside node-proxy.", {},
              edits_of("packaging")),
        Patch("qa: test wcache in rados/mgr", "The main job on simulated drives, a failover, "
              "freeze, self-test;\na workunit that asks every command; and a probe in vstart.",
              qa, edits_of("qa")),
        Patch("doc: add mgr/wcache", "A page, a section for each health check, and a release note.",
              {"doc/mgr/wcache.rst": module_page()},
              [*edits_of("doc"), *health_checks()]),
    ]
    return [part for patch in found for part in _parts(patch)]


def _parts(patch: Patch) -> List[Patch]:
    """The patch, or parts of it that are short enough to read; the last one has the edits."""
    parts: List[Files] = [{}]
    chars = 0
    for name, text in patch.files.items():
        chars += len(text) + text.count("\n")
        if parts[-1] and chars > CHARS_MAX:
            parts.append({})
            chars = len(text) + text.count("\n")
        parts[-1][name] = text
    if len(parts) == 1:
        return [patch]
    numbered = [
        Patch(f"{patch.subject} ({number} of {len(parts)})", patch.body, files)
        for number, files in enumerate(parts, 1)
    ]
    return [*numbered[:-1], replace(numbered[-1], edits=patch.edits)]


class Repository:
    """A git repository of Ceph's source, without Ceph's history."""

    def __init__(self, folder: Path, source: Path) -> None:
        self.folder = folder
        shutil.copytree(source, folder, symlinks=True)
        self.git("init", "-q", "-b", "main")
        self._commit("Ceph's source")
        self.git("tag", "base")

    def git(self, *words: str) -> str:
        """Run git there; returns what it prints."""
        identity = ("-c", "user.name=wcache", "-c", "user.email=wcache@localhost")
        done = subprocess.run(
            ["git", *identity, "-c", "core.autocrlf=false", "-c", "gc.auto=0", *words],
            cwd=self.folder, capture_output=True, text=True, check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"git {words[0]}: {done.stderr or done.stdout}")
        return done.stdout

    def _commit(self, message: str) -> None:
        self.git("add", "--all", "--force")
        self.git("commit", "-q", "--signoff", "--message", message)

    def apply(self, patch: Patch) -> None:
        """Make a commit of it."""
        for name, text in patch.files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            if name.endswith(".sh"):
                path.chmod(0o755)
        for edit in patch.edits:
            path = self.folder / edit.path
            path.write_text(edit.made(path.read_text(encoding="utf-8")), encoding="utf-8")
        self._commit(f"{patch.subject}\n\n{patch.body}".strip())


def write_series(source: Path, work: Path, out: Path) -> List[Path]:
    """Write the patches against `source` to `out`; returns their files, in order."""
    repository = Repository(work, source)
    for patch in patches():
        repository.apply(patch)
    shutil.rmtree(out, ignore_errors=True)
    repository.git("format-patch", "--quiet", "--output-directory", str(out), "base")
    return sorted(out.glob("*.patch"))
