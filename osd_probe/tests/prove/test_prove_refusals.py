"""`wcache-probe prove` writes and toggles nothing where anything but the missing proof is there."""

from contextlib import nullcontext
from dataclasses import replace

import pytest
from prove_stage import HONEST, FakeScratch, Stage
from translations import Translation
from wcache.core.errors import RefusedError, WcacheError
from wcache.core.model import KernelView, Layer, LayerKind
from wcache_probe import prove as command
from wcache_probe.prove import Found, InPlace, Prover
from wcache_probe.switcher import Switcher


def place_of(stage, osd):
    return InPlace(stage.drive) if osd else FakeScratch(stage.drive)


def proven(stage, place, lock=nullcontext):
    """All that the command does with a drive that was named to it, with the consent given."""
    mode = command.refuse(stage.drive, place, True)
    switcher = Switcher(stage.host, stage.state.journal, lock=lock)
    return command.run(stage.host, switcher, place, mode, stage.trial)


def untouched(stage, place):
    return stage.translation.changes == [] and stage.journal() == {} and not getattr(
        place, "claimed", False
    )


@pytest.mark.parametrize("osd", [False, True], ids=["blank", "in place"])
def test_where_other_programs_cannot_be_seen_nothing_is_written_or_toggled(
    fake_host, tmp_path, osd
):
    fake_host.hide_processes()
    stage = Stage(fake_host, tmp_path, Translation(), osd=osd)
    place = place_of(stage, osd)
    # both reasons are told, and the one that `prove` is there for hides the other in no way
    assert "is not proven" in stage.drive.toggle_refusal
    assert "pid namespace" in stage.drive.toggle_refusal
    with pytest.raises(RefusedError, match="pid namespace"):
        proven(stage, place)
    with (
        pytest.raises(RefusedError, match="pid namespace"),
        stage.host.held_to_prove(stage.drive),
    ):
        pass
    assert untouched(stage, place)


@pytest.mark.parametrize("osd", [False, True], ids=["blank", "in place"])
def test_what_came_before_the_lock_was_had_is_asked_again(fake_host, tmp_path, osd):
    stage = Stage(fake_host, tmp_path, Translation(), osd=osd)
    place = place_of(stage, osd)

    def hidden_first(domain_id):
        fake_host.hide_processes()
        return nullcontext(domain_id)

    with pytest.raises(RefusedError, match="pid namespace"):
        proven(stage, place, hidden_first)
    assert untouched(stage, place)


DROPPING = (Layer("dm-0", LayerKind.LVM, KernelView.WRITE_THROUGH),)


@pytest.mark.parametrize("changes", [
    {"layers": DROPPING}, {"kernel_view": KernelView.WRITE_THROUGH},
    {"layers": (replace(DROPPING[0], kernel_view=KernelView.UNKNOWN),)},
], ids=["a layer drops flushes", "the disk drops them", "nobody knows"])
def test_a_drive_below_something_that_may_drop_flushes_is_not_tried(fake_host, tmp_path, changes):
    stage = Stage(fake_host, tmp_path, Translation())
    stage.drive = replace(stage.drive, state=replace(stage.drive.state, **changes))
    place = place_of(stage, False)
    with pytest.raises(RefusedError, match=r"flush|unknown"):
        proven(stage, place)
    assert untouched(stage, place)


class NotBlank(FakeScratch):
    """Somebody's data."""

    def claim(self):
        raise RefusedError("/dev/sda is not blank")


def test_a_drive_that_is_not_blank_is_neither_written_to_nor_toggled(fake_host, tmp_path):
    stage = Stage(fake_host, tmp_path, Translation())
    place = NotBlank(stage.drive)
    with pytest.raises(RefusedError, match="is not blank"):
        proven(stage, place)
    assert untouched(stage, place)


@pytest.mark.parametrize("read", [
    None, {"pinned": None}, {"pinned": False}, {"kernel_view": KernelView.WRITE_THROUGH},
    {"kernel_view": KernelView.UNKNOWN},
])
def test_a_pin_that_does_not_read_back_ends_the_trial_before_the_first_toggle(
    fake_host, tmp_path, read
):
    drive = Stage(fake_host, tmp_path, Translation()).drive
    program = command.begin(command.entry_of(drive), drive)
    pinned = replace(drive.state, pinned=True, kernel_view=KernelView.WRITE_BACK)
    for _ in ("journal", "pin", "read"):
        next(program)
    with pytest.raises(WcacheError, match=r"could not be (pinned|read)"):
        program.send(read if read is None else replace(pinned, **read))


@pytest.mark.parametrize("way", ["no_features", "no_select"])
def test_a_toggle_that_lifts_the_pin_is_found_whichever_way_it_takes(fake_host, tmp_path, way):
    class Lifts(Translation):
        def told(self, on):
            super().told(on)
            fake_host.set_view("sda", "write back" if on else "write through")

    stage = Stage(fake_host, tmp_path, Lifts(**{way: True}))
    with stage.host.held_to_prove(stage.drive) as (device, switch):
        switch.pin(device)
        found = Prover(device, switch, None, stage.translation.rescan).run(stage.drive.mode)
    assert any("the pin says no longer write back" in line for line in found.disagreed)
    assert command.proof_of(found, stage.drive, "h").disagreed


@pytest.mark.parametrize("missing", list(HONEST))
def test_what_was_not_timed_in_both_modes_proves_nothing(fake_host, tmp_path, missing):
    stage = Stage(fake_host, tmp_path, Translation())
    times = {mode: of for mode, of in HONEST.items() if mode is not missing}
    for timed in (times, {}):
        proof = command.proof_of(Found(False, (), timed), stage.drive, "h")
        assert proof.disagreed == ("flushes could not be timed in both modes",)
        assert not proof.in_place
    assert not command.proof_of(Found(False, (), HONEST), stage.drive, "h").disagreed


def test_a_measurement_that_fails_leaves_no_proof_and_the_prior_mode(fake_host, tmp_path):
    stage = Stage(fake_host, tmp_path, Translation())

    def trial(device, switch, _scratch, mode):
        def measure():
            raise RefusedError("something else wrote to it")

        return Prover(device, switch, measure, stage.translation.rescan).run(mode)

    with pytest.raises(WcacheError, match="something else wrote"):
        stage.run(trial)
    assert stage.translation.drive.enabled
    assert stage.journal() == {}
