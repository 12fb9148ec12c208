"""What a rollout asks for next: to go on, to make last, or to go back.

What was judged is what is there: a host may have been reset since, or somebody else has changed a
drive back.  So each drive is read before its change counts as applied.
To change now and to make it last are two consents.  The second may come when a plan is done;
where a drive does not keep it then, what is changed stays as it is, for it was judged well.

The way back of a rollout: last change first, each read back, each tried though others fail.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import List, Tuple

from .. import events
from ..codec import one_line
from ..protocol import MeasureRequest
from ..record import Precondition
from ..text import named
from .change import TOUCHED, Change, ChangeStatus
from .gate.gate_state import GateStep, Harm
from .preconditions import LOOK_EVERY_S
from .rollout_base import MID_CHANGE, Phase, RolloutBase
from .rollout_state import BY_ADMIN, RolloutStatus, Worse, not_lasting
from .waves import holds_back, waits_for

# A probe that is gone is asked for so long to take a change back.
PROBE_AWAITED_S = 3600.0
ASKED_BACK = "an admin asked for it"
# How a change's detail begins where its drive did not keep it.
NOT_KEPT = "does not last"


@dataclass
class Asking(RolloutBase):
    """Asks for what comes next; what is answered is the machine's."""

    # ---- backwards

    @property
    def _in_doubt(self) -> Tuple[int, ...]:
        """What is asked for, or made and not judged."""
        rollout = self.rollout
        return (*rollout.all_in(ChangeStatus.APPLYING), *rollout.unjudged)

    @property
    def would_go_back(self) -> Tuple[Change, ...]:
        """What an abort would take back now: the wave under way, where some of it is not judged."""
        if self.rollout.afterwards or not self._in_doubt:
            return ()
        return tuple(self.rollout.changes[index] for index in self._goes_back())

    def _goes_back(self) -> List[int]:
        """What is in doubt, and what else the wave under way has touched."""
        rollout, doubted = self.rollout, self._in_doubt
        index = min(doubted) if doubted else rollout.current_index
        wave = -1 if index is None else rollout.wave_of(index)
        # what was put off comes after its wave, of which the rest was judged long ago
        wave = wave if wave == self.rollout.wave_begun else -1
        return [
            index for index, item in enumerate(rollout.changes) if index in doubted
            or (item.status in TOUCHED and rollout.wave_of(index) == wave)
        ]

    def start_rollback(self) -> List[events.Action]:
        """Take back every change that touched its drive, last first: an admin wants it."""
        changes = enumerate(self.rollout.changes)
        touched = [index for index, item in changes if item.status in TOUCHED]
        self._put_all(touched, status=ChangeStatus.ROLLING_BACK, detail=ASKED_BACK)
        self._set(
            RolloutStatus.ROLLING_BACK, reason=BY_ADMIN, by_will=True, step=GateStep(),
            pausing="", afterwards=False,
        )
        self._silent_since_s, self._not_yet = None, ""
        return self._next_back()

    def _worse(self, indices: Tuple[int, ...], why: str) -> List[events.Action]:
        """These changes made commits slower: that is kept, and their wave goes back."""
        self._have(worse=Worse(indices, one_line(why), self._now_s))
        return self._take_back(why)

    def _take_back_unjudged(self, why: str) -> List[events.Action]:
        """It goes back, and says nothing of its drive model."""
        self._have(undone=True)
        return self._take_back(why)

    def _take_back(self, why: str) -> List[events.Action]:
        """The wave under way goes back; what waves before it have changed stays."""
        why = one_line(why)
        self._doubts, self._resumed = 0, False
        self._silent_since_s, self._not_yet = None, ""
        self._put_all(self._goes_back(), status=ChangeStatus.ROLLING_BACK, detail=why)
        self._set(
            RolloutStatus.ROLLING_BACK, reason=why, pausing="",
            step=replace(self.rollout.step, indices=(), before=()),
        )
        return [events.Note(f"rolling back: {why}", "warning"), *self._next_back()]

    def _next_back(self) -> List[events.Action]:
        change = self.current
        if change is None:
            final = RolloutStatus.STOPPED if self.rollout.touched else RolloutStatus.ROLLED_BACK
            self._set(final)
            return self._idle(events.Note(final.value))
        back = change.setting.back(self.rollout.warrant(change))
        return [events.SaveRun(), self._ask(back, Phase.BACK)]

    def _went_back(self, outcome: object) -> List[events.Action]:
        self._silent_since_s = None
        change, found = self._one.went_back(outcome)
        if found.not_back:
            return self._not_back(change, found.not_back)
        if found.not_yet:
            self._keep(replace(change, status=ChangeStatus.ENDING_BACK))
            if self.rollout.all_in(ChangeStatus.ROLLING_BACK):
                return self._next_back()
            return self._again_later(found.not_yet, Phase.PAUSED_BACK)
        self._not_yet = ""
        if found.left_alone:
            self._have(reason=one_line(f"{self.rollout.reason}; {found.left_alone}"))
        self._keep(replace(change, status=ChangeStatus.ROLLED_BACK))
        if not (change.back_wait_s and self.current is not None):
            return self._next_back()
        return self._wait(change.back_wait_s, Phase.PAUSED_BACK)

    def _not_back(self, change: Change, why: str) -> List[events.Action]:
        """This one is not back; the others are still tried, and it can be tried again.

        But values that were set before it in its order: to an earlier step of the same value what
        it left would be another's, and memory that it did not give back has no other OSD.
        """
        self._silent_since_s = None
        self._keep(replace(change, status=ChangeStatus.ROLLBACK_FAILED, detail=one_line(why)))
        if change.setting.IN_ORDER:
            held, changes = holds_back(change), self.rollout.changes
            self._put_all(
                (
                    index for index in self.rollout.all_in(ChangeStatus.ROLLING_BACK)
                    if not held.isdisjoint(waits_for(changes[index]))
                ),
                status=ChangeStatus.ROLLBACK_FAILED,
                detail=one_line(f"not before {change.name}: {why}"),
            )
        return self._next_back()

    def _silent_back(self, change: Change, detail: str, removed: bool) -> List[events.Action]:
        """A probe that is gone may come back: it is asked again for a while.

        Of a host that was removed nobody expects that: an admin has given it up.
        """
        begun_s = self._silent_since_s
        if removed:
            return self._not_back(change, f"given up: {detail}")
        if begun_s is not None and self._now_s - begun_s >= PROBE_AWAITED_S:
            unanswered, _ = change.went_back(None)
            return self._not_back(unanswered, detail)
        self._wait_until_s = self._now_s + LOOK_EVERY_S
        if begun_s is not None:
            return []
        self._silent_since_s = self._now_s
        return [events.Note(f"the rollback waits for a probe: {detail}", "warning")]

    # ---- forwards

    def _go_on(self) -> List[events.Action]:
        """From what is stored: after a restart of the mgr, a pause, or a probe that came back."""
        rollout, change = self.rollout, self.current
        if rollout.step.last:
            return self._make_last()
        if change is not None and change.status is ChangeStatus.APPLYING:
            if rollout.trial:
                return self._take_back("the mgr was restarted during the trial")
            return self._apply_again()
        if rollout.unjudged or (rollout.in_step and rollout.step.before):
            return self._next_of_step()
        return self._next()

    def _next(self) -> List[events.Action]:
        """Begin the next step, or end."""
        if self.rollout.pausing:
            return self._pause(self.rollout.pausing)
        change = self.current
        if change is None:
            refused = len(self.rollout.all_in(ChangeStatus.REFUSED))
            self._set(
                RolloutStatus.DONE, reason=f"{refused} refused by the drive" if refused else ""
            )
            return self._idle(events.Note("done"))
        # one that is ill is put off before anything is asked of it
        first = bool(self.rollout.missed) or change.has_clients
        return [events.SaveRun(), *(self._check() if first else self._measure(Phase.BEFORE))]

    def _next_of_step(self) -> List[events.Action]:
        """The next change of the step, or its judgement once all are made."""
        if self.rollout.pausing:
            return self._pause(self.rollout.pausing)
        if self.rollout.in_step:
            return self._check()
        if not self.rollout.unjudged:
            return self._step_over()
        waits = [self.rollout.changes[i].wait_s for i in self.rollout.unjudged]
        return self._wait(max(self.rollout.settle_s, *waits))

    def _step_over(self) -> List[events.Action]:
        rollout, step = self.rollout, self.rollout.step
        took = (*rollout.judged_s, self._now_s - rollout.step_at_s)[-64:]
        verdict = step.judgement
        self._have(
            step=GateStep(judgement=verdict), judged_s=took if verdict else rollout.judged_s
        )
        return self._next()

    def _check(self) -> List[events.Action]:
        """Look whether the preconditions of the next change hold."""
        self.phase = Phase.CHECKING
        return [events.LookAtCluster(self._new_token(), self.groups_next)]

    def _look(self) -> List[events.Action]:
        """Nothing is touched before what was there is stored."""
        return [events.SaveRun(), self._ask(self.rollout.look(self._one), Phase.LOOKING)]

    def _apply(self) -> List[events.Action]:
        change = self._one
        return [self._ask(change.setting.apply(self.rollout.warrant(change)), Phase.CHANGING)]

    def _apply_again(self) -> List[events.Action]:
        """It is asked twice and made once, by its action id."""
        self._resumed = True
        return self._apply()

    def _measure(self, phase: Phase) -> List[events.Action]:
        rollout, change = self.rollout, self._one
        if change.load_point is None or not change.measured:
            # reading it back is all the check there is
            return self._check() if phase is Phase.BEFORE else self._applied("as read back")
        if change.measured_by_probe:
            return [self._ask(MeasureRequest(
                change.domain_id, change.osd_id, change.load_point, rollout.count
            ), phase)]
        self.phase = phase
        request = events.LoadRequest(
            change.osd_id, change.load_point, rollout.count, rollout.period_s,
            rollout.latency_limit_ms,
        )
        return [events.MeasureLoad(self._new_token(), request)]

    def _applied(self, latency: str) -> List[events.Action]:
        self._doubts = 0
        if self.rollout.trial:
            return self._take_back(f"tried: {latency}")
        if self._one.setting.IS_READ:
            self._have(step=GateStep((self._index,)))
            self._change(status=ChangeStatus.MADE)
            return self._make_last()
        self._change(status=ChangeStatus.APPLIED)  # the history has a line for it
        return self._next()

    # ---- to last

    def make_last(self) -> List[events.Action]:
        """A plan that is done, and now has the consent to last."""
        indices = not_lasting(self.rollout)
        if self.rollout.status is not RolloutStatus.DONE or not indices:
            return []
        self._put_all(indices, status=ChangeStatus.MADE)
        self._set(
            RolloutStatus.RUNNING, consent_persist=True, afterwards=True, reason="",
            step=GateStep(last=True),
        )
        return self._make_last()

    def _make_last(self) -> List[events.Action]:
        """The step is judged well: each change is read, then made to last, one by one."""
        rollout = self.rollout
        if not rollout.step.last:
            self._have(step=replace(rollout.step, last=True))
        unread = (
            index for index in rollout.unjudged
            if not (self._lasts(rollout.changes[index]) or rollout.changes[index].setting.IS_READ)
        )
        self._put_all(unread, status=ChangeStatus.APPLIED)
        change = self.current
        if change is None or change.status is not ChangeStatus.MADE:
            return self._all_asked_to_last() if rollout.afterwards else self._step_over()
        # what lasts is set as well: unread, a drive that is not as judged would be set again
        if rollout.afterwards and rollout.pausing:
            return self._pause(rollout.pausing)
        if rollout.afterwards:
            return [events.SaveRun(), *self._before_lasting()]
        return [events.SaveRun(), self._ask(self.rollout.look(change), Phase.READING)]

    def _all_asked_to_last(self) -> List[events.Action]:
        lines = [f"{c.name} {c.detail}" for c in self.rollout.changes if NOT_KEPT in c.detail]
        return self._left_as_made(named(lines))

    def _lasts(self, change: Change) -> bool:
        return self.rollout.consent_persist and change.setting.CAN_LAST

    def _before_lasting(self) -> List[events.Action]:
        """To make it last is a change of its own: what was true of the step may have fallen."""
        self.phase = Phase.LASTING_CHECK
        judged_on = self._one.judging_osds
        return [events.LookAtCluster(self._new_token(), (judged_on,) if judged_on else ())]

    def _left_as_made(self, why: str) -> List[events.Action]:
        """The plan is done again: what lasts lasts, the rest is changed for now.

        The drive that was asked last may be touched; one after it that only keeps its mode is not.
        """
        rollout, asked = self.rollout, self.rollout.current_index
        untouched = {
            index for index in rollout.unjudged
            if rollout.changes[index].setting.only_lasts and index != asked
        }
        self._put_all({*rollout.unjudged} - untouched, status=ChangeStatus.APPLIED)
        self._put_all(untouched, status=ChangeStatus.UNCHANGED)
        self._set(
            RolloutStatus.DONE, reason=one_line(why), afterwards=False, step=GateStep(),
            pausing="",
        )
        note = events.Note(why, "warning") if why else events.Note("made to last")
        return self._idle(note)

    # ---- pause, end

    def pause(self, reason: str) -> List[events.Action]:
        """An admin's pause: at once, or when the change under way is made."""
        if self.rollout.status is not RolloutStatus.RUNNING:
            return []
        made = self.phase is Phase.WAITING and self.rollout.unjudged
        if self.phase in MID_CHANGE and not made:
            self._have(pausing=one_line(reason))
            return [events.SaveRun(), events.Note("pauses after the change under way")]
        return self._pause(reason)

    def _pause(self, reason: str) -> List[events.Action]:
        reason = one_line(reason)
        if not self.rollout.unjudged and not self.rollout.all_in(ChangeStatus.APPLYING):
            self._have(step=GateStep(judgement=self.rollout.step.judgement))
        self._set(RolloutStatus.PAUSED, reason=reason, paused_at_s=self._now_s, pausing="")
        return self._idle(events.Note(f"paused: {reason}", "warning"))

    def _pause_without_step(
        self, reason: str, missed: Tuple[Precondition, ...] = ()
    ) -> List[events.Action]:
        """Of a step of which nothing is made; it begins anew."""
        self._have(step=GateStep())
        paused = self._pause(reason)
        self._have(missed=missed)
        return paused

    def resume(self, now_s: float) -> List[events.Action]:
        """Go on with a paused rollout: an unjudged step is watched anew.

        One that pauses once the change under way is made does not pause.
        """
        pausing = self.rollout.status is RolloutStatus.RUNNING and bool(self.rollout.pausing)
        if not self.paused and not pausing:
            return []
        self._now_s = now_s
        if self.rollout.harm_spent:
            self._have(harm=Harm(), harm_spent=False)
        if pausing:
            self._have(pausing="")
            return [events.SaveRun(), events.Note("goes on, without the pause that was asked for")]
        self._set(RolloutStatus.RUNNING, reason="", paused_at_s=0.0, missed=())
        return self._go_on()

    def _stop(self, reason: str) -> List[events.Action]:
        """Stop going on.  A change under way is taken back; finished ones stay."""
        reason = one_line(reason)
        if self.rollout.status is RolloutStatus.ROLLING_BACK:
            return []
        if self.rollout.afterwards:
            return self._left_as_made(reason)
        if self._in_doubt:
            return self._take_back(reason)
        return self._stopped(reason)

    def _stopped(self, reason: str) -> List[events.Action]:
        self._set(RolloutStatus.STOPPED, reason=reason, pausing="")
        return self._idle(events.Note(f"stopped: {reason}", "warning"))
