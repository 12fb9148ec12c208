"""`wcache-probe prove`: a translation is believed where all sides say the same, always."""

import tempfile
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mgr_fakes import builders as make
from prove_stage import (
    HONEST,
    FakeScratch,
    NotPrepared,
    Stage,
    refusal,
)
from translations import BEHIND, MODEL, Translation, host_with, proof
from wcache.core.drive.journal import EntryKind
from wcache.core.errors import RefusedError
from wcache.core.model import CacheMode, Transport
from wcache_probe import prove as command
from wcache_probe.linux.block.sysfs import by_name
from wcache_probe.linux.host import LinuxDriveHost
from wcache_probe.linux.transports.classify import Switches
from wcache_probe.linux.transports.sata import SataHbaSwitch
from wcache_probe.prove import FlushTimes, Found, Prover
from wcache_probe.switcher import Switcher

BACK, THROUGH = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH
SWALLOWED = {BACK: FlushTimes(60.0, 50.0, 40.0), THROUGH: FlushTimes(8000.0, 50.0, 40.0)}
CAPACITORS = {BACK: FlushTimes(40.0, 30.0, 20.0), THROUGH: FlushTimes(45.0, 20.0, 20.0)}


def tried(fake_host, translation, times=None, before=BACK):
    """What a trial finds; the drive is pinned."""
    fake_host.scsi_disk("sda", "8:0", rotational=1, **BEHIND)
    device = by_name(fake_host.files, "sda")
    switch = SataHbaSwitch(translation.port(), set())
    switch.pin(device)

    def measure():
        return (times or HONEST)[BACK if translation.drive.enabled else THROUGH]

    return Prover(device, switch, measure, translation.rescan).run(before)


@pytest.mark.parametrize("enabled", [True, False])
def test_an_honest_translation_is_proven_from_either_mode(fake_host, enabled):
    translation = Translation(enabled=enabled)
    found = tried(fake_host, translation, before=BACK if enabled else THROUGH)
    assert found.disagreed == ()
    assert not found.by_page
    assert set(found.times) == {BACK, THROUGH}
    assert translation.drive.enabled is enabled
    assert set(translation.changes) == {True, False}


@pytest.mark.parametrize(
    ("lie", "said"),
    [
        ({"cached_page": True}, "the mode page says write back"),
        ({"read_only": True}, "IDENTIFY DEVICE says write back"),
        ({"returns": True}, "after a rescan: IDENTIFY DEVICE says write back"),
        ({"no_features": True, "no_select": True}, "refuses SCSI command"),
        ({"no_features": True, "cached_page": True}, "IDENTIFY DEVICE says write back"),
        ({"blocked": True}, "refuses SCSI command 85h"),
    ],
    ids=["page cached", "read only", "returns", "no way", "page alone, cached", "blocked"],
)
def test_each_known_lie_is_found_and_named(fake_host, lie, said):
    found = tried(fake_host, Translation(**lie))
    assert any(said in line for line in found.disagreed), found.disagreed


def test_a_flush_that_the_adapter_swallows_is_found_by_its_time(fake_host):
    (line,) = tried(fake_host, Translation(), SWALLOWED).disagreed
    assert "the flush is swallowed" in line


def test_a_drive_with_capacitors_is_fast_in_both_modes_and_proven(fake_host):
    assert tried(fake_host, Translation(), CAPACITORS).disagreed == ()


@pytest.mark.parametrize(("lacks", "by_page"), [("no_features", True), ("no_select", False)])
def test_where_one_way_is_refused_the_other_one_is_the_way(fake_host, lacks, by_page):
    found = tried(fake_host, Translation(**{lacks: True}))
    assert (found.by_page, found.disagreed) == (by_page, ())


@pytest.mark.slow
@settings(suppress_health_check=[
    HealthCheck.function_scoped_fixture, HealthCheck.too_slow,
])
@given(
    lies=st.fixed_dictionaries(dict.fromkeys(
        ("cached_page", "blocked", "no_features", "read_only", "returns", "no_select"),
        st.booleans(),
    )),
    enabled=st.booleans(),
)
def test_what_is_proven_obeys_both_ways_and_stays_whatever_the_translation(
    fake_host, lies, enabled
):
    translation = Translation(enabled=enabled, **lies)
    with another(fake_host) as host:
        found = tried(host, translation, before=BACK if enabled else THROUGH)
        if found.disagreed:
            return
        switch = SataHbaSwitch(translation.port(), set(), lambda: [proof(found.by_page)])
        device = by_name(host.files, "sda")
        switch.pin(device)
        for mode in (THROUGH, BACK):
            switch.set_cache(device, mode)
            translation.rescan()
            assert translation.drive.enabled is (mode is BACK)
            assert switch.read(device).device_cache.mode is mode
            assert not switch.read(device).refusal


@contextmanager
def another(fake_host):
    """A fake host of its own for each example."""
    with tempfile.TemporaryDirectory() as root:
        yield type(fake_host)(Path(root).resolve())


# ---- what a proof opens


@pytest.mark.parametrize(
    ("proofs", "open_"),
    [
        ([], False),
        ([proof()], True),
        ([proof(by_page=True)], True),
        ([proof(driver="mpi3mr")], False),
        ([proof(model=replace(MODEL, firmware="FW03"))], False),
        ([proof(disagreed=("to write through: no",)), proof()], False),
    ],
    ids=["none", "proven", "by page", "other driver", "other firmware", "disproven too"],
)
def test_a_proof_opens_its_own_combination_and_no_other(fake_host, proofs, open_):
    said = refusal(host_with(fake_host, Translation(), proofs))
    assert (said == "") is open_
    assert open_ or "wcache-probe prove" in said or "did not hold" in said


