"""What happens to the boot rule between a look at a drive and its toggle loses no data.

The search of `switching_search.py` goes through every order of steps, crashes, resets and new
kernels.  What keeps a drive from being toggled, and the rule from being taken away, is asked of
the probe's own code here, on a host for each situation; each guard is then taken out in turn.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from dataclasses import replace
from typing import NamedTuple

import pytest
from prepare_bench import TOOL, Builder, booted, entry_of, host_of, preparation, prepare
from switching_scripts import recovery, restored, with_most_to_lose
from switching_search import explore
from switching_world import (
    ELSEWHERE,
    ENTRY,
    LOST,
    NEWER,
    OURS,
    THROUGH,
    Beside,
    Survey,
    World,
    boots,
    looked_at,
)
from wcache.core.drive.journal import encode
from wcache.core.errors import ConflictError, NotFoundError, StorageError
from wcache.core.model import Transport
from wcache_probe.arguments import parse
from wcache_probe.commands.prepare import unprepare
from wcache_probe.journal.journal_file import StateFolder
from wcache_probe.linux.persistence.prepare import Preparer
from wcache_probe.switching import toggle as sw

TRANSPORTS = pytest.mark.parametrize(
    "transport", [Transport.SCSI, Transport.SATA], ids=lambda t: t.value
)


# ---- what the probe says of a host in each situation


class Situation(NamedTuple):
    """Whether the rule is there, what the next boot is from, and what is in RAM."""

    boot_rule: bool
    image: str
    etc_in_ram: bool
    journal_in_ram: bool


def situation_of(world):
    return Situation(world.boot_rule, world.image, world.etc_in_ram, world.journal_in_ram)


SITUATIONS = [
    Situation(*each) for each in itertools.product(
        (True, False), (OURS, NEWER, ELSEWHERE), (True, False), (True, False)
    )
]


def said_in(fake, situation):
    """Why the probe would not toggle the drive of such a host."""
    host = host_of(fake)
    booted(fake, "first", size=0x30201)
    if situation.boot_rule:
        builder = Builder(fake, "initrd.img-6.1")
        assert prepare(fake, host, tool=TOOL, run_tool=builder)[0] == 0
    if situation.image == NEWER:
        fake.write("boot/initrd.img-6.9", "lacks the rule")
    noted = preparation(fake).rule_text() if situation.image != ELSEWHERE else None
    booted(fake, "second", noted=noted)
    points = ["/etc"] * situation.etc_in_ram + ["/state"] * situation.journal_in_ram
    fake.write("proc/self/mountinfo", "".join(
        f"29 1 0:9 / {fake.root}{point} rw - tmpfs none rw\n" for point in points
    ))
    return host.look()[0].toggle_refusal


def may_unprepare(fake, *, journal, on):
    """Whether the probe takes the rule away, with a journal entry or with a drive that is off."""
    host = host_of(fake)
    prepare(fake, host)
    os.chmod(fake.root / "state", 0o700)
    state = StateFolder(str(fake.root / "state"), str(fake.root / "run"))
    (drive,) = host.look()
    entry = entry_of((drive,))
    if journal:
        state.journal.write(entry.key, encode(entry))
    if not on:
        host.pin(drive)
        host.set_cache(drive, THROUGH)
    options = parse(["unprepare", "--state-dir", state.path, "--run-dir", str(fake.root / "run")])
    made = Preparer(preparation(fake), lambda line: None, reload_udev=lambda: "")
    with contextlib.suppress(ConflictError):
        unprepare(options, made, host)
    return not preparation(fake).rule_text()


def may_prepare(fake, *, etc_in_ram):
    """Whether the probe writes its rule without an admin's word."""
    host = host_of(fake)
    if etc_in_ram:
        fake.write(
            "proc/self/mountinfo", f"29 1 0:9 / {fake.root}/etc rw - tmpfs none rw\n"
        )
    with contextlib.suppress(NotFoundError, StorageError):
        prepare(fake, host)
    return bool(preparation(fake).rule_text())


@pytest.fixture(scope="module")
def probe(tmp_path_factory, new_host):
    """The probe's own answers."""
    top = tmp_path_factory.mktemp("hosts").resolve()
    hosts = (new_host(top / str(number)) for number in itertools.count())
    return Answers(
        {each: said_in(next(hosts), each) for each in SITUATIONS},
        {
            (journal, on): may_unprepare(next(hosts), journal=journal, on=on)
            for journal, on in itertools.product((True, False), repeat=2)
        },
        {in_ram: may_prepare(next(hosts), etc_in_ram=in_ram) for in_ram in (True, False)},
    )


