"""All that speaks against a drive is told, and what permits a change lifts its own kinds alone."""

from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from switching_scripts import keep_each
from wcache.core.drive import safety
from wcache.core.drive.journal import JOURNAL_VERSION, EntryKind, JournalEntry, prior_of
from wcache.core.errors import Refusal, RefusalKind, RefusedError, left, told
from wcache.core.model import (
    CacheMode,
    CachePage,
    Finding,
    FindingCode,
    KernelView,
    Severity,
    Transport,
)
from wcache_probe.switching import toggle as sw
from wcache_probe.switching.steps import Pin, ReadState, SaveCache, SetCache

BACK, THROUGH = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH
OFF = make.state(THROUGH)
UNSAFE = make.state(BACK, kernel_view=KernelView.WRITE_THROUGH)
UNFLUSHED = (Finding(FindingCode.FLUSH_UNPROVEN, Severity.INFO, "sda", "not shown"),)
EVERY = tuple(Refusal(kind, f"because {kind.value}") for kind in RefusalKind)
NEXT_BOOT = {RefusalKind.NOT_PREPARED, RefusalKind.JOURNAL_LOST}


def may_toggle(drive, mode, **terms):
    return safety.may_toggle(
        [drive], mode, **{"throwaway": False, "consent_turn_on": False, **terms}
    ) or ""


# what permits something: how it is asked of a drive, and which kinds of a probe it lifts
PERMITS = {
    "nothing": (lambda drive: may_toggle(drive, BACK), set()),
    "the consent to turn a cache on": (
        lambda drive: may_toggle(drive, BACK, consent_turn_on=True), {RefusalKind.TURNS_ON},
    ),
    "a throwaway cluster": (
        lambda drive: may_toggle(drive, BACK, throwaway=True), {RefusalKind.OF_THROWAWAY},
    ),
    "an experiment that began": (
        lambda drive: may_toggle(drive, BACK, began=True),
        {RefusalKind.TURNS_ON, RefusalKind.FLUSH_UNPROVEN, RefusalKind.LOST_WRITES},
    ),
    "off, for good": (
        lambda drive: may_toggle(drive, THROUGH, experiment=False),
        {RefusalKind.LOSES_DATA, RefusalKind.LOST_WRITES, RefusalKind.LAYER_DROPS_FLUSHES,
         RefusalKind.KERNEL_VIEW_UNKNOWN, RefusalKind.FLUSH_UNPROVEN},
    ),
    "a trial by `prove`": (
        safety.why_not_tried,
        {RefusalKind.UNPROVEN, RefusalKind.FLUSH_UNPROVEN, RefusalKind.TURNS_ON,
         RefusalKind.DISOBEYED, *NEXT_BOOT},
    ),
}


@pytest.mark.parametrize("kind", RefusalKind, ids=lambda kind: kind.value)
@pytest.mark.parametrize("who", PERMITS)
def test_what_permits_a_change_lifts_its_own_kinds_and_no_other(who, kind):
    asked, lifts = PERMITS[who]
    drive = make.drive("sda", 0, refusals=make.refused("because", kind))
    assert ("because" in asked(drive)) is (kind not in lifts)


@pytest.mark.parametrize("who", PERMITS)
def test_what_is_lifted_hides_none_of_all_the_others(who):
    asked, lifts = PERMITS[who]
    said = asked(make.drive("sda", 0, refusals=EVERY, foreign_uses=("swap",)))
    assert "shared with swap" in said
    for refusal in EVERY:
        assert (refusal.text in said) is (refusal.kind not in lifts)


def test_all_is_told_once_in_one_line_and_in_one_order():
    assert told(reversed(EVERY)) == told((*EVERY, *EVERY)) == "; ".join(
        refusal.text for refusal in EVERY
    )
    assert left(EVERY, set(RefusalKind)) == ()
    assert told(()) == ""


@pytest.mark.parametrize(("lasts", "lifts"), [
    (False, {RefusalKind.DISOBEYED, *NEXT_BOOT}),
    (True, {RefusalKind.DISOBEYED, RefusalKind.NOT_PREPARED}),
])
def test_off_cures_a_drive_that_loses_data_whatever_the_next_boot_lacks_or_it_once_did(
    lasts, lifts
):
    """What is saved outlives the next boot, so its way back must too."""
    for kind in RefusalKind:
        drive = make.drive("sda", 0, state=UNSAFE, refusals=make.refused("because", kind))
        said = may_toggle(drive, THROUGH, experiment=False, lasts=lasts)
        of_flushes = kind in PERMITS["off, for good"][1]
        assert ("because" in said) is (kind not in lifts and not of_flushes)


