"""No order of steps, events and crashes has bcache in writeback above a cache device that can lose.

The cache device is the world of the search over cache modes: a power cut takes what its volatile
cache has where the kernel does not flush.  Each state that it can be found in, each step, and each
thing that happens beside it between two steps are gone through; without any one of the guards the
same search finds acknowledged data that is lost by our doing.  Its steps are as recorded.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import partial
from typing import Optional

import pytest
from recorded_steps import drive_words, listed, require_same, told
from switching_world import EVENTS, World
from wcache.core.drive import safety
from wcache.core.drive.journal import EntryKind, JournalEntry
from wcache.core.drive.prior import prior_from
from wcache.core.errors import RefusedError, WcacheError
from wcache.core.hardware import BcacheState, OptionValue
from wcache.core.host_report import HostReport
from wcache.core.model import (
    CachePage,
    DeviceCache,
    DriveModel,
    DriveReport,
    DriveState,
    KernelView,
    OsdUse,
    Role,
    Transport,
)
from wcache.core.options.option import SharedCache
from wcache_probe.switching import options, steps
from wcache_probe.switching.toggle import bring_back

THROUGH, BACK = "writethrough", "writeback"
AGREED = SharedCache("h", ("nvme0n1 (A C 1)",), ("bcache0",), (0,))


@dataclass(frozen=True)
class Stack:
    """A backing drive in a mode of bcache, above a cache device."""

    cache: World
    mode: str
    silent: bool = False  # the cache device does not say whether its cache is on
    lost: bool = False  # a power cut has shown that its model loses writes
    joined: bool = False  # another bcache device has it as its cache since
    ours: bool = False  # we put it into writeback while that was so, and it is there still

    @property
    def can_lose(self):
        """Whether acknowledged data that is on the cache device alone is lost, or may be."""
        return self.cache.unsafe or self.silent or self.lost or self.joined

    @property
    def backing(self):
        state = DriveState(
            DeviceCache.WRITE_THROUGH, KernelView.WRITE_BACK, None, CachePage(False),
            options=(OptionValue("cache_mode", self.mode), OptionValue("dirty_data", "0")),
        )
        return DriveReport(
            "b", "b", "sda", DriveModel("A", "B", "1"), Transport.SCSI, state,
            uses=(OsdUse(0, Role.BLOCK),), bcache=(BcacheState("bcache0", False, self.mode),),
        )

    @property
    def drives(self):
        state = self.cache.read()
        if self.silent:
            state = replace(state, device_cache=DeviceCache.UNKNOWN)
        names = ("bcache0", "bcache9") if self.joined else ("bcache0",)
        cache = DriveReport(
            "c", "c", "nvme0n1", DriveModel("A", "C", "1"), self.cache.transport, state,
            uses=(OsdUse(0, Role.BLOCK),),
            bcache=tuple(BcacheState(name, True, "unknown") for name in names),
        )
        return self.backing, cache


BESIDE = {
    **{word: lambda s, does=does: replace(s, cache=does(s.cache)) for word, does in EVENTS.items()},
    "the cache device no longer answers": lambda s: replace(s, silent=True),
    "a power cut on another host has lost writes": lambda s: replace(s, lost=True),
    "another bcache device joins": lambda s: replace(s, joined=True),
}


def set_to(value, expected, agreed, stack, entry, prior):
    return options.apply(
        (stack.backing,), entry, action_id="a", name="cache_mode", expected=expected, value=value,
        now_s=0.0, prior=prior, agreed=agreed,
    )


to_writeback = partial(set_to, BACK, THROUGH, AGREED)
to_writethrough = partial(set_to, THROUGH, BACK, None)


def back(stack, entry, prior):
    if entry is not None:
        return options.restore(entry, (stack.backing,), prior)
    return bring_back(
        prior, (stack.backing,), owner_id="a", now_s=0.0, kind=EntryKind.ACTION
    )


# what it is at first, and what is asked of the probe, one after the other
WAYS = {
    "towards it": (THROUGH, (to_writeback,)),
    "towards it, and asked again": (THROUGH, (to_writeback, to_writeback)),
    "towards it and back": (THROUGH, (to_writeback, back)),
    "away and back to it": (BACK, (to_writethrough, back)),
}


class Run:
    """A way through a stack, with something that happens before one step, and a crash at one."""

    def __init__(self, stack, event=None, event_at=-1, crash_at=-1):
        self.stack, self.entry = stack, None
        self._event, self._event_at, self._crash_at = event, event_at, crash_at
        self.steps = 0
        self.words = []

    def end(self, programs):
        """Itself at its end; the mgr asks anew for what a crash has cut off."""
        prior = prior_from("", "b", (self.stack.backing,), ("cache_mode",))
        for program in programs:
            while not self._carry_out(program(self.stack, self.entry, prior)):
                pass
        return self

    def _carry_out(self, program):
        program = told(program, self.words)
        result: Optional[DriveState] = None
        failure = None
        while True:
            try:
                step = program.throw(failure) if failure else program.send(result)
            except (StopIteration, WcacheError):
                return True
            if self.steps == self._event_at:
                self.stack = BESIDE[self._event](self.stack)
            self.steps += 1
            result, failure = None, None
            try:
                result = self._do(step)
            except RefusedError as error:
                failure = error
            if self.steps - 1 == self._crash_at:
                self.words.append("KILLED")
                return False

    def _do(self, step):
        stack = self.stack
        if isinstance(step, steps.ReadOptions):
            return stack.backing.state
        if isinstance(step, steps.WriteJournal):
            self.entry: Optional[JournalEntry] = step.entry
        elif isinstance(step, steps.RemoveJournal):
            self.entry = None
        elif isinstance(step, steps.AskCache):
            lost = {"A C 1": "h1: lost"} if stack.lost else {}
            why = safety.writeback_refusal(
                HostReport("h", "", stack.drives), (stack.backing,), lost, step.agreed
            )
            if why:
                raise RefusedError(why)
        else:
            assert isinstance(step, steps.SetOption)
            ours = step.value == BACK and stack.can_lose and not (step.back and stack.joined)
            self.stack = replace(stack, mode=step.value, ours=ours)
        return None


def stacks(mode):
    """Every state that the cache device can be found in, and what may be known of it."""
    for transport, on, view, layer, more in itertools.product(
        (Transport.SCSI, Transport.NVME), (True, False), (True, False), (None, True, False),
        ({}, {"silent": True}, {"lost": True}),
    ):
        yield Stack(World(transport, on, True, False, view, layer=layer), mode, **more)


def ends():
    """The run of every way: with nothing beside it, with one thing before a step, with a crash."""
    for name, (mode, programs) in WAYS.items():
        for stack in stacks(mode):
            first = Run(stack)
            yield name, stack, (), first.end(programs)
            # of one that can lose writes from the beginning there is no more to learn
            for n in () if stack.can_lose else range(first.steps):
                yield name, stack, (n,), Run(stack, crash_at=n).end(programs)
                for word in BESIDE:
                    yield name, stack, (word, n), Run(stack, word, n).end(programs)


def unsafe():
    """The ways that end in writeback by our doing above a cache device that can lose writes."""
    return ((name, stack, how) for name, stack, how, run in ends() if run.stack.ours)


@pytest.mark.slow
def test_a_crash_and_then_one_thing_beside_it_have_the_mgr_ask_anew():
    for stack in stacks(THROUGH):
        if stack.can_lose:
            continue
        length = Run(stack)
        length.end((to_writeback,))
        for crash_at, word in itertools.product(range(length.steps), BESIDE):
            end = Run(stack, word, crash_at + 1, crash_at).end((to_writeback,)).stack
            assert not end.ours, (stack, word, crash_at)


@pytest.mark.slow
def test_no_way_has_acknowledged_data_on_a_cache_device_that_can_lose_it():
    all_ends = list(ends())
    assert [way[:3] for way in all_ends if way[3].stack.ours] == []
    assert len(all_ends) > 1500
    require_same("bcache", listed("bcache's mode above its cache device", (
        (f"{name}: {drive_words(stack.cache)} on-{stack.cache.on:d}"
         + " silent" * stack.silent + " lost" * stack.lost,
         ("calm", "killed", "beside")[len(how)], " ".join(run.words))
        for name, stack, how, run in all_ends
    )))
    assert {run.stack.mode for *_, run in all_ends} == {THROUGH, BACK}


def test_above_one_that_keeps_what_it_has_every_way_gets_where_it_was_to():
    sound = Stack(World(Transport.SCSI, True, True, False, True), THROUGH)
    assert Run(sound).end((to_writeback,)).stack.mode == BACK
    assert Run(replace(sound, mode=BACK)).end((to_writethrough, back)).stack.mode == BACK
    assert Run(sound).end((to_writeback, back)).stack.mode == THROUGH


def never_asked(monkeypatch):
    monkeypatch.setattr(safety, "writeback_refusal", lambda *told: "")


def reason_gone(name):
    """One of the reasons of `may_rest_on` does not count."""
    def without(monkeypatch):
        asked = safety.may_rest_on

        def blind(drive, lost, **how):
            why = asked(drive, lost, **how)
            return "" if name in why else why

        monkeypatch.setattr(safety, "may_rest_on", blind)
    return without


def consent_that_names_nothing(monkeypatch):
    asked = safety.writeback_refusal
    monkeypatch.setattr(
        safety, "writeback_refusal",
        lambda report, drives, lost, agreed: asked(report, drives, lost),
    )


def asked_once(monkeypatch):
    """Not again once the mode is set."""
    set_ = options._set
    monkeypatch.setattr(
        options, "_set", lambda found, name, value, asked=(): set_(found, name, value)
    )


def not_asked_by_apply(monkeypatch):
    monkeypatch.setattr(options, "_ask", lambda asked: iter(()))


def not_on_a_way_back(monkeypatch):
    def set_back(drive, prior, now):
        yield steps.SetOption(drive, prior.name, prior.value, back=True)

    monkeypatch.setattr(options, "_set_back", set_back)


@pytest.mark.slow
@pytest.mark.parametrize("taken_out", [
    never_asked, reason_gone("does not flush"), reason_gone("is unknown"),
    reason_gone("lose writes"), consent_that_names_nothing, asked_once, not_asked_by_apply,
    not_on_a_way_back,
], ids=lambda one: getattr(one, "__name__", ""))
def test_without_one_of_the_guards_the_search_finds_what_is_lost(monkeypatch, taken_out):
    taken_out(monkeypatch)
    assert any(unsafe())
