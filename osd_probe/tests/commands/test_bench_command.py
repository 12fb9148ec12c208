"""`wcache-probe bench`: a score by reading, or on a blank device, with what it refuses."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from loop_devices import loop_on
from mgr_fakes import builders as make
from sim_drives import DRIVES
from wcache.core.errors import RefusalKind
from wcache.core.figures.latency_table import of_samples
from wcache.core.model import CacheMode, DeviceCache, DriveState, KernelView, Transport
from wcache_probe.arguments import parse
from wcache_probe.commands.bench import (
    PAIRS,
    after_reading,
    after_writing,
    bench_blank,
    of_flushes,
    of_modes,
    of_stalls,
)
from wcache_probe.commands.inspect import Inspected, inspected
from wcache_probe.journal.journal_file import StateFolder
from wcache_probe.linux.host import LinuxDriveHost
from wcache_probe.main import main
from wcache_probe.matrix.scratch import MIB
from wcache_probe.switcher import Switcher
from wcache_sim.drive_schema import parse_drive_file
from wcache_sim.host import SimulatedHost

BACK, THROUGH = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH


@pytest.fixture
def device(tmp_path):
    with loop_on(tmp_path / "blank.img", 24 * MIB) as name:
        yield name


@pytest.fixture
def words(tmp_path, device):
    return ["bench", f"/dev/{device}", "--hostname", "h1", "--osd-data", str(tmp_path / "osds/*"),
            "--state-dir", str(tmp_path / "state"), "--run-dir", str(tmp_path / "run")]


@pytest.fixture
def drive():
    one = SimulatedHost(parse_drive_file(DRIVES), "sim1").look()[0]
    return replace(one, findings=(), refusals=(), uses=(), transport=Transport.SATA)


def content(name):
    with open(f"/dev/{name}", "rb") as file:
        return file.read()


def refused(words, capsys, device, why):
    before = content(device)
    assert main([*words, "--consent"]) == 2
    assert why in capsys.readouterr().err
    assert content(device) == before
    assert Path(f"/sys/block/{device}/queue/write_cache").read_text().strip() == "write back"


# ---- what it does to a device


@pytest.mark.slow
def test_without_consent_it_reads_and_keeps_nothing(words, device, tmp_path, capsys):
    assert main(words) == 0
    out = capsys.readouterr().out
    assert f"{device} on {device} (loop device), device cache write back: score " in out
    assert out.splitlines()[-1] == (
        f"next: wcache-probe bench /dev/{device} --consent, if all data on it may go"
    )
    assert main([*words, "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["format_version"], told["timed"][0]["us"]["n"], told["pairs"]) == (1, 300, 0)
    assert not any(content(device))
    assert not (tmp_path / "state").exists()


@pytest.mark.slow
def test_a_device_in_use_is_read_and_says_so(words, device, capsys):
    with open(f"/dev/{device}", "r+b", buffering=0):
        assert main(words) == 0
    out = capsys.readouterr().out
    assert "SHARED_DRIVE" in out
    assert out.splitlines()[-1].startswith("next: with a blank drive of this model")


def test_what_is_not_blank_is_neither_written_nor_toggled(words, device, capsys):
    with open(f"/dev/{device}", "r+b") as file:
        file.seek(512)
        file.write(b"LABELONE")  # LVM's
    refused(words, capsys, device, "is not blank")


def test_what_somebody_has_claimed_is_refused(words, device, capsys):
    fd = os.open(f"/dev/{device}", os.O_RDONLY | os.O_EXCL)
    try:
        refused(words, capsys, device, "is in use")
    finally:
        os.close(fd)


@pytest.mark.slow
def test_what_somebody_may_write_to_is_refused(words, device, capsys):
    with open(f"/dev/{device}", "r+b", buffering=0):
        refused(words, capsys, device, "not an OSD; the data of others would be overwritten")


@pytest.mark.slow
def test_an_osds_device_is_refused_and_can_still_be_read(words, device, tmp_path, capsys):
    folder = tmp_path / "osds" / "osd7"
    folder.mkdir(parents=True)
    (folder / "whoami").write_text("7\n")
    (folder / "ceph_fsid").write_text("11111111-2222-3333-4444-555555555555\n")
    (folder / "block").symlink_to(f"/dev/{device}")
    refused(words, capsys, device, "belongs to osd.7")
    assert main(words) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "next: ceph wcache try osd.7"


@pytest.mark.slow
def test_with_consent_both_modes_are_measured_and_put_back(words, device, capsys):
    assert main([*words, "--consent", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["pairs"] == PAIRS
    assert [one["mode"] for one in told["timed"]] == ["write back", "write through"]
    assert told["next"].startswith("nothing; the cache of a loop device")
    assert Path(f"/sys/block/{device}/queue/write_cache").read_text().strip() == "write back"


NO_RULE = make.refused("no rule names it", RefusalKind.NOT_PREPARED)


class Unprepared(LinuxDriveHost):
    """A host whose drives may not be toggled."""

    def drive_of(self, device):
        return replace(super().drive_of(device), refusals=NO_RULE)

    def domain(self, domain_id):
        return tuple(
            replace(one, refusals=NO_RULE) for one in super().domain(domain_id)
        )


@pytest.mark.slow
def test_what_may_not_be_toggled_is_measured_as_it_is(words, tmp_path, capsys):
    host = Unprepared(osd_data_globs=())
    state = StateFolder(str(tmp_path / "s"), str(tmp_path / "r"))

    def untouched(*_):
        raise AssertionError("a step was taken")

    switcher = Switcher(host, state.journal, untouched)
    assert bench_blank(parse([*words, "--consent"]), host, switcher, lambda _: None) == 0
    out = capsys.readouterr().out
    assert "measured in the mode it is in: " in out
    assert "no rule names it" in out
    assert "write through" not in out


# ---- reasons and the next step


def test_slow_flushes_and_stalls_take_points():
    assert of_flushes(of_samples([50_000] * 300)) == []
    assert [r.points for r in of_flushes(of_samples([8_000_000] * 300))] == [20]
    assert [r.points for r in of_stalls(of_samples([50_000] * 299 + [200_000_000]))] == [10]
    assert of_stalls(of_samples([50_000_000] * 299 + [200_000_000])) == []
    assert of_flushes(of_samples([])) == []


@pytest.mark.parametrize(("mode", "pairs", "points"), [
    (BACK, [(9e6, 3e6)] * PAIRS, [40]),
    (BACK, [(9e6, 7e6)] * PAIRS, [20]),
    (THROUGH, [(3e6, 9e6)] * PAIRS, [40]),
    (BACK, [(3e6, 9e6)] * PAIRS, []),  # as it is, it is right
    (BACK, [(9e6, 8.9e6)] * PAIRS, []),  # too little to matter
    (BACK, [(9e6, 3e6)] * (PAIRS - 1) + [(3e6, 9e6)], []),
    (BACK, [(9e6, 3e6)] * (PAIRS - 1), []),
    (None, [(9e6, 3e6)] * PAIRS, []),
])
def test_a_mode_costs_points_only_where_all_pairs_agree(mode, pairs, points):
    assert [reason.points for reason in of_modes(mode, pairs)] == points


def test_each_end_names_one_next_step(drive):
    one = inspected(drive)
    off = Inspected(replace(drive, state=replace(
        drive.state, device_cache=DeviceCache.WRITE_THROUGH)), ())
    none = Inspected(replace(drive, state=replace(
        drive.state, device_cache=DeviceCache.NONE)), ())
    assert after_writing(one, "sdb", "", PAIRS, True).startswith(
        "wcache-probe matrix --scratch /dev/sdb")
    assert after_writing(one, "sdb", "", PAIRS, False) == (
        f"nothing; {PAIRS} pairs show no difference that would pay")
    assert after_writing(off, "sdb", "its cache is off", 0, False).endswith("--consent-turn-on")
    assert after_writing(one, "sdb", "a volume", 0, False) == "nothing on this host; a volume"
    assert after_writing(none, "sdb", "", 0, False).startswith("nothing; this drive has no")
    assert after_reading(none, "sdb").startswith("nothing; this drive has no")
    unsafe = Inspected(replace(drive, state=DriveState(
        DeviceCache.WRITE_BACK, KernelView.WRITE_THROUGH)), ())
    for step in (after_reading(unsafe, "sdb"), after_writing(unsafe, "sdb", "", 0, False)):
        assert step.startswith(f"{drive.dev_name}: acknowledged data is lost")
