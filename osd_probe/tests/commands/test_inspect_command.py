"""`wcache-probe inspect`: scores with reasons, by reading alone."""

import json
from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from sim_drives import DRIVES
from wcache.core.model import (
    CachePage,
    Cure,
    DeviceCache,
    Finding,
    FindingCode,
    KernelView,
    Layer,
    LayerKind,
    Severity,
    Transport,
)
from wcache_probe.commands.inspect import inspect, inspected, look, next_step
from wcache_sim.drive_schema import parse_drive_file
from wcache_sim.host import SimulatedHost
from wcache_sim.probe import main


@pytest.fixture
def drive():
    return SimulatedHost(parse_drive_file(DRIVES), "sim1").look()[0]


def unsafe(drive):
    state = replace(
        drive.state, device_cache=DeviceCache.WRITE_BACK, kernel_view=KernelView.WRITE_THROUGH
    )
    return replace(drive, state=state)


def test_a_drive_that_loses_data_has_no_points_and_comes_first(drive):
    bad, good = inspected(unsafe(drive)), inspected(replace(drive, findings=()))
    assert (bad.score, good.score) == (0, 100)
    assert "a power cut loses data" in bad.reasons[0].text
    assert next_step([good, bad], ()).startswith(f"{drive.dev_name}: acknowledged data is lost")


def test_each_point_that_is_taken_has_its_reason(drive):
    warned = replace(drive, refusals=make.refused("it is shared"), findings=(
        Finding(FindingCode.NOT_PINNED, Severity.WARNING, "sim1 sda", "no pin"),
        Finding(FindingCode.NO_VOLATILE_CACHE, Severity.INFO, "sim1 sda", "of no matter"),
    ))
    one = inspected(warned)
    assert one.score == 100 - sum(reason.points for reason in one.reasons) == 70
    assert [reason.points for reason in one.reasons] == [20, 10]


@pytest.mark.parametrize(("cure", "said"), [
    (Cure.GENERAL, "wcache-probe prepare --dry-run"), (Cure.BOOT_ONCE, "boot this host once"),
])
def test_a_host_whose_drive_no_rule_names_is_prepared_next(drive, capsys, cure, said):
    item = Finding(FindingCode.NOT_PREPARED, Severity.INFO, drive.dev_name, "no rule", cure)
    inspect(OneDrive(replace(drive, findings=(item,)), drive.transport), "sim1", "text")
    *_, told, following = capsys.readouterr().out.splitlines()
    assert told == f"info: WCACHE_NOT_PREPARED: {drive.dev_name}: no rule"
    assert following == f"next: {said}"


def test_a_drive_with_its_cache_on_is_timed_next(drive):
    assert next_step([inspected(drive)], []) == f"wcache-probe time /dev/{drive.dev_name}"
    assert next_step([], []) == "wcache-probe look"


def in_state(drive, cache, view):
    return replace(drive, state=replace(drive.state, device_cache=cache, kernel_view=view))


def test_what_is_next_cures_the_reason_that_stands_above_it(drive):
    off = in_state(drive, DeviceCache.WRITE_THROUGH, KernelView.WRITE_BACK)
    layer = Layer("dm-0", LayerKind.LVM, KernelView.WRITE_THROUGH)
    wakes = replace(off, state=replace(off.state, layers=(layer,), page=CachePage()))
    assert "`ceph wcache drive reload`" in next_step([inspected(off), inspected(wakes)], [])
    assert next_step([inspected(off)], []) == "nothing; no drive here has its volatile cache on"
    unknown = in_state(drive, DeviceCache.UNKNOWN, KernelView.WRITE_THROUGH)
    said = next_step([inspected(off), inspected(unknown)], [])
    assert said.startswith(f"wcache-probe time /dev/{drive.dev_name}")
    assert "not known" in said


class OneDrive:
    """A host with a drive of which this process knows no pin."""

    def __init__(self, drive, transport):
        state = replace(drive.state, pinned=None)
        self.drive = replace(drive, transport=transport, state=state)

    def look(self):
        return (self.drive,)

    def host_findings(self):
        return ()


@pytest.mark.parametrize(("transport", "said"), [(Transport.SATA, True), (Transport.NVME, False)])
def test_whom_to_ask_of_a_pin_that_only_the_running_probe_knows(drive, transport, said, capsys):
    look(OneDrive(drive, transport), "sim1", "text")
    text = capsys.readouterr().out
    assert ("ask the mgr: ceph wcache drive ls host:sim1" in text) is said
    assert ("unknown" in text) is said


def test_the_command_answers_as_text_and_as_json(tmp_path, capsys):
    (tmp_path / "drives.toml").write_text(DRIVES)
    words = [str(tmp_path / "drives.toml"), "inspect", "--hostname", "sim1",
             "--state-dir", str(tmp_path / "s"), "--run-dir", str(tmp_path / "r")]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert text.startswith("SCORE  DRIVE")
    assert text.splitlines()[-1].startswith("next: ")
    assert main([*words, "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["format_version"], len(told["drives"])) == (1, 5)
    assert not (tmp_path / "s").exists()  # it keeps nothing
