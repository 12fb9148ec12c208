"""The programs of a probe, as scripts for the search, and the worlds that they begin in."""

from __future__ import annotations

import itertools
from contextlib import suppress

import pytest
from switching_search import explore
from switching_world import (
    BACK,
    ENTRY,
    LOOK,
    LOST,
    THROUGH,
    World,
)
from wcache.core.drive.journal import EntryKind
from wcache.core.drive.prior import prior_from
from wcache.core.errors import WcacheError
from wcache.core.model import Transport
from wcache_probe.switching import toggle as sw
from wcache_probe.switching.toggle import bring_back


def keep_each(drives, mode):
    """What the rules of all these drives do as they appear."""
    return sw.keep(drives, mode, lambda drive: True, {})


def toggled(mode, consent=False):
    """One change under a lease, as the probe does it."""
    drives = yield LOOK
    entry = yield ENTRY
    yield from sw.lease_set(
        drives, entry, lease_id="l", mode=mode, now_s=0.0, throwaway=False,
        consent_turn_on=consent,
    )


def restored():
    """What a probe does when it starts, and when a lease ends."""
    entry = yield ENTRY
    if entry is not None:
        drives = yield LOOK
        yield from sw.restore(entry, drives)


def recovery():
    """At its start the probe pins what its journal names, then restores leases."""
    entry = yield ENTRY
    if entry is None:
        return
    drives = yield LOOK
    yield from sw.hold(drives)
    if entry.kind is EntryKind.LEASE:
        yield from restored()


def pair_off_first():
    yield from toggled(THROUGH)
    yield from toggled(BACK)
    yield from restored()


def pair_on_first():
    yield from toggled(BACK, consent=True)
    yield from toggled(THROUGH)
    yield from restored()


def applied(mode, persist):
    drives = yield LOOK
    entry = yield ENTRY
    yield from sw.apply(
        drives, entry, action_id="a", expected=mode.other, mode=mode, now_s=0.0,
        throwaway=False, consent_turn_on=True, persist=persist,
    )


def applied_off_and_rolled_back():
    yield from applied(THROUGH, True)
    yield from restored()


def applied_on_and_rolled_back():
    yield from applied(BACK, True)
    yield from restored()


def applied_again_to_persist_and_rolled_back():
    yield from applied(THROUGH, False)
    with suppress(WcacheError):  # what cannot be made to last stays, and is rolled back later
        yield from applied(THROUGH, True)
    yield from restored()


def applied_off_for_now():
    yield from applied(THROUGH, False)


def brought_back_without_a_journal():
    drives = yield LOOK
    known = prior_from("", "d", drives)
    yield from toggled(THROUGH)
    yield LOST
    drives = yield LOOK
    yield from bring_back(
        known, drives, kind=EntryKind.LEASE, owner_id="l", now_s=0.0, throwaway=False
    )


SCRIPTS = (
    pair_off_first, pair_on_first, applied_off_and_rolled_back, applied_on_and_rolled_back,
    applied_again_to_persist_and_rolled_back,
)

# nothing is taken back here, so the drive goes on being off under whatever happens
SCRIPTS_AND_APPLIED = (*SCRIPTS, applied_off_for_now, brought_back_without_a_journal)


def worlds(transport, **more):
    """Every state that a drive can be found in, on a host that was prepared."""
    more.setdefault("boot_rule", True)
    for on, wakes_on, view, layer, savable in itertools.product(
        (True, False), (True, False), (True, False), (None, True, False), (True, False)
    ):
        if savable and transport is Transport.SATA:
            continue
        yield World(transport, on, wakes_on, savable, view, layer=layer, **more)


def with_most_to_lose(transport, **more):
    """The states that are not savable and wake with the cache on."""
    for view, layer in itertools.product((True, False), (None, True, False)):
        yield World(transport, True, True, False, view, layer=layer, **more)


def all_ways(script, transport, events_max, mutate=lambda script: script, **more):
    found, moments, ends = [], 0, []
    changed = mutate(script)
    back = mutate(recovery)
    for world in worlds(transport, **more):
        ways, size, last = explore(changed, back, world, events_max)
        found += [(world, way) for way in ways]
        moments += size
        ends += last
    return found, moments, ends


TRANSPORTS = (Transport.SCSI, Transport.SATA, Transport.NVME)
EVERY = pytest.mark.parametrize("transport", TRANSPORTS, ids=lambda t: t.value)
SCRIPT = pytest.mark.parametrize("script", SCRIPTS, ids=lambda s: s.__name__)
SCRIPT_OR_APPLIED = pytest.mark.parametrize(
    "script", SCRIPTS_AND_APPLIED, ids=lambda s: s.__name__
)
