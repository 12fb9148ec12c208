"""What happens in a round: all of it follows from the seed and the round's number.

A round is one power cut of one drive, in the middle of what wcache does to it.  What depends
on the machine is only how long each event takes.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum
from typing import Sequence

from wcache.core.model import CacheMode, Transport

from ..osds import Stack

TRANSPORTS = (Transport.SCSI, Transport.SATA, Transport.NVME)
STACKS = (Stack.RAW, Stack.LVM, Stack.LVM_CRYPT)
PATHS = tuple((transport, stack) for transport in TRANSPORTS for stack in STACKS)
CONTROL_EVERY = 20  # rounds
EVENT_COUNTS = (1, 1, 2, 2, 3, 4)
# a boot takes as long as ten rounds
REBOOT_SHARE = 0.02
MACHINE_SHARE = 0.005
# journal, read, pin, read, flush, set, flush, read; an NVMe drive has no pin to set
STEPS = {Transport.SCSI: 8, Transport.SATA: 8, Transport.NVME: 6}
RESTORE_STEPS = {Transport.SCSI: 7, Transport.SATA: 7, Transport.NVME: 5}


class Verb(str, Enum):
    """What can happen to a drive in a round."""

    LEASE = "lease"  # the mgr has the probe hold the drive in a mode
    LEASE_KILLED = "lease, kill -9"  # of the probe, after a step of the change
    RELEASE = "release"
    LEASE_ENDED = "lease ended"  # by a mgr that no longer names it
    APPLY = "apply"
    ROLLBACK = "rollback"
    KILL = "kill -9"  # of the probe, whatever it does
    RESTART = "restart"  # the probe is killed, and started anew
    RESTORE = "restore --all"  # by hand, with no probe
    RESTORE_KILLED = "restore, kill -9"
    RESET = "reset"  # of the LUN or the NVMe controller
    WAKE = "woken"  # the cache comes on unasked, as after a reset of other drives than QEMU's
    OSD_RESTART = "OSD restart"  # its volumes are made anew
    REBOOT = "warm reboot"  # the drive keeps its power


class Cut(str, Enum):
    """What loses its power at the end of a round."""

    DRIVE = "drive"
    MACHINE = "machine"


@dataclass(frozen=True)
class Event:
    """One event, and how long after the one before it."""

    verb: Verb
    gap_s: float
    mode: CacheMode = CacheMode.WRITE_BACK  # of a lease or an apply
    step: int = 0  # after which the probe is killed

    def words(self) -> str:
        """Such as ``+0.12 lease write through``."""
        switches = self.verb in (Verb.LEASE, Verb.LEASE_KILLED, Verb.APPLY)
        more = f" {self.mode.value}" if switches else ""
        return f"+{self.gap_s:.2f} {self.verb.value}{more}{f' step {self.step}' * bool(self.step)}"


@dataclass(frozen=True)
class RoundPlan:
    """A round: a drive, what happens to it, and when its power goes."""

    number: int
    transport: Transport
    stack: Stack
    prior: CacheMode
    events: Sequence[Event]
    cut: Cut
    cut_during: bool  # the last event, or after it
    cut_at: float  # as a part of how long the last event takes
    cut_after_s: float
    direct: bool  # O_DIRECT, or through the page cache
    batch_max: int  # writes that one fdatasync acknowledges
    pause_s: float  # of the writer
    control: bool = False

    @property
    def drive(self) -> str:
        """The drive's name in the lab, such as ``scsi-lvm``."""
        return path_name(self.transport, self.stack)

    def words(self) -> str:
        """The plan in a line."""
        how = "direct" if self.direct else "buffered"
        at = f"{self.cut_at * 100:.0f} % into"
        when = at if self.cut_during else f"{self.cut_after_s:.2f} s after"
        events = ", ".join(event.words() for event in self.events) or "nothing"
        return (
            f"{self.drive}, {self.prior.value}, {how}: {events}; {self.cut.value} cut {when} that"
        )


def path_name(transport: Transport, stack: Stack) -> str:
    """Such as ``scsi-lvm``."""
    return f"{transport.value}-{stack.value}"


def round_plan(seed: int, number: int) -> RoundPlan:
    """The plan of round ``number``, counted from 1."""
    chance = random.Random(f"powercut {seed} {number}")
    transport, stack = _path(seed, number)
    prior = chance.choice(list(CacheMode))
    events = _Events(chance, transport, stack, prior).draw()
    cut = Cut.MACHINE if chance.random() < MACHINE_SHARE else Cut.DRIVE
    during = chance.random() < 0.6
    return RoundPlan(
        number=number,
        transport=transport,
        stack=stack,
        prior=prior,
        events=events,
        cut=cut,
        cut_during=during,
        cut_at=chance.uniform(0.0, 1.1),
        cut_after_s=chance.uniform(0.02, 0.25),
        direct=chance.random() < 0.5,
        batch_max=chance.choice((1, 1, 2, 4)),
        pause_s=chance.choice((0.004, 0.015)),
    )