class Answers(NamedTuple):
    """What the probe says: of a toggle, of `unprepare` and of `prepare`."""

    refusals: dict
    unprepares: dict
    prepares: dict

    def refusal(self, world):
        return self.refusals[situation_of(world)]

    def without(self, guard):
        """The same probe with one of its guards taken out."""
        refusals, unprepares = dict(self.refusals), dict(self.unprepares)
        for each in self.refusals:
            blind = each
            if guard == "made since":
                blind = each._replace(image=OURS if each.image == NEWER else each.image)
            elif guard == "booted by":
                blind = each._replace(image=OURS if each.image == ELSEWHERE else each.image)
            elif guard == "etc in RAM":
                blind = each._replace(etc_in_ram=False)
            elif guard == "journal in RAM":
                blind = each._replace(journal_in_ram=False)
            refusals[each] = self.refusals[blind]
        if guard == "unprepare looks at the journal":
            unprepares[True, True] = unprepares[False, True]
            unprepares[True, False] = unprepares[False, False]
        if guard == "unprepare looks at the drive":
            unprepares[False, False] = unprepares[False, True]
        if guard == "unprepare looks at anything":
            unprepares = dict.fromkeys(unprepares, True)
        return Answers(refusals, unprepares, self.prepares)


# ---- what happens beside a change


def unprepared(answers):
    def happens(world, journal):
        allowed = answers.unprepares[journal is not None, world.on]
        return replace(world, boot_rule=False) if allowed else world

    return Beside("UNPREPARE", happens)


def prepared(answers):
    def happens(world, _journal):
        allowed = answers.prepares[world.etc_in_ram]
        return replace(world, boot_rule=True, image=OURS) if allowed else world

    return Beside("PREPARE", happens)


def another_image(_answers):
    return Beside("ANOTHER IMAGE", lambda world, _journal: replace(world, image=NEWER))


def root_in_ram(_answers):
    return Beside(
        "ROOT IN RAM",
        lambda world, _journal: replace(world, etc_in_ram=True, journal_in_ram=True),
    )


def state_in_ram(_answers):
    return Beside("STATE IN RAM", lambda world, _journal: replace(world, journal_in_ram=True))


EVENTS = (unprepared, prepared, another_image, root_in_ram, state_in_ram)


def change(surveyed, entry, kind):
    terms = {"mode": THROUGH, "now_s": 0.0, "throwaway": False, "consent_turn_on": False}
    if kind == "lease":
        return sw.lease_set(surveyed, entry, lease_id="l", **terms)
    return sw.apply(
        surveyed, entry, action_id="a", expected=THROUGH.other, persist=False, **terms
    )


def changed_amid(answers, events, kind="lease", *, asked_again=True, locked=True):
    """A change as the probe makes it, with these events between its survey and its toggle.

    Without the lock they come after the look under it.
    """

    def script():
        drives = yield Survey(answers.refusal)
        for event in events if locked else ():
            yield event(answers)
        if asked_again:
            drives = yield Survey(answers.refusal, "look under the lock")
        for event in () if locked else events:
            yield event(answers)
        entry = yield ENTRY
        yield from change(drives, entry, kind)

    return script


def changed_then(answers, *events, accepted=False):
    """A change, and these events once it is made; `accepted` gives up its journal entry."""

    def script():
        drives = yield Survey(answers.refusal)
        yield from change(drives, None, "apply" if accepted else "lease")
        if accepted:
            yield LOST
        for event in events:
            yield event(answers)
        yield from restored()

    return script


def unsafe_ways(script, transport, **begin):
    begin.setdefault("boot_rule", True)
    found = []
    for world in with_most_to_lose(transport, **begin):
        found += explore(script, recovery, world, 2)[0]
    return found


def named(events):
    return "+".join(event.__name__ for event in events)


AMID = [
    *(pytest.param((event,), id=event.__name__) for event in EVENTS),
    *(
        pytest.param(events, id=named(events), marks=pytest.mark.slow)
        for events in itertools.permutations(EVENTS, 2)
    ),
]


@pytest.mark.slow
@TRANSPORTS
@pytest.mark.parametrize("kind", ["lease", "apply"])
@pytest.mark.parametrize("boot_rule", [True, False], ids=["prepared", "not prepared"])
@pytest.mark.parametrize("events", AMID)
def test_nothing_that_comes_between_survey_and_toggle_loses_data(
    probe, events, transport, kind, boot_rule
):
    script = changed_amid(probe, events, kind)
    assert unsafe_ways(script, transport, boot_rule=boot_rule) == []


