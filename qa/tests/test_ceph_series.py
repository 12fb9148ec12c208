"""The series of patches for Ceph has every file, and the module decides as it stands there."""

import re
import subprocess
import sys
from pathlib import PurePosixPath

import pytest
from ceph_ci.health_page import health_checks
from ceph_ci.series import (
    CORE,
    LEFT_OUT,
    MODULE,
    MODULE_TESTS,
    PROBE,
    PROBE_TESTS,
    PROJECT,
    SIMULATION,
    patches,
)

CHARS_MAX = 100_000  # what somebody reads in one go
HERE = {
    CORE: "mgr_module/wcache/core", MODULE: "mgr_module/wcache",
    MODULE_TESTS: "mgr_module/tests", PROBE_TESTS: "osd_probe/tests",
    f"{PROBE}/wcache_probe": "osd_probe/wcache_probe", SIMULATION: "qa/wcache_sim",
    f"{PROBE_TESTS}/sim": "qa/tests/sim",
}
# A mgr of vstart.sh has both folders in its path; what it starts has them only if it says so.
ASKS = """
import queue, sys
from ceph.wcache.model import DriveModel, LoadPoint, Role, Transport
from ceph.wcache.record import RECORD_FORMAT, RECORD_VERSION, ExperimentSetup, Record
from wcache.engine.evidence.analysis_child import AnalysisChild

answers = queue.Queue()
child = AnalysisChild(python=lambda: sys.executable, seconds_max=lambda: 30.0)
setup = ExperimentSetup(
    "f", "20", "h", 0, "hdd", Role.BLOCK, LoadPoint.OSD_TRAFFIC, "d", "d",
    DriveModel("V", "M", "1"), Transport.SCSI, 1, 0.0, 0.0, 1, 4,
)
record = Record(RECORD_FORMAT, RECORD_VERSION, "r", "c", setup, (), 0.0, 1.0, "stopped")
child.start(record, lambda result, error: answers.put((result, error)))
result, error = answers.get(timeout=60)
child.close()
print(error or result.result.verdict.value)
"""


@pytest.fixture(scope="module")
def files():
    found = {}
    for patch in patches():
        assert patch.files or patch.edits, patch.subject
        assert patch.body, patch.subject
        assert not set(patch.files) & set(found), patch.subject
        size = sum(map(len, patch.files.values()))
        assert size < CHARS_MAX or len(patch.files) == 1, patch.subject
        found.update(patch.files)
    return found


@pytest.mark.slow
def test_every_file_of_ours_is_in_the_series(files):
    missing = []
    for there, here in HERE.items():
        for path in sorted((PROJECT / here).rglob("*.*")):
            if path.is_dir() or "__pycache__" in path.parts:
                continue
            name = path.relative_to(PROJECT / here).as_posix()
            of_core = there == MODULE and name.startswith("core/")
            if f"{there}/{name}" not in files and not of_core and path.name not in LEFT_OUT:
                missing.append(f"{here}/{name}")
    assert missing == []


def test_tests_read_nothing_that_only_the_project_has(files):
    """Python modules of the project's, and files above the folder of the tests."""
    for name, text in files.items():
        for tests in (MODULE_TESTS, PROBE_TESTS):
            if not name.startswith(f"{tests}/") or not name.endswith(".py"):
                continue
            assert not re.search(r"^(from|import) (harness|wcache_cli|zipapps)\b", text, re.M), name
            inside = len(PurePosixPath(name).relative_to(tests).parts)
            for found in re.finditer(
                r'Path\(__file__\)(?:\.resolve\(\))?\.parents\[(\d+)\](?: / "(\w+)")?', text
            ):
                assert int(found[1]) < inside, f"{name}: {found[0]}"
                folder = PurePosixPath(name).parents[int(found[1])] / (found[2] or "")
                assert any(each.startswith(f"{folder}/") for each in files), name


def test_health_checks_name_no_page_that_cephs_documentation_lacks():
    assert [line for edit in health_checks() for line in edit.becomes if ".md" in line] == []


@pytest.mark.slow
def test_the_analysis_child_finds_what_is_in_python_common(files, tmp_path):
    for name, text in files.items():
        if name.startswith((CORE, MODULE)) and not name.startswith(MODULE_TESTS):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
    (tmp_path / CORE).with_name("__init__.py").touch()
    path = f"{tmp_path}/src/pybind/mgr:{tmp_path}/src/python-common"
    done = subprocess.run(
        [sys.executable, "-c", ASKS], env={"PATH": "/usr/bin:/bin", "PYTHONPATH": path},
        capture_output=True, text=True, timeout=120, check=False,
    )
    assert (done.stdout, done.stderr) == ("insufficient data\n", "")