def test_a_state_that_was_found_bad_does_not_hide_that_it_has_a_consent_of_its_own():
    drive = make.drive("sda", 0, state=OFF, findings=UNFLUSHED, host_driver="hpsa")
    said = may_toggle(drive, BACK)
    assert "hpsa may not pass flushes on" in said
    assert "needs its own consent" in said


def test_no_way_back_is_kept_from_a_drive_that_has_once_refused_a_change():
    drive = make.drive("sda", 0, refusals=make.refused("it refused", RefusalKind.DISOBEYED))
    safety.require_ours([drive])
    assert "it refused" in may_toggle(drive, BACK)


def test_a_finding_alone_that_it_did_not_obey_keeps_a_drive_from_a_change():
    told_so = Finding(FindingCode.TOGGLE_INEFFECTIVE, Severity.WARNING, "sda", "it stays on")
    drive = make.drive("sda", 0, findings=(told_so,))
    assert "it stays on" in may_toggle(drive, THROUGH)
    assert "it stays on" in may_toggle(drive, THROUGH, experiment=False)
    assert "it stays on" not in may_toggle(replace(drive, state=UNSAFE), THROUGH, experiment=False)
    safety.require_ours([drive])


# ---- what came since is asked again


@pytest.mark.parametrize("came", [
    {"foreign_uses": ("mounted at /srv",)},
    {"refusals": make.refused("it is reached over several paths")},
    {"refusals": make.refused("other programs may use it", RefusalKind.UNSEEN)},
], ids=["a user", "a path", "a namespace"])
@pytest.mark.parametrize("mode", CacheMode)
def test_what_came_to_a_drive_during_an_experiment_ends_it(came, mode):
    began = make.drive("sda", 0)
    entry = JournalEntry(
        JOURNAL_VERSION, EntryKind.LEASE, "l", began.domain_id, prior_of((began,)), 0.0
    )
    with pytest.raises(RefusedError):
        next(sw.lease_set(
            (replace(began, **came),), entry, lease_id="l", mode=mode, now_s=0.0,
            throwaway=False, consent_turn_on=False,
        ))


def test_a_drive_that_leaves_its_mode_while_that_is_saved_is_not_called_kept():
    page = CachePage(True, BACK, BACK)
    drive = make.drive("sda", 0, state=make.state(BACK, page=page))
    program = sw.apply(
        (drive,), action_id="a", expected=BACK, mode=THROUGH, now_s=0.0, throwaway=False,
        consent_turn_on=False, persist=True,
    )
    state, saved, wrong = drive.state, False, ""
    try:
        step = next(program)
        while True:
            if isinstance(step, SetCache):
                state = replace(state, device_cache=make.state(step.mode).device_cache)
            if isinstance(step, SaveCache):
                kept = step.mode or step.saved
                # its firmware turns the cache on again as it saves
                state = replace(make.state(BACK), page=replace(page, saved=kept))
                saved = True
            step = program.send(state if isinstance(step, ReadState) else None)
    except RefusedError as error:
        wrong = error.message
    assert saved
    assert "left write through while that was made to last" in wrong


# ---- flushes


@pytest.mark.parametrize("findings", [(), UNFLUSHED], ids=["flushes arrive", "not shown"])
@pytest.mark.parametrize("state", [OFF, make.state(BACK)], ids=["off", "on"])
def test_a_rule_turns_no_cache_on_whose_flushes_are_not_shown_to_arrive_by_now(state, findings):
    drive = make.drive("sda", 0, state=state, findings=findings)
    program = keep_each((drive,), BACK)
    if findings and state is OFF:
        with pytest.raises(RefusedError, match="its cache stays off"):
            next(program)
        return
    assert isinstance(next(program), ReadState)


@pytest.mark.parametrize("refusals", [(), make.refused("it refuses", RefusalKind.NO_FLUSH)])
def test_a_start_pins_no_drive_that_refuses_flushes(refusals):
    drive = make.drive("sda", 0, refusals=refusals)
    assert safety.may_be_pinned(drive) is not bool(refusals)
    assert not safety.may_be_pinned(replace(drive, transport=Transport.NVME))
    steps = list(sw.hold((drive,)))
    assert [type(step) for step in steps] == ([] if refusals else [Pin])


@pytest.mark.parametrize("transport", Transport)
def test_a_view_that_no_pin_raises_keeps_a_cache_off(transport):
    """NVMe: the kernel reads it at the scan alone (nvme_set_queue_limits())."""
    state = make.state(THROUGH, kernel_view=KernelView.WRITE_THROUGH)
    drive = make.drive("sda", 0, transport=transport, state=state)
    cured = safety.pinnable(transport)
    assert safety.dropping_above(drive) == (() if cured else ("disk",))
    if transport is Transport.LOOP:
        return
    said = may_toggle(drive, BACK, consent_turn_on=True)
    assert ("disk does not flush" in said) is not cured
