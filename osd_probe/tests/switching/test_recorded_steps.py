"""The other programs of the probe yield the steps that they were recorded with.

Programs about cache modes with an event beside them: test_switching_states.py.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace

import pytest
import test_drives_that_came_later as later
from option_world import Drives
from recorded_steps import (
    Stopped,
    drive_words,
    each_end,
    listed,
    of_programs,
    require_same,
    told,
    ways,
)
from switching_scripts import (
    applied_off_and_rolled_back,
    applied_on_and_rolled_back,
    keep_each,
    pair_off_first,
    pair_on_first,
    restored,
    toggled,
)
from switching_world import BACK, LOOK, LOST, THROUGH
from wcache.core.drive.journal import EntryKind
from wcache.core.drive.prior import prior_from
from wcache.core.errors import WcacheError
from wcache.core.model import Transport
from wcache.core.options.entries import DRAINS, OPTIONS, leased_names, names_of
from wcache.core.options.option import Place
from wcache_probe.switching import options
from wcache_probe.switching import toggle as sw
from wcache_probe.switching.toggle import bring_back

# ---- cache modes


def kept_on():
    drives = yield LOOK
    yield from keep_each(drives, BACK)


def kept_off():
    drives = yield LOOK
    yield from keep_each(drives, THROUGH)


def held():
    drives = yield LOOK
    yield from sw.hold(drives, must=True)


def applied_for_good_and_brought_back():
    drives = yield LOOK
    known = prior_from("", "d", drives)
    yield from sw.apply(
        drives, action_id="a", expected=BACK, mode=THROUGH, now_s=0.0, throwaway=False,
        consent_turn_on=False, persist=True, known=known,
    )
    yield LOST
    drives = yield LOOK
    yield from bring_back(
        known, drives, kind=EntryKind.ACTION, owner_id="a", now_s=0.0, throwaway=False
    )


def on_without_consent():
    yield from toggled(BACK)
    yield from restored()


@pytest.mark.parametrize("script", [
    kept_on, kept_off, held, on_without_consent,
    pytest.param(applied_for_good_and_brought_back, marks=pytest.mark.slow),
], ids=lambda script: script.__name__)
def test_a_program_that_no_search_goes_through(script):
    found, recording = ways(script, Transport.SCSI, events_max=1)
    assert found == [] or script in (kept_on, kept_off)
    require_same(f"{script.__name__}-scsi", recording)


@pytest.mark.slow
def test_other_transports_are_gone_through_as_one_of_these_or_refused():
    lines = []
    for script in (
        pair_off_first, pair_on_first, applied_off_and_rolled_back, applied_on_and_rolled_back,
    ):
        alike = {}
        for transport in Transport:
            alike.setdefault(of_programs(script, transport), []).append(transport.value)
        for found, names in alike.items():
            lines += [f"# {script.__name__}: {', '.join(names)}", *found]
    require_same("other-transports", "\n".join(lines))


def two_drives():
    """A drive and one that came later and shares its switch, on the way back."""
    for way in (later.brought_back, later.restored, later.restored_and_forgotten):
        for drive in later.LATER:
            known = later.prior(drive)
            begin = {"A": replace(later.like(later.OFF, drive), wakes_on=drive.wakes_on),
                     "B": drive}

            def run(words, way=way, known=known, begin=begin, **how):
                with contextlib.suppress(Stopped):
                    later.played(lambda *args: told(way(*args), words, **how), known, begin)

            for how, words in each_end(run):
                yield f"{way.__name__} {drive_words(drive)}", how, words


def test_a_way_back_of_two_drives():
    require_same("two-drives", listed("two drives with one switch", two_drives()))


# ---- options

VALUES = {one.name: (one.words or (str(one.low), str(one.low + 1)))[:2] for one in OPTIONS}


def set_by_lease(drives, name, words, **how):
    """A lease sets the other value, then the one that was there, and ends."""
    prior = drives.prior(names=leased_names(name))

    def leased():
        for value in reversed(VALUES[name]):
            entry = next(iter(drives.journal.values()), None)
            yield from options.lease_set(
                drives.look(), entry, lease_id="l", name=name, value=value, now_s=0.0, prior=prior,
            )
        yield from options.restore(drives.journal["lease/domain"], drives.look(), prior)

    carried_out(drives, leased(), words, how)


def applied(drives, name, words, **how):
    """A plan sets the other value, is asked again, and is taken back."""
    prior = drives.prior(names=names_of(name))
    now, value = VALUES[name]

    def changed():
        for _ in range(2):
            entry = next(iter(drives.journal.values()), None)
            yield from options.apply(
                drives.look(), entry, action_id="a", name=name, expected=now, value=value,
                now_s=0.0, prior=prior,
            )
        yield from options.restore(drives.journal["action/a"], drives.look(), prior)

    carried_out(drives, changed(), words, how)


def brought_back(drives, name, words, **how):
    """Nothing but the mgr knows what was there."""
    prior = drives.prior(names=names_of(name))
    for values in drives.values.values():
        values[name] = VALUES[name][1]
    carried_out(drives, bring_back(
        prior, drives.look(), owner_id="a", now_s=0.0, kind=EntryKind.ACTION,
    ), words, how)


def carried_out(drives, program, words, how):
    """To its end; after a crash, and after a failure that leaves an entry, the restart's."""
    with contextlib.suppress(WcacheError, Stopped):
        drives.run(told(program, words, **how))
    for entry in tuple(drives.journal.values()):
        with contextlib.suppress(WcacheError):
            drives.run(told(options.restore(entry, drives.look()), words))


def option_cases():
    """Two drives; X is the option, whose values are a and b."""
    for option in OPTIONS:
        if option.place is Place.OSD or option.dirty_in:
            continue  # no probe sets it; what asks for the cache device: test_bcache_above.py
        name, found = option.name, {one: VALUES[one][0] for one in (option.name, *option.resets)}
        if option.place is Place.BCACHE:
            found = {DRAINS: "1", "dirty_data": "0", **found}
        for program in (set_by_lease, applied, brought_back):

            def run(words, program=program, name=name, found=found, **disturbed):
                program(Drives("a", "b", found=found), name, words, **disturbed)

            for how, text in each_end(run):
                for value, letter in zip(VALUES[name], "ab"):
                    text = re.sub(rf"\b{name}={value}\b", f"X={letter}", text)  # noqa: PLW2901
                yield f"{name} {program.__name__}", how, text


def test_options_set_for_a_lease_or_a_plan_and_back():
    require_same("options", listed("two drives; a and b are values of option X", option_cases()))
