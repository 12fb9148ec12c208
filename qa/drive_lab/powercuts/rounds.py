"""One round: the writer writes, things happen to its drive, the power goes, the medium is read."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Optional

from probe_bench import POLL_S
from wcache.core.drive.prior import UNKNOWN, Prior
from wcache.core.protocol import (
    ApplyRequest,
    ReleaseRequest,
    Request,
    RollbackRequest,
    SetModeRequest,
)

from ..lab import DriveHandle
from ..processes import LabError
from .hand import Writing
from .plan import Cut, Event, RoundPlan, Verb
from .referee import Judgement, judge
from .rig import BACK, Rig

CUT_TIMEOUT_S = 900.0
# in what `restore` says of its child; see `restorer.verdict`
KILLED = "ended with code -9"


@dataclass
class RoundResult:
    """What became of a round."""

    plan: RoundPlan
    judgement: Judgement
    volatile: int  # blocks the drive held when its power went
    seconds: float
    events: Counter[Verb]
    killed: int  # programs that died by SIGKILL in the middle of a change
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
        self._wanted = True
        self._cutting = threading.Lock()
        self._delay_s = 0.0
        self.writings: list[Writing] = []
        self.acks: list[tuple[int, int]] = []
        self.volatile = 0
        self.error = "it was not cut"

    def arm(self, delay_s: float) -> None:
        """Start the clock, where it does not run."""
        if not self._armed.is_set():
            self._delay_s = delay_s
            self._armed.set()

    def forget(self) -> None:
        """Cut nothing from here on: the next round may have the drive."""
        with self._cutting:
            self._wanted = False
        self._armed.set()

    def run(self) -> None:
        self._armed.wait()
        time.sleep(self._delay_s)
        with self._cutting:
            if not self._wanted:
                return
            try:
                self.hear()
                self.volatile = self._drive.power_off()
                self.error = ""
            except Exception as error:
                self.error = f"{type(error).__name__}: {error}"

    def hear(self) -> None:
        """Take what was told so far."""
        self.acks = [ack for writing in self.writings for ack in writing.told()]


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
        self._killed = 0
        self._prior: Prior = UNKNOWN  # what the mgr has stored of the drive
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
        try:
            for event in plan.events[:-1]:
                self._do(event)
            self._last(plan.events[-1] if plan.events else None)
        except BaseException:
            self._cut.forget()
            raise
        region = self._read()
        if not self._cut.acks:
            raise LabError("nothing was acknowledged before the cut")
        return RoundResult(
            plan, judge(self._tag, self._cut.acks, region), self._cut.volatile,
            time.monotonic() - self._began, self._events, self._killed, self._switched,
            self._refused, self.log,
        )  # fmt: skip

    # ---- the cut

    def _last(self, event: Optional[Event]) -> None:
        plan = self._plan
        if plan.cut is Cut.MACHINE:
            if event is not None:
                self._do(event)
            time.sleep(plan.cut_after_s)
            self._cut.hear()
            self._cut.volatile = self._rig.lab.power_cut()[plan.drive]
            self._cut.forget()
            self._say("machine cut")
            return
        if plan.cut_during and event is not None:
            self._cut.arm(event.gap_s + plan.cut_at * self._rig.usual_s(event.verb))
        if event is not None:
            self._do(event)
        self._cut.arm(plan.cut_after_s)
        self._cut.join(CUT_TIMEOUT_S)
        if self._cut.error or self._cut.is_alive():
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
        region = rig.volume(plan).read(rig.disk(plan.drive), rig.hand)
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
        began = time.monotonic()
        said = self._perform(event)
        self._rig.took(event.verb, time.monotonic() - began)
        self._say(f"{event.verb.value}: {said}")
        self._events[event.verb] += 1
        after = self._rig.on(self._plan.drive)
        self._switched += before is not after

    def _perform(self, event: Event) -> str:
        probe, plan = self._probe, self._plan
        verb = event.verb
        request: Request
        if verb is Verb.LEASE:
            self._up()
            return self._lease(event)
        if verb is Verb.LEASE_KILLED:
            probe.end()
            probe.start(crash_after=event.step)
            return self._lease(event)
        if verb is Verb.RELEASE:
            self._up()
            request = ReleaseRequest(
                probe.domain_id, f"lease-{probe.name}", prior=self._prior
            )
            return self._way_back(probe.ask(request))
        if verb is Verb.LEASE_ENDED:
            self._up()
            probe.mgr.say(next_poll_s=POLL_S)
            self._prior = UNKNOWN
            return "said"
        if verb is Verb.APPLY:
            self._up()
            request = ApplyRequest(
                probe.domain_id, self._action, plan.prior, event.mode, consent_turn_on=True,
                prior=self._witnessed(),
            )
            return self._outcome(probe.ask(request, lease=False))
        if verb is Verb.ROLLBACK:
            self._up()
            request = RollbackRequest(probe.domain_id, self._action, prior=self._prior)
            return self._way_back(probe.ask(request, lease=False))
        return self._perform_without_mgr(event)

    def _lease(self, event: Event) -> str:
        probe = self._probe
        request = SetModeRequest(
            probe.domain_id, event.mode, consent_turn_on=True, prior=self._witnessed()
        )
        return self._outcome(probe.ask(request))

    def _witnessed(self) -> Prior:
        """What the mgr has stored before the first touch."""
        if not self._prior.known:
            self._prior = self._rig.look(self._plan.drive)
        return self._prior

    def _way_back(self, outcome: Any) -> str:
        said = self._outcome(outcome)
        if said == "state":
            self._prior = UNKNOWN
        return said

    def _perform_without_mgr(self, event: Event) -> str:
        probe, rig, plan = self._probe, self._rig, self._plan
        verb = event.verb
        if verb is Verb.KILL:
            probe.end()
        elif verb is Verb.RESTART:
            probe.end()
            code, _ = probe.restart()
            self._lease_is_over()
            return f"exit {code}"
        elif verb in (Verb.RESTORE, Verb.RESTORE_KILLED):
            probe.end()
            return self._restored(*probe.restore_all(crash_after=event.step))
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

    def _restored(self, code: int, said: str) -> str:
        """What became of `restore --all`, in whose child the steps are taken."""
        if KILLED in said:
            self._killed += 1
            return "killed"
        if code == 0:
            self._lease_is_over()
        else:
            self._refused[said.strip().splitlines()[-1] if said.strip() else str(code)] += 1
        return f"exit {code}"

    def _lease_is_over(self) -> None:
        """The mgr forgets the prior state, unless it is that of an applied change."""
        if self._events[Verb.APPLY] == self._events[Verb.ROLLBACK]:
            self._prior = UNKNOWN

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
            self._killed += 1
            return "killed"
        if outcome["kind"] == "failure":
            self._refused[outcome["message"]] += 1
            return f"failure: {outcome['message']}"
        return str(outcome["kind"])

    def _say(self, text: str) -> None:
        told = sum(writing.count() for writing in self._cut.writings)
        self.log.append(f"{time.monotonic() - self._began:.2f} s, {told} told: {text}")
