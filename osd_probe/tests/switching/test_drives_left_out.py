"""Nothing of ours makes a drive unsafe that the boot rule leaves out, or that is taken out of it.

The search of `switching_search.py` goes through every order of steps, crashes, resets, new
kernels, firmware that loses the saved page, and others who save that the cache is on.  A saved
page may lie, a default page may say anything, and a second LUN may save something else.

Ours is an unsafe state that neither the untouched twin is in, nor a drive that its admin took out
of the rule while its own saved page, and that of all that shares its switch, said `write through`:
that is told as the price, and is what Ceph's documented rule makes of a drive.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from switching_scripts import recovery, restored
from switching_search import EVENTS_MAX, explore
from switching_world import (
    BACK,
    ENTRY,
    LOST,
    OURS,
    THROUGH,
    Beside,
    Survey,
    World,
    looked_at,
)
from wcache.core.drive.saved_off import why_pinned
from wcache.core.errors import WcacheError
from wcache.core.model import Transport
from wcache_probe.switching import toggle as sw

# ---- what is asked


def domain_of(world):
    """What a look finds: the drive, and the second LUN of its switch."""
    (first,) = looked_at(world.transport, world.read())
    if world.second is None:
        return (first,)
    page = replace(first.state.page, saved=world.second)
    return (first, replace(first, dev_name="sdb", state=replace(first.state, page=page)))


def named_by(world, journal, *, rule=True):
    """What names it, as the probe's `Names` says (test_saved_off.py)."""
    def named(_drive):
        lines = "the boot rule" if rule and world.boot_rule else ""
        return ("the journal" if journal else "") or ("a plan" if world.rule else "") or lines

    return named


class Asked:
    """The function that decides; each guard of it can be taken out."""

    def __init__(self, without=""):
        self.without = without

    def why_pinned(self, world, journal, *, rule):
        domain = domain_of(world)
        named = named_by(world, journal, rule=rule)
        if self.without == "what names it":
            named = named_by(world, None, rule=False)
        elif self.without == "the second LUN":
            domain = domain[:1]
        elif self.without == "its own saved page":
            domain = tuple(with_page(one, one.state.page.default) for one in domain)
        elif self.without == "that it saves at all":
            domain = tuple(with_page(one, THROUGH) for one in domain)
        elif self.without == "that it is off":
            domain = tuple(
                replace(one, state=replace(one.state, device_cache=off.device_cache))
                for one in domain
            )
        return why_pinned(domain, named)


off = World(Transport.SCSI, False, False, True, False).read()


def with_page(drive, saved):
    page = replace(drive.state.page, saved=saved, by_rule=False)
    return replace(drive, state=replace(drive.state, page=page))


# ---- what an admin does


def stays(twin, _before):
    return twin


def prepared(asked, *, by_name=False):
    """`prepare`, and with the option `--drive`: it never takes a line away."""
    def happens(world, journal):
        named = by_name or asked.why_pinned(world, journal, rule=True)
        if not named and asked.without == "what names it":
            return replace(world, boot_rule=False)
        return replace(world, boot_rule=True, image=OURS) if named else world

    return Beside("PREPARE --drive" if by_name else "PREPARE", happens, stays)


def taken_out(asked):
    """`unprepare --drive`."""
    def is_taken(world, journal):
        return world.boot_rule and not asked.why_pinned(world, journal, rule=False)

    def happens(world, journal):
        return replace(world, boot_rule=False) if is_taken(world, journal) else world

    def twin(twin, before):
        # independent of what is asked: what its pages say, and whether it is off
        keeps = before.savable and not before.on and before.second in (None, THROUGH)
        says_off = before.lies or before.second is not None or not before.wakes_on
        found_like_that = keeps and says_off and before.rule is None
        return replace(before, boot_rule=False) if found_like_that else twin

    return Beside("UNPREPARE --drive", happens, twin)


def refusal(world):
    return "" if world.boot_rule else "the boot rule does not name it"


def tried(program):
    """A program whose refusal ends nothing."""
    try:
        yield from program
    except WcacheError:
        return


def leased(mode):
    drives = yield Survey(refusal)
    entry = yield ENTRY
    terms = {"mode": mode, "now_s": 0.0, "throwaway": False, "consent_turn_on": True}
    yield from sw.lease_set(drives, entry, lease_id="l", **terms)


def changed(mode, persist):
    drives = yield Survey(refusal)
    entry = yield ENTRY
    yield from sw.apply(
        drives, entry, action_id="a", expected=mode.other, mode=mode, now_s=0.0,
        throwaway=False, consent_turn_on=True, persist=persist,
    )