def test_a_jbod_disk_of_a_raid_driver_is_opened_by_its_proof_and_a_volume_never(fake_host):
    drivers = [proof(driver="megaraid_sas")]
    host = host_with(fake_host, Translation(), drivers, driver="megaraid_sas", path="host0")
    assert refusal(host) == ""
    fake_host.scsi_disk("sdb", "8:16", driver="megaraid_sas", vendor="AVAGO", hctl="0:2:0:0")
    switch = Switches(proofs=lambda: drivers).of(by_name(fake_host.files, "sdb"))
    assert switch.transport is Transport.RAID
    assert switch.refusal


def test_a_proven_drive_whose_page_and_own_word_differ_is_refused_again(fake_host):
    translation = Translation(cached_page=True)
    host = host_with(fake_host, translation, [proof()])
    assert refusal(host) == ""
    translation.drive.enabled = False
    assert "the adapter's mode page write back" in refusal(host)


# ---- the command, with its journal


@pytest.mark.parametrize("lie", [{}, {"cached_page": True}, {"no_features": True}])
@pytest.mark.parametrize("enabled", [True, False])
def test_whatever_is_found_the_prior_state_is_back_and_the_journal_empty(
    fake_host, tmp_path, lie, enabled
):
    stage = Stage(fake_host, tmp_path, Translation(enabled=enabled, **lie))
    stage.run(stage.trial)
    assert stage.translation.drive.enabled is enabled
    assert stage.journal() == {}


def test_a_trial_that_dies_in_the_other_mode_is_restored_with_no_proof_at_hand(
    fake_host, tmp_path
):
    stage = Stage(fake_host, tmp_path, Translation())

    class Killed(BaseException):
        pass

    def dies(device, switch, scratch, mode):
        switch.set_cache(device, mode.other)
        raise Killed

    with pytest.raises(Killed):
        run_and_die(stage, dies)
    assert stage.translation.drive.enabled is False
    (entry,) = stage.journal().values()
    assert entry.kind is EntryKind.LEASE
    Switcher(stage.host, stage.state.journal).restore(entry)
    assert stage.translation.drive.enabled is True
    assert stage.journal() == {}


def run_and_die(stage, dies):
    """The steps of the command, without what a killed process cannot do any more."""
    switcher = Switcher(stage.host, stage.state.journal)
    entry = command.entry_of(stage.drive)
    switcher.run(stage.drive.domain_id, command.begin(entry, stage.drive))
    with stage.host.held_to_prove(stage.drive) as (device, switch):
        dies(device, switch, None, stage.drive.mode)


@pytest.mark.parametrize(
    ("changes", "consent", "said"),
    [
        ({}, False, "consent with --consent"),
        ({"transport": Transport.SATA}, True,
         "needs no proof or takes none: prove a SATA drive behind a SAS adapter"),
        ({"foreign_uses": ("a mount",)}, True, "shared with a mount"),
    ],
)
def test_what_may_not_be_tried_is_refused_before_anything_is_touched(
    fake_host, tmp_path, changes, consent, said
):
    stage = Stage(fake_host, tmp_path, Translation())
    drive = replace(stage.drive, **changes)
    with pytest.raises(RefusedError) as refused:
        command.refuse(drive, FakeScratch(drive), consent)
    assert said in refused.value.line()
    assert stage.translation.changes == []


def unprepared(stage):
    stage.boot_pins = NotPrepared


def switched(stage):
    """What the journal would say of it is no longer so."""
    stage.translation.drive.enabled = False


@pytest.mark.parametrize(("happens", "said"), [
    (unprepared, "not in the boot rule"), (switched, "no longer in write back"),
])
def test_what_changed_before_the_lock_was_had_is_not_tried(fake_host, tmp_path, happens, said):
    stage = Stage(fake_host, tmp_path, Translation())

    def lock(domain_id):
        happens(stage)
        return nullcontext(domain_id)

    with pytest.raises(RefusedError, match=said):
        stage.run(stage.trial, lock)
    assert stage.translation.changes == []
    assert stage.journal() == {}


def test_what_the_boot_rule_lacks_or_is_refused_for_another_reason_is_not_tried(
    fake_host, tmp_path
):
    stage = Stage(fake_host, tmp_path, Translation())
    paths = make.refused("it is reached over several paths (sda, sdb)")
    other = replace(stage.drive, refusals=(*stage.drive.refusals, *paths))
    with pytest.raises(RefusedError, match="several paths"), stage.host.held_to_prove(other):
        pass
    stage.host = LinuxDriveHost(
        files=fake_host.files, boot_pins=NotPrepared,
        switches=Switches(scsi=stage.translation.port()),
    )
    with pytest.raises(RefusedError) as refused, stage.host.held_to_prove(stage.drive):
        pass
    assert "wcache-probe prepare --scratch /dev/sda" in refused.value.line()


def test_the_answer_says_what_was_found_in_words():
    found = tried_result(())
    lines = command.lines(proof(), found)
    assert lines[0] == "proven: mpt3sas with ATA MODEL TWO FW02; it is toggled by ATA PASS-THROUGH"
    lines = command.lines(proof(disagreed=("the page says no",)), found)
    assert lines[:2] == ["NOT PROVEN: mpt3sas with ATA MODEL TWO FW02", "  the page says no"]


def tried_result(disagreed):
    return Found(False, disagreed, HONEST)