def control_plan(seed: int, number: int) -> RoundPlan:
    """The positive control that follows round ``number``: the kernel is told not to flush."""
    chance = random.Random(f"control {seed} {number}")
    transport, stack = chance.choice(PATHS)
    return RoundPlan(
        number=number,
        transport=transport,
        stack=stack,
        prior=CacheMode.WRITE_BACK,
        events=(),
        cut=Cut.DRIVE,
        cut_during=False,
        cut_at=1.0,
        cut_after_s=chance.uniform(0.3, 0.8),
        direct=chance.random() < 0.5,
        batch_max=1,
        pause_s=0.001,
        control=True,
    )


def has_control(number: int, last: int) -> bool:
    """Whether a control follows a round: the first, each twelfth after it, and the last."""
    return number % CONTROL_EVERY == 1 or number == last


def _path(seed: int, number: int) -> tuple[Transport, Stack]:
    """Each drive once in each nine rounds, in an order of chance."""
    turn, place = divmod(number - 1, len(PATHS))
    return random.Random(f"order {seed} {turn}").sample(PATHS, len(PATHS))[place]


class _Events:
    """Draws what can follow what."""

    def __init__(
        self, chance: random.Random, transport: Transport, stack: Stack, prior: CacheMode
    ) -> None:
        self._chance = chance
        self._transport = transport
        self._modes = [mode for mode in CacheMode if mode is not prior] * 3 + [prior]
        self._other = self._modes[0]
        self._mode_now = prior
        self._journalled = self._probe_up = self._applied = False

    def draw(self) -> tuple[Event, ...]:
        count = self._chance.choice(EVENT_COUNTS)
        events = [self._next() for _ in range(count)]
        if self._chance.random() < REBOOT_SHARE:
            events.insert(self._chance.randint(1, count), Event(Verb.REBOOT, self._gap_s()))
            del events[max(EVENT_COUNTS) :]
        return tuple(events)

    def _next(self) -> Event:
        weights = self._weights()
        verb = self._chance.choices(list(weights), list(weights.values()))[0]
        mode = CacheMode.WRITE_BACK
        step = 0
        if verb in (Verb.LEASE, Verb.LEASE_KILLED):
            mode = self._chance.choice(self._modes)
        if verb is Verb.APPLY:
            mode = self._other
        if verb is Verb.LEASE_KILLED:
            step = self._chance.randint(1, STEPS[self._transport])
        if verb is Verb.RESTORE_KILLED:
            step = self._chance.randint(1, RESTORE_STEPS[self._transport])
        self._follow(verb)
        return Event(verb, self._gap_s(), mode, step)

    def _gap_s(self) -> float:
        return self._chance.uniform(0.0, 0.3)

    def _weights(self) -> dict[Verb, int]:
        """What makes sense now, and how often."""
        resets = {Verb.WAKE: 3, Verb.OSD_RESTART: 2}
        if self._transport is not Transport.SATA:  # libata lets nobody ask for a reset
            resets[Verb.RESET] = 2
        if not self._journalled:
            return {Verb.LEASE: 5, Verb.LEASE_KILLED: 4, Verb.APPLY: 3, Verb.OSD_RESTART: 1}
        if self._applied:
            return {Verb.ROLLBACK: 4, Verb.KILL: 1, Verb.RESTORE: 1, **resets}
        if not self._probe_up:
            return {Verb.RESTORE: 4, Verb.RESTART: 3, Verb.RESTORE_KILLED: 3, **resets}
        return {
            Verb.LEASE: 2, Verb.RELEASE: 4, Verb.LEASE_ENDED: 2, Verb.KILL: 3, Verb.RESTART: 1,
            Verb.RESTORE: 2, **resets,
        }  # fmt: skip

    def _follow(self, verb: Verb) -> None:
        """What is so after an event, as far as it can be foreseen."""
        if verb in (Verb.LEASE, Verb.LEASE_KILLED, Verb.APPLY):
            self._journalled = True
            self._applied = verb is Verb.APPLY
        ends = verb in (Verb.RELEASE, Verb.LEASE_ENDED, Verb.RESTORE, Verb.RESTART)
        # what is applied stays until it is rolled back
        if verb is Verb.ROLLBACK or (ends and not self._applied):
            self._journalled = self._applied = False
        self._probe_up = verb in (
            Verb.LEASE, Verb.RELEASE, Verb.LEASE_ENDED, Verb.APPLY, Verb.ROLLBACK, Verb.RESTART,
        ) or (self._probe_up and verb in (Verb.RESET, Verb.WAKE, Verb.OSD_RESTART))  # fmt: skip
