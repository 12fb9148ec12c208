"""The file for node_exporter's textfile collector."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from probe_process import ProbeProcess
from process_bench import mgr_of
from sim_drives import DRIVES
from wcache.core.protocol import ReportRequest
from wcache_probe.textfile import NAME, Textfile, metrics_text
from wcache_sim.drive_schema import parse_drive_file
from wcache_sim.host import SimulatedHost


@pytest.fixture
def drives(tmp_path):
    return SimulatedHost(parse_drive_file(DRIVES), tmp_path / "drives.json").look()


@pytest.mark.slow
def test_a_running_probe_writes_the_file_at_each_report(tmp_path: Path):
    probe = ProbeProcess(tmp_path, DRIVES)
    folder = tmp_path / "textfile"
    folder.mkdir()
    probe.words, words = lambda command: [*words(command), "--textfile", str(folder)], probe.words
    mgr = mgr_of(probe)
    mgr.say(ReportRequest(), "t1")
    probe.start()
    try:
        mgr.wait_for(lambda: (folder / NAME).exists())
    finally:
        probe.kill()
    assert "wcache_probe_drives 5\n" in (folder / NAME).read_text()
    assert [path.name for path in folder.iterdir()] == [NAME]
    assert (folder / NAME).stat().st_mode & 0o777 == 0o644


def test_the_file_says_what_each_drives_cache_is(drives):
    lines = metrics_text(drives).splitlines()
    off = drives[-1].dev_name
    assert f'wcache_probe_drive_cache_on{{device="{drives[0].dev_name}"}} 1' in lines
    assert f'wcache_probe_drive_cache_on{{device="{off}"}} 0' in lines
    assert f'wcache_probe_drive_unsafe{{device="{off}"}} 0' in lines
    info = next(x for x in lines if x.startswith(f'wcache_probe_drive_info{{device="{off}"'))
    assert 'device_cache="write through"' in info


def test_a_folder_that_is_not_there_is_said_once(tmp_path, drives):
    said = []
    file = Textfile(str(tmp_path / "none"), said.append)
    file.write(drives)
    file.write(drives)
    assert said == [
        f"wcache-probe: cannot write {tmp_path}/none/{NAME} (No such file or directory)"
    ]
    os.mkdir(tmp_path / "none")
    file.write(drives)
    assert (tmp_path / "none" / NAME).exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_below_one_of_another_user_is_refused_and_his_link_not_followed(tmp_path, drives):
    victim = tmp_path / "shadow"
    victim.write_text("root:x")
    folder = tmp_path / "prometheus" / "node-exporter"
    folder.mkdir(parents=True)
    for name in (NAME, f".{NAME}.new", f"{NAME}.{os.getpid()}"):
        (folder / name).symlink_to(victim)
    os.chown(tmp_path / "prometheus", 65534, 65534)
    said = []
    Textfile(str(folder), said.append).write(drives)
    assert said == [
        f"wcache-probe: cannot write {folder}/{NAME} ({tmp_path}/prometheus belongs to another "
        "user, of id 65534): name a folder that is root's alone"
    ]
    assert victim.read_text() == "root:x"
