"""One round: the writer writes, things happen to its drive, the power goes, the medium is read."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Optional

from wcache.core.protocol import ReleaseRequest, RollbackRequest

from ..lab import DriveHandle
from ..processes import LabError
from .plan import Cut, Event, RoundPlan, Verb
from .referee import Judgement, judge
from .rig import BACK, Rig
from .writer import Writing

CUT_TIMEOUT_S = 120.0
SIGKILL = -9


@dataclass
class RoundResult:
    """What became of a round."""

    plan: RoundPlan
    judgement: Judgement
    volatile: int  # blocks the drive held when its power went
    seconds: float
    events: Counter[Verb]
    switched: int  # how often the drive changed its mode
    refused: Counter[str]
    log: list[str] = field(default_factory=list)


class DriveCut(threading.Thread):
    """Cuts the power of one drive, some time after it is armed.

    What the writer told before that is what the drive has to answer for.
    """

    def __init__(self, drive: DriveHandle) -> None:
        super().__init__(daemon=True)
        self._drive = drive
        self._armed = threading.Event()
        self._delay_s = 0.0
        self.writings: list[Writing] = []
        self.acks: list[tuple[int, int]] = []
        self.volatile = 0
        self.error: Optional[Exception] = None

    def arm(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._armed.set()

    def run(self) -> None:
        try:
            if self._armed.wait(CUT_TIMEOUT_S):
                time.sleep(self._delay_s)
                self.now()
        except Exception as error:
            self.error = error

    def now(self) -> None:
        """Hear what was told so far, then cut."""
        self.acks = [ack for writing in self.writings for ack in writing.told()]
        self.volatile = self._drive.power_off()


class Round:
    """Plays one plan on a rig."""

    def __init__(self, rig: Rig, plan: RoundPlan, seed: int) -> None:
        self._rig = rig
        self._plan = plan
        # of no other round or control of this run, and of no other seed's
        self._tag = (seed & 0xFFFFFFFF) << 32 | plan.number << 1 | plan.control
        self._probe = rig.probe(plan.drive)
        self._handle = rig.lab.drive(plan.drive)
        self._cut = DriveCut(self._handle)
        self._events: Counter[Verb] = Counter()
        self._refused: Counter[str] = Counter()
        self._switched = 0
        self._began = 0.0
        self.log: list[str] = []

    def play(self) -> RoundResult:
        """Raises LabError, OSError or AssertionError where the round can't be judged."""
        self._began = time.monotonic()
        plan, rig = self._plan, self._rig
        rig.begin(plan)
        if plan.control:
            rig.lower(plan.drive)
        self._say("ready")
        self._write()
        self._say("the writer writes")
        self._cut.start()
        for event in plan.events[:-1]:
            self._do(event)
        self._last(plan.events[-1] if plan.events else None)
        region = self._read()
        return RoundResult(
            plan, judge(self._tag, self._cut.acks, region), self._cut.volatile,
            time.monotonic() - self._began, self._events, self._switched, self._refused, self.log,
        )  # fmt: skip

    # ---- the cut

    def _last(self, event: Optional[Event]) -> None:
        plan = self._plan
        if plan.cut is Cut.MACHINE:
            if event is not None:
                self._do(event)
            time.sleep(plan.cut_delay_s)
            self._cut.acks = [ack for writing in self._cut.writings for ack in writing.told()]
            self._cut.volatile = self._rig.lab.power_cut()[plan.drive]
            self._say("machine cut")
            return
        if plan.cut_during:
            self._cut.arm(plan.cut_delay_s)
        if event is not None:
            self._do(event)
        self._cut.arm(plan.cut_delay_s)
        self._cut.join(CUT_TIMEOUT_S)
        if self._cut.error is not None or self._cut.is_alive():
            raise LabError(f"the power of {plan.drive} could not be cut: {self._cut.error}")
        self._say("drive cut")

    def _read(self) -> bytes:
        plan, rig = self._plan, self._rig
        if plan.cut is Cut.MACHINE:
            rig.power_cycle()
            rig.open(plan)
        else:
            ended = self._cut.writings[-1].stop()
            if ended != "stopped":
                raise LabError(f"the writer on {plan.drive}: {ended}")
        region = rig.volume(plan).read(rig.disk(plan.drive))
        self._handle.power_on()
        self._probe.end()
        self._say("read")
        return region

    # ---- events

    def _write(self) -> None:
        first = sum(writing.count() for writing in self._cut.writings)
        # a write that was not told may be on the medium, under a number of its own
        first += 1000 * len(self._cut.writings)
        self._cut.writings.append(self._rig.write(self._plan, self._tag, first))

    def _do(self, event: Event) -> None:
        time.sleep(event.gap_s)
        before = self._rig.on(self._plan.drive)
        self._say(f"begins {event.verb.value}")
        said = self._perform(event)
        self._say(f"{event.verb.value}: {said}")
        self._events[event.verb] += 1
        after = self._rig.on(self._plan.drive)
        self._switched += before is not after

    def _perform(self, event: Event) -> str:
        probe, plan = self._probe, self._plan
        verb = event.verb
        if verb is Verb.LEASE:
            self._up()
            return self._outcome(probe.ask_mode(event.mode))
        if verb is Verb.LEASE_KILLED:
            probe.end()
            return self._outcome(probe.set_mode(event.mode, crash_after=event.step))
        if verb is Verb.RELEASE:
            self._up()
            return self._outcome(probe.ask(ReleaseRequest(probe.domain_id)))
        if verb is Verb.LEASE_ENDED:
            self._up()
            probe.mgr.say(next_poll_s=0.1)
            return "said"
        if verb is Verb.APPLY:
            probe.end()
            return self._outcome(
                probe.apply(self._action, plan.prior, event.mode, consent=True)
            )
        if verb is Verb.ROLLBACK:
            self._up()
            request = RollbackRequest(probe.domain_id, self._action)
            return self._outcome(probe.ask(request, lease=False))
        return self._perform_without_mgr(event)

    def _perform_without_mgr(self, event: Event) -> str:
        probe, rig, plan = self._probe, self._rig, self._plan
        verb = event.verb
        if verb is Verb.KILL:
            probe.end()
        elif verb is Verb.RESTART:
            probe.end()
            return f"exit {probe.restart()[0]}"
        elif verb in (Verb.RESTORE, Verb.RESTORE_KILLED):
            probe.end()
            code, said = probe.restore_all(crash_after=event.step)
            if code not in (0, SIGKILL):
                self._refused[said.strip().splitlines()[-1] if said.strip() else str(code)] += 1
            return f"exit {code}"
        elif verb is Verb.RESET:
            probe.reset("device")
        elif verb is Verb.WAKE:
            return self._wake()
        elif verb is Verb.OSD_RESTART:
            self._stop_writing()
            rig.osd_restart(plan)
            self._write()
        elif verb is Verb.REBOOT:
            rig.warm_reboot()
            rig.open(plan)
            self._write()
            probe.start()
        return "done"

    def _wake(self) -> str:
        """A drive that wcache turned off comes on again: all that is on it must flush now.

        One that was off before is none of wcache's doing, unless the kernel flushes.
        """
        name = self._plan.drive
        if self._rig.on(name):
            return "was on"
        if self._plan.prior is not BACK and not self._rig.flushes(name):
            return "was off before"
        self._probe.behind_our_back(BACK)
        return "on"

    def _stop_writing(self) -> None:
        ended = self._cut.writings[-1].stop()
        if ended != "stopped":
            raise LabError(f"the writer on {self._plan.drive}: {ended}")

    def _up(self) -> None:
        if self._probe.running is None or self._probe.running.ended() is not None:
            self._probe.start()

    @property
    def _action(self) -> str:
        return f"cut-{self._plan.number}"

    def _outcome(self, outcome: Any) -> str:
        if outcome is None:
            return "died"
        if outcome["kind"] == "failure":
            self._refused[outcome["message"]] += 1
            return f"failure: {outcome['message']}"
        return str(outcome["kind"])

    def _say(self, text: str) -> None:
        told = sum(writing.count() for writing in self._cut.writings)
        self.log.append(f"{time.monotonic() - self._began:.2f} s, {told} told: {text}")
