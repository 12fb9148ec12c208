"""The probe beside a cluster of vstart.sh, of real drives or two simulated ones, by one script."""

import json
import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest
from wcache.deployment.places import caps_of, entity_of
from wcache_sim.drive_schema import load_drive_file

QA = Path(__file__).resolve().parents[1]
SCRIPT = QA / "workunits/mgr/wcache_vstart.sh"
# A stand-in for each program: it keeps its arguments, and those of `ceph` are answered.
PROGRAM = """#!/usr/bin/env python3
import json, os, sys
with open(os.environ["ASKED"], "a") as asked:
    asked.write(json.dumps([os.path.basename(os.path.dirname(sys.argv[0])), *sys.argv[1:]]) + "\\n")
print("[client]")
"""
DEVICE = next((path for path in Path("/dev").glob("*") if path.is_block_device()), None)


@pytest.fixture
def source(tmp_path):
    """A source tree of Ceph in a folder with an odd name, with a build folder of one OSD."""
    found = tmp_path / "it's $(touch broken) a \"tree\""
    script = found / "qa/workunits/mgr" / SCRIPT.name
    for path in (found / "build/bin/ceph", found / "build/bin/wcache-probe",
                 script.parent / "wcache_sim/__main__.py"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PROGRAM)
        path.chmod(0o755)
    shutil.copy(SCRIPT, script)
    (found / "build/dev/osd0").mkdir(parents=True)
    (found / "build/CMakeCache.txt").touch()
    return found


def typed(source, folder="build"):
    asked = source / "asked"
    done = subprocess.run(
        ["../qa/workunits/mgr/wcache_vstart.sh"], cwd=source / folder, capture_output=True,
        env={"PATH": os.environ["PATH"], "ASKED": str(asked)}, text=True, timeout=60, check=False,
    )
    assert list(source.rglob("broken")) == []
    lines = asked.read_text().splitlines() if asked.exists() else []
    return done, [json.loads(line) for line in lines]


def common(build):
    home = f"{build}/out/wcache"
    return [
        "--hostname", platform.node(), "--conf", f"{build}/ceph.conf", "--keyring",
        f"{home}/keyring", "--state-dir", home, "--run-dir", f"{home}/run",
    ]


@pytest.mark.slow
def test_osds_in_files_get_simulated_drives_and_the_key_that_the_module_would_make(source):
    (source / "build/dev/osd0/block").touch()
    done, asked = typed(source)
    key, throwaway, probe = asked
    build, host = source / "build", platform.node()
    caps = [word for pair in caps_of(host).items() for word in pair]
    assert key == ["bin", "auth", "get-or-create", entity_of(host), *caps]
    assert throwaway[1:] == ["config", "set", "mgr", "mgr/wcache/throwaway_cluster", "true"]
    simulation = f"{source}/qa/workunits/mgr/wcache_sim"
    assert probe == ["mgr", f"{simulation}/two_drives.toml", "run", *common(build)]
    keyring = build / "out/wcache/keyring"
    assert (keyring.read_text(), keyring.stat().st_mode & 0o777) == ("[client]\n", 0o600)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.skipif(DEVICE is None, reason="there is no block device here")
def test_osds_on_devices_get_a_probe_of_the_drives_that_are_there(source):
    (source / "build/dev/osd0/block").symlink_to(DEVICE)
    _, asked = typed(source)
    build = source / "build"
    assert asked[-1] == ["bin", "run", "--osd-data", f"{build}/dev/osd*", *common(build)]


def test_elsewhere_than_in_a_build_folder_nothing_is_done(source):
    (source / "other").mkdir()
    done, asked = typed(source, "other")
    assert (done.returncode, asked) == (1, [])
    assert done.stderr == f"this is no build folder of Ceph's: {source / 'other'}\n"


def test_the_simulated_drives_are_two():
    drives = load_drive_file(str(QA / "wcache_sim/two_drives.toml")).drives
    assert [drive.name for drive in drives] == ["disk", "flash"]