@TRANSPORTS
def test_a_host_that_is_booted_from_elsewhere_or_lies_in_ram_is_not_changed(probe, transport):
    for begin in ({"image": ELSEWHERE}, {"etc_in_ram": True}, {"image": NEWER}):
        assert unsafe_ways(changed_amid(probe, ()), transport, **begin) == []


@TRANSPORTS
@pytest.mark.parametrize("accepted", [False, True], ids=["leased", "accepted as it is"])
def test_unprepare_after_the_toggle_loses_no_data(probe, transport, accepted):
    assert unsafe_ways(changed_then(probe, unprepared, accepted=accepted), transport) == []


def test_the_search_changes_a_drive_where_nothing_speaks_against_it(probe):
    """Else it would find nothing because nothing was done."""
    (world, *_) = with_most_to_lose(Transport.SCSI, boot_rule=True)
    _, _, ends = explore(changed_amid(probe, ()), recovery, world, 0)
    assert any(not end.world.on for end in ends)
    _, _, ends = explore(changed_amid(probe, (prepared,)), recovery,
                         replace(world, boot_rule=False), 0)
    assert any(not end.world.on for end in ends)


# Each guard is needed
@pytest.mark.slow
@TRANSPORTS
@pytest.mark.parametrize(
    ("guard", "events", "begin"),
    [
        ("made since", (another_image,), {}),
        ("etc in RAM", (root_in_ram,), {}),
        ("booted by", (), {"image": ELSEWHERE}),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_without_one_of_its_guards_a_change_loses_data(probe, transport, guard, events, begin):
    answers = probe.without(guard)
    if guard == "etc in RAM":
        answers = answers.without("journal in RAM")
    assert unsafe_ways(changed_amid(answers, events), transport, **begin)
    assert not unsafe_ways(changed_amid(probe, events), transport, **begin)


@TRANSPORTS
@pytest.mark.parametrize(
    "event", [unprepared, another_image, root_in_ram], ids=lambda event: event.__name__
)
def test_without_the_look_under_the_lock_a_change_loses_data(probe, transport, event):
    assert unsafe_ways(changed_amid(probe, (event,), asked_again=False), transport)


@TRANSPORTS
def test_without_the_lock_between_a_look_and_a_toggle_unprepare_loses_data(probe, transport):
    assert unsafe_ways(changed_amid(probe, (unprepared,), locked=False), transport)


@pytest.mark.slow
@TRANSPORTS
@pytest.mark.parametrize(
    ("guard", "accepted"),
    [("unprepare looks at anything", False), ("unprepare looks at the drive", True)],
)
def test_an_unprepare_without_its_guards_loses_data(probe, transport, guard, accepted):
    script = changed_then(probe.without(guard), unprepared, accepted=accepted)
    assert unsafe_ways(script, transport)


# ---- what was there before


def lost_priors(script, world):
    """Ways to an end at which the drive is not as it was and no journal knows how it was."""
    _, _, ends = explore(script, recovery, world, 1)
    return [
        end.way for end in ends
        if end.world.on is not world.on and end.journal is None and end.twin.on is world.on
    ]


@pytest.mark.parametrize(
    "transport", [Transport.SCSI, Transport.SATA, Transport.NVME], ids=lambda t: t.value
)
def test_a_journal_in_ram_takes_no_prior_state_to_the_next_boot_and_gets_none(probe, transport):
    if transport is Transport.NVME:
        # it needs no rule: of its host the journal alone counts
        probe = Answers(
            {each: why if each.journal_in_ram else "" for each, why in probe.refusals.items()},
            probe.unprepares, probe.prepares,
        )
    (world, *_) = with_most_to_lose(transport, boot_rule=True)
    for event in (state_in_ram, root_in_ram):
        assert lost_priors(changed_amid(probe, (event,)), world) == []
    blind = probe.without("journal in RAM")
    assert lost_priors(changed_amid(blind, (state_in_ram,)), world)


def test_the_model_of_a_boot_is_that_of_a_disk_that_appears_where_all_is_as_it_should_be():
    world = World(Transport.SCSI, False, True, False, False, layer=False, boot_rule=True)
    assert boots(world).layer
    assert boots(replace(world, image=NEWER)).layer is False
    assert boots(replace(world, etc_in_ram=True)).layer is False
    assert looked_at(Transport.SCSI, world.read(), "no")[0].toggle_refusal == "no"