def measured(asked, by_name):
    def script():
        yield prepared(asked, by_name=by_name)
        yield from tried(leased(BACK))
        yield from tried(leased(THROUGH))
        yield from tried(restored())
        yield prepared(asked)
        yield taken_out(asked)

    return script


def kept_off(asked, by_name, persist):
    """A plan turns it off; its admin gives up the way back, and takes it out of the rule."""
    def script():
        yield prepared(asked, by_name=by_name)
        yield from tried(changed(THROUGH, persist))
        yield LOST
        yield prepared(asked)
        yield taken_out(asked)

    return script


def kept_off_and_prepared_again(asked, by_name):
    def script():
        yield prepared(asked, by_name=by_name)
        yield from tried(changed(THROUGH, persist=True))
        yield prepared(asked)
        yield taken_out(asked)

    return script


def turned_on(asked, by_name):
    def script():
        yield prepared(asked, by_name=by_name)
        yield from tried(changed(BACK, persist=True))
        yield prepared(asked)
        yield taken_out(asked)
        yield from tried(restored())

    return script


def scripts(asked):
    for by_name in (False, True):
        yield measured(asked, by_name)
        yield kept_off(asked, by_name, True)
        yield kept_off(asked, by_name, False)
        yield kept_off_and_prepared_again(asked, by_name)
        yield turned_on(asked, by_name)


# ---- the drives that are found, on a host that was never prepared

PAGES = {
    "honest": {},
    "its saved page lies": {"lies": True, "wakes_on": True},
    "saves nothing, and its default page says write through": {
        "savable": False, "wakes_on": True, "default": THROUGH,
    },
    "saves nothing": {"savable": False, "wakes_on": True, "default": BACK},
    "its second LUN saves write back": {"second": BACK, "wakes_on": True},
    "its second LUN saves it too": {"second": THROUGH, "wakes_on": False},
}


def found(pages, every):
    """As the kernel finds a drive at a boot, with a volume on it; or in `every` state."""
    for on, wakes_on, view, layer in itertools.product(
        (True, False), (True, False), (True, False), (None, True, False)
    ):
        words = {"wakes_on": wakes_on, "savable": True, **PAGES[pages]}
        if words["wakes_on"] is wakes_on and (every or on is view is layer):
            yield World(Transport.SCSI, on, view=view, layer=layer, fickle=True, **words)


def unsafe_ways(asked, pages, *, every=False):
    return [
        way for script in scripts(asked) for world in found(pages, every)
        for way in explore(script, recovery, world, EVENTS_MAX)[0]
    ]


@pytest.mark.slow
@pytest.mark.parametrize("pages", PAGES)
def test_no_unsafe_state_of_a_drive_that_is_left_out_or_taken_out_is_of_our_making(pages):
    assert unsafe_ways(Asked(), pages) == []


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("pages", PAGES)
def test_nor_is_one_from_any_state_that_a_drive_can_be_found_in(pages):
    assert unsafe_ways(Asked(), pages, every=True) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("guard", "pages"),
    [
        ("its own saved page", "saves nothing, and its default page says write through"),
        ("that it saves at all", "saves nothing"),
        ("the second LUN", "its second LUN saves write back"),
        ("that it is off", "its saved page lies"),
        ("what names it", "honest"),
    ],
)
def test_without_one_of_its_guards_unsafe_states_are_of_our_making(guard, pages):
    assert unsafe_ways(Asked(guard), pages)


def rules_in_the_end(on, by_name=False):
    """Whether the boot rule names an honest drive in the end, where nothing happens beside."""
    world = World(Transport.SCSI, on, on, True, on, layer=on)
    ends = explore(kept_off(Asked(), by_name, True), recovery, world, 0)[2]
    return {end.world.boot_rule for end in ends if "CRASH" not in end.way}


def test_the_search_leaves_drives_out_and_takes_drives_out():
    """Else it would find nothing because nothing was done."""
    assert rules_in_the_end(on=False) == {False}
    assert rules_in_the_end(on=False, by_name=True) == {False}
    assert rules_in_the_end(on=True) == {False}
    found_off = World(Transport.SCSI, False, False, True, False, layer=False)
    (end,) = [
        end for end in explore(measured(Asked(), False), recovery, found_off, 0)[2]
        if "CRASH" not in end.way
    ]
    assert end.world == end.twin, "nothing has touched it"
