"""`wcache-probe prove --in-place`: on the OSD's own drive, with nothing written and no reset."""

import time
from dataclasses import replace

import pytest
from fake_mgr import FolderMgr
from probe_process import ProbeProcess
from prove_stage import FakeScratch, NotPrepared, Stage, refusal
from sim_drives import DRIVES
from translations import Translation, host_with, proof
from wcache.core.drive.proofs import proofs_for
from wcache.core.errors import RefusedError
from wcache.core.host_report import HostReport
from wcache.core.model import FindingCode
from wcache_probe import prove as command
from wcache_probe.arguments import parse
from wcache_probe.evidence import EvidenceFolder
from wcache_probe.journal.journal_file import StateFolder
from wcache_probe.main import main
from wcache_probe.prove import InPlace, Prover
from wcache_probe.switcher import Switcher


def in_place(**changes):
    return replace(proof(**changes), write_back_us=(), write_through_us=())


def prove(stage, trial=command.trial_on):
    """What a trial in place shows of the drive of an OSD."""
    place = InPlace(stage.drive)
    mode = command.refuse(stage.drive, place, True)
    found = command.run(stage.host, Switcher(stage.host, stage.state.journal), place, mode, trial)
    return command.proof_of(found, stage.drive, "h2", timed=False)


def test_all_but_a_swallowed_flush_is_compared_under_the_osd_and_the_prior_mode_is_back(
    fake_host, tmp_path
):
    stage = Stage(fake_host, tmp_path, Translation(), osd=True)
    assert stage.drive.uses
    shown = prove(stage)
    assert shown.in_place
    assert set(stage.translation.changes) == {True, False}
    assert stage.translation.drive.enabled
    assert stage.journal() == {}


@pytest.mark.parametrize(
    ("lie", "said"),
    [({"cached_page": True}, "the mode page says write back"),
     ({"read_only": True}, "IDENTIFY DEVICE says write back"),
     ({"returns": True}, "after a rescan")],
)
def test_a_translation_that_lies_is_found_under_the_osd_too(fake_host, tmp_path, lie, said):
    stage = Stage(fake_host, tmp_path, Translation(**lie), osd=True)

    def trial(device, switch, _place, mode):
        assert stage.journal(), "journalled before anything is touched"
        return Prover(device, switch, None, stage.translation.rescan).run(mode)

    shown = prove(stage, trial)
    assert not shown.in_place
    assert any(said in line for line in shown.disagreed)


@pytest.mark.parametrize(("enabled", "said"), [
    (False, "is not turned on under an OSD"), (True, "not in the boot rule"),
], ids=["off", "not pinned by the next boot"])
def test_a_drive_that_could_be_left_worse_is_not_tried_in_place(
    fake_host, tmp_path, enabled, said
):
    stage = Stage(fake_host, tmp_path, Translation(enabled=enabled), osd=True)
    stage.boot_pins = NotPrepared if enabled else stage.boot_pins
    with pytest.raises(RefusedError, match=said):
        prove(stage)
    assert stage.translation.changes == []
    assert stage.journal() == {}


def test_the_drive_of_an_osd_is_not_overwritten(fake_host, tmp_path):
    stage = Stage(fake_host, tmp_path, Translation(), osd=True)
    with pytest.raises(RefusedError, match=r"serves osd\.1"):
        command.refuse(stage.drive, FakeScratch(stage.drive), True)


def test_whoever_names_the_drive_of_an_osd_is_told_of_the_trial_in_place(
    fake_host, tmp_path, monkeypatch
):
    stage = Stage(fake_host, tmp_path, Translation(), osd=True)
    monkeypatch.setattr(command, "HostFiles", lambda: fake_host.files)
    options = parse(["prove", "--consent", str(fake_host.root / "dev/sda")])
    with pytest.raises(RefusedError, match=r"belongs to osd\.1") as refused:
        command.prove(options, stage.host, Switcher(stage.host, stage.state.journal), print)
    assert "--in-place" in refused.value.line()
    assert stage.translation.changes == []


def test_what_the_probe_heard_of_a_freeze_holds_while_it_is_stopped(tmp_path, capsys):
    state = StateFolder(str(tmp_path / "state"), str(tmp_path / "run"))
    words = ["prove", "--in-place", "--consent", "--state-dir", state.path,
             "--run-dir", str(tmp_path / "run"), "/dev/none"]
    state.note_frozen(True)
    assert main(words) == 2
    assert "frozen" in capsys.readouterr().err
    state.note_frozen(False)
    state.note_frozen(False)
    assert main(words) == 2
    assert "is no block device" in capsys.readouterr().err


@pytest.mark.slow
def test_the_probe_keeps_what_its_mgr_says_of_a_freeze(tmp_path):
    probe = ProbeProcess(tmp_path, DRIVES)
    mgr = FolderMgr(probe.mgr_folder)
    try:
        probe.start()
        for frozen in (True, False):
            mgr.say(frozen=frozen)
            deadline = time.monotonic() + 60.0
            while (probe.state / "frozen").exists() is not frozen:
                assert time.monotonic() < deadline, probe.log.read_text()
                time.sleep(0.02)
    finally:
        probe.kill()


# ---- what it opens


def test_it_opens_a_drive_whose_cache_is_on_and_never_turns_one_on_that_is_off(fake_host):
    translation = Translation()
    host = host_with(fake_host, translation, [in_place()])
    (drive,) = host.look()
    assert FindingCode.FLUSH_UNPROVEN in [finding.code for finding in drive.findings]
    assert refusal(host) == ""
    translation.drive.enabled = translation.page_copy = False
    assert "stays off" in refusal(host)


@pytest.mark.parametrize(
    ("others", "said"), [(proof(), ""), (proof(disagreed=("to write through: no",)), "not hold")]
)
def test_a_trial_of_a_blank_drive_says_more_whoever_made_it(fake_host, others, said):
    host = host_with(fake_host, Translation(enabled=False), [in_place(), others])
    assert said in refusal(host)
    assert bool(said) is bool(refusal(host))


@pytest.mark.parametrize("first", [proof(), proof(disagreed=("the flush is swallowed",))])
def test_it_replaces_nothing_that_a_blank_drive_has_shown(tmp_path, first):
    folder = EvidenceFolder(str(tmp_path))
    folder.put_proof(first)
    folder.put_proof(in_place())
    assert folder.own_proofs() == (first,)
    worse = in_place(disagreed=("the mode page says write back",))
    folder.put_proof(worse)
    assert folder.own_proofs() == (worse,)


def test_it_counts_on_no_other_host_however_many_have_it(fake_host):
    (drive,) = host_with(fake_host, Translation()).look()
    reports = [
        HostReport(f"h{n}", "1", (drive,), proofs=(in_place(),))
        for n in range(4)
    ]
    assert proofs_for("h0", reports) == ()
