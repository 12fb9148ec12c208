"""What may not be toggled is refused before the first step: nothing is written or pinned."""

from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from switching_scripts import keep_each
from wcache.core.drive.journal import JOURNAL_VERSION, EntryKind, JournalEntry, prior_of
from wcache.core.drive.manual import by_hand
from wcache.core.drive.prior import PriorDoubt, PriorError, prior_from
from wcache.core.drive.safety import Safety, judge, may_rest_on, may_toggle
from wcache.core.errors import RefusedError
from wcache.core.model import (
    CacheMode,
    CachePage,
    DeviceCache,
    Finding,
    FindingCode,
    KernelView,
    Layer,
    LayerKind,
    Severity,
    Transport,
)
from wcache_probe.switching import toggle as sw
from wcache_probe.switching.steps import ReadState
from wcache_probe.switching.toggle import bring_back

BACK, THROUGH = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH
DROPPING = (Layer("dm-0", LayerKind.LVM, KernelView.WRITE_THROUGH),)
UNKNOWN = (Layer("dm-0", LayerKind.LVM, KernelView.UNKNOWN),)


def off(**changes):
    return make.state(THROUGH, kernel_view=KernelView.WRITE_BACK, **changes)


# drive, mode, consent, what is said
REFUSED = {
    "foreign use": (
        make.drive("sda", 0, foreign_uses=("swap",)), THROUGH, True, "shared with swap",
    ),
    "refused by the probe": (
        make.drive("sda", 0, refusals=make.refused("no proof")), THROUGH, True, "no proof",
    ),
    "unknown cache": (
        make.drive("sda", 0, state=make.state(BACK, device_cache=DeviceCache.UNKNOWN)),
        BACK, True, "could not be restored",
    ),
    "loop device": (make.drive("loop0", 0, transport=Transport.LOOP), THROUGH, True, "loop device"),
    "layer that drops flushes": (
        make.drive("sda", 0, state=off(layers=DROPPING)), BACK, True, "dm-0 does not flush",
    ),
    "layer that is not known": (
        make.drive("sda", 0, state=off(layers=UNKNOWN)), BACK, True, "dm-0 is unknown",
    ),
    "no consent": (make.drive("sda", 0, state=off()), BACK, False, "needs its own consent"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_it_is_refused_before_the_first_step_of_a_lease_and_of_a_change(why):
    drive, mode, consent, said = REFUSED[why]
    terms = {"mode": mode, "now_s": 0.0, "throwaway": False, "consent_turn_on": consent}
    with pytest.raises(RefusedError, match=said):
        next(sw.lease_set((drive,), None, lease_id="l", **terms))
    if drive.mode is not None:
        with pytest.raises(RefusedError, match=said):
            next(sw.apply((drive,), action_id="a", expected=drive.mode, persist=True, **terms))


@pytest.mark.parametrize("why", REFUSED)
def test_one_such_drive_holds_its_whole_cache_domain(why):
    drive, mode, consent, said = REFUSED[why]
    sound = make.drive("sdb", 1, state=off() if mode is BACK and consent else drive.state)
    with pytest.raises(RefusedError, match=said):
        next(sw.lease_set(
            (sound, drive), None, lease_id="l", mode=mode, now_s=0.0, throwaway=False,
            consent_turn_on=consent,
        ))


def loop(mode):
    return make.drive("loop0", 0, transport=Transport.LOOP, state=make.state(
        BACK, kernel_view=KernelView(mode.value)
    ))


def prior_of_loop(mode):
    return prior_from("", loop(mode).domain_id, [loop(mode)])


def way_back(way, prior, throwaway):
    """The first step of a way back to `prior` of a loop device that is in the other mode."""
    now = loop(prior.other)
    if way == "journal":
        entry = JournalEntry(
            JOURNAL_VERSION, EntryKind.LEASE, "l", now.domain_id, prior_of((loop(prior),)), 0.0,
            throwaway,
        )
        return next(sw.restore(entry, (now,)))
    program = bring_back(
        prior_of_loop(prior), (now,), kind=EntryKind.LEASE, owner_id="l", now_s=0.0,
        throwaway=throwaway,
    )
    assert isinstance(next(program), ReadState)
    return program.send(now.state)


@pytest.mark.parametrize("way", ["journal", "mgr alone"])
def test_a_way_back_has_no_loop_device_drop_flushes_but_on_a_throwaway_cluster(way):
    with pytest.raises(RefusedError, match="drops the OSD's flushes"):
        way_back(way, THROUGH, throwaway=False)
    way_back(way, THROUGH, throwaway=True)
    way_back(way, BACK, throwaway=False)  # there it flushes again


@pytest.mark.parametrize("hidden", ["disk", "layer"])
def test_what_is_not_known_to_flush_is_neither_called_safe_nor_turned_on(hidden):
    if hidden == "disk":
        state = replace(make.state(BACK), kernel_view=KernelView.UNKNOWN)
    else:
        state = make.state(BACK, layers=UNKNOWN)
    assert judge(state) is Safety.UNKNOWN
    drive = make.drive("nvme0n1", 0, transport=Transport.NVME, state=state)
    program = keep_each((drive,), BACK)
    assert isinstance(next(program), ReadState)
    with pytest.raises(RefusedError, match="is unknown"):
        program.send(state)


FLASH = make.drive("nvme0n1", 0, transport=Transport.NVME)
SWALLOWED = (Finding(FindingCode.FLUSH_UNPROVEN, Severity.INFO, "nvme0n1", "no proof"),)
LOST = {str(FLASH.drive_model): "h1: it lost 37 acknowledged writes"}
STAYS_OFF = make.state(THROUGH, page=CachePage(True, BACK, THROUGH))
# drive, what power cuts have shown, why nothing may rest on it
RESTS = {
    "volatile and flushed": (FLASH, {}, ""),
    "no cache": (
        replace(FLASH, state=make.state(BACK, device_cache=DeviceCache.NONE)), {}, "",
    ),
    "off": (replace(FLASH, state=STAYS_OFF), {}, ""),
    "another model lost writes": (FLASH, {"ACME other 1": "lost"}, ""),
    "volatile and not flushed": (
        replace(FLASH, state=make.state(BACK, kernel_view=KernelView.WRITE_THROUGH)), {},
        "its cache is volatile and disk does not flush",
    ),
    "volatile, and a layer does not flush": (
        replace(FLASH, state=make.state(BACK, layers=DROPPING)), {}, "dm-0 does not flush",
    ),
    "off, and not after a reset": (
        replace(FLASH, state=make.state(THROUGH, layers=DROPPING)), {}, "a reset may turn it on",
    ),
    "view unknown": (
        replace(FLASH, state=make.state(BACK, kernel_view=KernelView.UNKNOWN)), {}, "is unknown",
    ),
    "cache unknown": (
        replace(FLASH, state=make.state(BACK, device_cache=DeviceCache.UNKNOWN)), {},
        "volatile is unknown",
    ),
    "lost writes": (FLASH, LOST, "shown to lose writes: h1: it lost 37"),
    "lost writes, off": (replace(FLASH, state=STAYS_OFF), LOST, "shown to lose writes"),
    "flushes unproven": (
        replace(FLASH, findings=SWALLOWED, host_driver="hpsa"), {}, "hpsa may not pass flushes on",
    ),
    "off, flushes unproven": (
        replace(FLASH, state=make.state(THROUGH), findings=SWALLOWED), {},
        "a reset may turn its cache on",
    ),
    "off for good, flushes unproven": (
        replace(FLASH, state=STAYS_OFF, findings=SWALLOWED), {}, "",
    ),
}


@pytest.mark.parametrize("case", RESTS)
def test_what_was_acknowledged_rests_on_no_drive_that_can_lose_it(case):
    drive, lost, said = RESTS[case]
    why = may_rest_on(drive, lost)
    assert said in why
    assert bool(why) is bool(said)


@pytest.mark.parametrize(("drive", "lost"), [
    (make.drive("sda", 0, state=off()), {str(make.MODEL): "lost"}),
    (make.drive("sda", 0, state=off(), findings=SWALLOWED), {}),
    (make.drive("sda", 0, state=off(layers=DROPPING)), {}),
], ids=["lost writes", "flushes unproven", "layer drops flushes"])
def test_no_cache_comes_on_where_nothing_may_rest_not_even_by_hand(drive, lost):
    asked = {"throwaway": False, "consent_turn_on": True, "lost": lost}
    assert may_toggle([drive], BACK, experiment=False, **asked)
    assert may_toggle([drive], BACK, **asked)
    assert not may_toggle([drive], THROUGH, experiment=False, **asked)
    assert by_hand(drive, BACK, lost) == ()
    assert by_hand(drive, THROUGH, lost)


@pytest.mark.parametrize(("findings", "lost"), [
    ((), {str(make.MODEL): "lost"}), (SWALLOWED, {}),
], ids=["lost writes", "flushes unproven"])
def test_one_that_is_on_may_go_off_and_on_again_and_is_not_saved_as_on(findings, lost):
    drive = make.drive("sda", 0, findings=findings)
    asked = {"throwaway": False, "consent_turn_on": True, "lost": lost}
    assert not may_toggle([drive], THROUGH, **asked)
    assert not may_toggle([drive], BACK, experiment=False, **asked)
    assert may_toggle([drive], BACK, experiment=False, lasts=True, **asked)
    with pytest.raises(RefusedError, match=r"lose writes|pass flushes"):
        next(sw.apply(
            (drive,), action_id="a", expected=BACK, mode=BACK, now_s=0.0, throwaway=False,
            consent_turn_on=True, persist=True, lost=lost,
        ))


SEEN = make.drive("sda", 0, state=make.state(THROUGH, kernel_view=KernelView.WRITE_BACK))
LOWERED = replace(SEEN, state=make.state(THROUGH, kernel_view=KernelView.WRITE_THROUGH))


@pytest.mark.parametrize(("now", "said"), [
    ((LOWERED,), "the kernel view of sda is write through and was write back"),
    ((SEEN, make.drive("sdb", 0, drive_id="new", state=SEEN.state)), "new was not there"),
    ((replace(SEEN, drive_id="another"),), "sda was not read"),
], ids=["view was lowered", "a drive came", "another drive"])
def test_what_is_not_as_the_mgr_saw_it_is_refused_before_the_first_step(now, said):
    known = prior_from("", SEEN.domain_id, (SEEN,))
    drives = tuple(replace(drive, domain_id=SEEN.domain_id) for drive in now)
    terms = {"mode": BACK, "now_s": 0.0, "throwaway": False, "consent_turn_on": True}
    with pytest.raises(PriorError, match=said) as refused:
        next(sw.lease_set(drives, None, lease_id="l", prior=known, **terms))
    assert refused.value.doubt is PriorDoubt.OTHER_STATE
    with pytest.raises(PriorError, match=said):
        next(sw.apply(
            drives, action_id="a", expected=THROUGH, persist=False, known=known, **terms
        ))
