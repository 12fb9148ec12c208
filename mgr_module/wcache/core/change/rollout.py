"""A rollout: planned changes made step by step, each proven before the next.

Sans-I/O, and the same for every knob; what is asked for a setting is in `setting`.  A plan
goes wave by wave (`waves`): see that the preconditions hold (`preconditions`), take blocks of
clients' load (`gating`), read what is there and store it, change it (it is read back), and
judge the step by blocks beside unchanged OSDs.  What has no such load is measured before and
after each change.  What made things worse goes back at once (`asking`), and the rollout
stops there; the first change is the canary and is watched longer.

What an answer, a look at the cluster, and the time mean in each phase stands in `ANSWERED`,
`SEEN` and `DUE`; whatever is not in them means nothing there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Callable, Dict, List, Tuple

from .. import events
from ..codec import one_line
from ..experiment.period import samples_of
from ..protocol import FailureOutcome, SamplesOutcome
from ..record import Precondition
from ..setting.setting import Made
from ..text import before_after, command, named
from . import preconditions as holding
from .asking import NOT_KEPT
from .change import Change, ChangeStatus
from .gate.blocks import error_of, is_worse, latency_of
from .gating import Gating
from .rollout_base import Phase
from .rollout_state import RolloutStatus
from .stepping import DOUBTS_MAX, REFUSED_MAX, refused_in_a_row

# Nothing is made to last where one of these does not hold.
MUST_STAND = (Precondition.NOT_FROZEN, Precondition.VERDICT_STANDS, Precondition.PLAN_STANDS)


@dataclass
class RolloutMachine(Gating):
    """The machine of one rollout; at most one runs at a time."""

    def handle(self, event: events.Event, now_s: float) -> List[events.Action]:
        """Take one event at wall-clock time `now_s`; return what is to be done, in order."""
        self._now_s = now_s
        if isinstance(event, events.Begin):
            return self._begin()
        if self.over:
            return []
        if isinstance(event, events.Tick):
            at_s = self.wake_at_s
            if at_s is None or now_s < at_s:
                return []
            return self._paused_too_long() if self.paused else DUE[self.phase](self)
        if isinstance(event, events.Halt):
            if event.unsaved and not self.paused:
                self._have(undone=True)
            return self._stop(event.reason)
        if self.paused:
            return []
        if isinstance(event, events.AgentSilent):
            return self._silent(event)
        answers = (events.ClusterSeen, events.Answered, events.BlockSeen, events.BlocksEnded)
        if not isinstance(event, answers) or event.token != self._token:
            return []
        if isinstance(event, events.ClusterSeen):
            return SEEN[self.phase](self, event) if self.phase in SEEN else []
        answer = event.answer if isinstance(event, events.Answered) else event
        return ANSWERED[self.phase](self, answer) if self.phase in ANSWERED else []

    def _begin(self) -> List[events.Action]:
        status = self.rollout.status
        if status is RolloutStatus.ROLLING_BACK:
            return self._next_back()
        if status not in (RolloutStatus.PLANNED, RolloutStatus.RUNNING):
            return []
        if status is RolloutStatus.PLANNED:
            self._have(began_at_s=self._now_s)
        self._set(RolloutStatus.RUNNING)
        return self._go_on()

    # ---- its time has come

    def _paused_too_long(self) -> List[events.Action]:
        """What is made and not judged outlasts neither a freeze nor `pause_max_s`."""
        hours = self.rollout.pause_max_s / 3600.0
        self._have(undone=Precondition.CLIENT_LOAD in self.rollout.missed)
        return self._stop(
            f"paused for {hours:g} h and nobody resumed it (pause_max_h): {self.rollout.reason}"
        )

    def _back_is_due(self) -> List[events.Action]:
        # a probe that was silent is heard again: asked once, and its answer is waited for
        self._silent_since_s = None
        return self._next_back()

    def _waited(self) -> List[events.Action]:
        if self.rollout.in_step:
            return self._next_of_step()
        return self._watch_after() if self.rollout.unjudged else self._measure(Phase.AFTER)

    def _block_is_late(self) -> List[events.Action]:
        late = "no measurement of clients' writes came in time"
        return self._blocks_ended(events.BlocksEnded(self._token, late))

    # ---- the cluster was looked at

    def _cluster_seen(self, event: events.ClusterSeen) -> List[events.Action]:
        """Go on with the change, or hold before it."""
        if self.waits_to_judge:
            return self._seen_before_judging(event)
        more = self._take_later(event)
        rollout, change = self.rollout, self.current
        if change is None:
            return []
        was_held, made = bool(rollout.missed), rollout.unjudged
        if made and more and not rollout.in_step:
            return [*more, *self._next_of_step()]
        planned = change.status is ChangeStatus.PLANNED
        begun = rollout.in_step and bool(rollout.step.before) and planned
        broken = holding.missed(rollout, change, event.missed)
        # a probe that was silent, and still is, is waited for
        waits = was_held and Precondition.PROBES_HEARD in broken
        if begun and made and broken and not waits:
            # what is made is not left unjudged for as long as that lasts
            self.rollout = replace(rollout, missed=(), reason="").with_step_of(made)
            return self._next_of_step()
        if Precondition.PLAN_STANDS in broken:
            # it does not come right by itself, and what was agreed to is not what would be done
            return self._pause(holding.words(broken, event.detail, event.moved))
        said = [*more, *self._held_by(change, event.missed, event.detail)]
        if self.rollout.missed:
            return self._wait_for_more(said)
        if begun and (made or not was_held or not self._gated(change)):
            return [*said, *self._look()]
        if made or change.status is ChangeStatus.APPLYING:
            # its probe was gone: nothing new is begun before this step is judged
            return [*said, *self._go_on()]
        # what was measured before it was held is of another load
        if self._gated(change):
            if was_held:
                self._forget_step()
            return [*said, *self._begin_step(event)]
        new = change.before_us is None and change.measured
        return [*said, *(self._measure(Phase.BEFORE) if was_held or new else self._look())]

    def _take_later(self, event: events.ClusterSeen) -> List[events.Action]:
        """Put off what is ill; what there is to save and to say of it."""
        rollout, before = self.rollout, self.rollout.put_off
        if event.later is None or event.later == rollout.later:
            return []
        self.take_later(event.later)
        names = [rollout.changes[index].name for index in event.later if index not in before]
        said = f"put off, as their OSDs are not well or move data: {named(names)}"
        return [events.SaveRun(), *([events.Note(said)] if names else [])]

    def _seen_before_judging(self, event: events.ClusterSeen) -> List[events.Action]:
        """What is made waits for nothing but its own OSDs, or its probe."""
        waits = (Precondition.OSDS_WELL, Precondition.PROBES_HEARD)
        if not self.rollout.of_step:
            return self._go_on()
        seen = tuple(item for item in event.missed if item in waits)
        said = self._held_by(self.rollout.of_step[0], seen, event.detail)
        return self._wait_for_more(said) if self.rollout.missed else [*said, *self._go_on()]

    def _held_by(
        self, change: Change, seen: Tuple[Precondition, ...], detail: str
    ) -> List[events.Action]:
        """What is to be saved and said after a look; it goes on where its `missed` is empty."""
        rollout, before = self.rollout, self.rollout.missed
        broken = holding.missed(rollout, change, seen)
        if not broken and change.has_clients:
            forced = [item for item in seen if item in rollout.overridden]
            self._have(forced=tuple(dict.fromkeys((*rollout.forced, *forced))))
        reason = one_line(f"waiting: {holding.words(broken, detail)}") if broken else ""
        if broken == before:
            # other OSDs may be ill by now: told, and not stored at each look
            if broken:
                self._have(reason=reason)
            return []
        impatient = before and holding.PATIENT not in (before, broken)
        since_s = rollout.held_since_s if impatient else self._now_s
        self._have(missed=broken, held_since_s=since_s, reason=reason)
        if broken:
            return [events.SaveRun(), events.Note(reason, "warning")]
        return [events.SaveRun(), events.Note("resumed: all preconditions hold again")]

    def _wait_for_more(self, said: List[events.Action]) -> List[events.Action]:
        if holding.waited_s(self.rollout, self._now_s) < holding.HOLD_MAX_S:
            self._wait(holding.LOOK_EVERY_S, Phase.HELD)
            return said
        days = holding.HOLD_MAX_S / 86400.0
        return self._pause(f"it has waited for {days:.0f} days: {self.rollout.reason}")

    def _seen_before_lasting(self, event: events.ClusterSeen) -> List[events.Action]:
        change = self._one
        broken = tuple(item for item in event.missed if item in MUST_STAND)
        if not broken:
            return [self._ask(change.setting.apply(self.rollout.warrant(change)), Phase.LASTING)]
        why = holding.words(broken, moved=event.moved)
        why = one_line(f"{change.name} is not made to last: {why}")
        if self.rollout.afterwards:
            return self._left_as_made(why)
        self._change(status=ChangeStatus.APPLIED)
        return [events.Note(why, "warning"), *self._make_last()]

    # ---- a measurement

    def _measured(self, answer: object) -> List[events.Action]:
        """By the mgr, or by the probe of a simulated host."""
        if isinstance(answer, (FailureOutcome, events.LoadFailed)):
            return self._unmeasured(answer.message)
        if not isinstance(answer, (events.LoadSamples, SamplesOutcome)):
            return self._unmeasured("the probe gave an unexpected answer")
        answer = samples_of(answer)
        change, latency_us = self._one, latency_of(answer)
        self._change(
            seconds=change.seconds + max(0.0, answer.seconds),
            bytes_written=change.bytes_written + answer.bytes_written,
        )
        why_not = answer.aborted or answer.unusable
        if latency_us is None or why_not:
            return self._unmeasured(why_not or "no sample was taken")
        if self.phase is Phase.AFTER:
            return self._judge(latency_us, error_of(answer))
        self._change(before_us=latency_us, before_error=error_of(answer))
        return self._check()

    def _unmeasured(self, why: str) -> List[events.Action]:
        """Before a change: do not make it.  After it: take it back, since nothing proves it."""
        if self.phase is Phase.BEFORE:
            return self._not_changed(why)
        return self._take_back(f"could not be measured afterwards: {why}")

    def _not_changed(self, why: str) -> List[events.Action]:
        self._change(status=ChangeStatus.FAILED, detail=one_line(f"not changed: {why}"))
        return self._stop(why)

    def _judge(self, latency_us: float, error: float) -> List[events.Action]:
        change, before_us = self._one, self._one.before_us
        self._change(after_us=latency_us)
        if before_us is not None and is_worse(before_us, change.before_error, latency_us, error):
            if self._doubts < DOUBTS_MAX:
                self._doubts += 1
                self._wait(self.rollout.settle_s)
                return []
            return self._worse((self._index,), f"latency: {before_after(before_us, latency_us)}")
        return self._applied(before_after(before_us, latency_us))

    # ---- an answer to what was asked of a setting

    def _looked(self, outcome: object) -> List[events.Action]:
        change, why = self._one.looked(outcome, self.rollout.warrant(self._one))
        if why:
            return self._not_changed(why)
        self._keep(replace(change, status=ChangeStatus.APPLYING))
        return [events.SaveRun(), *self._apply()]

    def _changed(self, outcome: object) -> List[events.Action]:
        change, made, why = self._one.made(
            outcome, self.rollout.warrant(self._one), self._resumed
        )
        self._keep(change)
        if made is Made.OTHERS:
            return self._leave(why)
        if made is Made.NOT_YET:
            return self._again_later(why, Phase.FINISHING)
        self._not_yet = ""
        if made is Made.REFUSED:
            return self._refused(change, why)
        if made is Made.NOT:
            self._change(status=ChangeStatus.FAILED, detail=one_line(why))
            return self._stop(why)
        if made is Made.UNSURE:
            loud = f"{change.name}: prior {change.setting.what} NOT restored: {one_line(why)}"
            back = self._take_back(f"failed, prior {change.setting.what} not restored: {why}")
            return [events.Note(loud, "error"), *back]
        if made is Made.WRONG:
            return self._take_back(why)
        in_step = self.rollout.in_step
        # after a restart of the mgr "unchanged" may well be what we did before it
        if made is Made.ALREADY and not self._resumed:
            self._change(status=ChangeStatus.UNCHANGED, detail=f"already in {change.setting.goal}")
            if in_step:
                return self._next_of_step()
            return self._stop("nothing to try") if self.rollout.trial else self._next()
        self._resumed = False
        if in_step:
            self._change(status=ChangeStatus.MADE)
            if change.wait_s and self.rollout.in_step:
                return self._wait(change.wait_s)
            return [events.SaveRun(), *self._next_of_step()]
        if not change.measured:
            return self._wait(change.wait_s) if change.wait_s else self._measure(Phase.AFTER)
        first = self.rollout.current_index == self.rollout.canary_index
        canary_s = self.rollout.canary_wait_s if first else 0.0
        return self._wait(max(canary_s, self.rollout.settle_s))

    def _refused(self, change: Change, why: str) -> List[events.Action]:
        """The drive is as it was: the next one is taken, unless a model refuses as such.

        What else is made of the step is judged without it.
        """
        index, self._resumed = self._index, False
        self._keep(replace(change, status=ChangeStatus.REFUSED, detail=one_line(why)))
        rest = tuple(i for i in self.rollout.step.indices if i != index)
        self.rollout = self.rollout.with_step_of(rest)
        many = refused_in_a_row(self.rollout, index)
        if many % REFUSED_MAX == 0:
            return self._pause(
                f"{many} drives of one model in a row refused it ({change.pooled_as}), the last "
                f"one: {why}"
            )
        return [events.SaveRun(), *(self._next_of_step() if rest else self._next())]

    def _read(self, outcome: object) -> List[events.Action]:
        """What was judged, once more."""
        change = self._one
        why = change.setting.is_still(outcome)
        if why:
            return self._take_back_unjudged(f"{change.name}: {why}")
        if self._lasts(change):
            return self._before_lasting()
        self._change(status=ChangeStatus.APPLIED)
        return self._make_last()

    def _lasted(self, outcome: object) -> List[events.Action]:
        change, made, why = self._one.made(outcome, self.rollout.warrant(self._one), again=True)
        if made in (Made.YES, Made.ALREADY):
            self._keep(replace(change, status=ChangeStatus.APPLIED))
            return self._make_last()
        why = why or "it could not be made to last over a power cycle"
        if self.rollout.afterwards:
            # it was judged well and stays, unless it was read otherwise; the others are still asked
            said, status = one_line(f"{NOT_KEPT}: {why}"), ChangeStatus.APPLIED
            if change.setting.has_left(outcome):
                back = made in (Made.NOT, Made.REFUSED)
                status = ChangeStatus.ROLLED_BACK if back else ChangeStatus.ROLLBACK_FAILED
            self._keep(replace(change, status=status, detail=said))
            return self._make_last()
        return self._take_back(why)

    # ---- its probe is silent

    def _silent(self, event: events.AgentSilent) -> List[events.Action]:
        """Nobody there to change or restore the drive; `rollback` can be asked for later."""
        detail, change = one_line(event.detail), self.current
        if change is None:
            return []
        if self.rollout.status is RolloutStatus.ROLLING_BACK:
            return self._silent_back(change, detail, event.removed)
        if event.removed:
            return self._stop(detail)
        if not self.rollout.trial:
            # it goes on where it stood once the probe is heard again, or pauses
            return self._hold(Precondition.PROBES_HEARD, detail)
        if change.status is ChangeStatus.APPLYING:
            return self._leave(detail)
        self._change(status=ChangeStatus.FAILED, detail=one_line(f"not changed: {detail}"))
        return [events.Note("the change under way was not begun"), *self._stopped(detail)]

    def _leave(self, why: str) -> List[events.Action]:
        """Stop with a change that may have been made; its prior state stays as it was stored."""
        change, why = self._one, one_line(why)
        self._change(detail=one_line(f"not checked: {why}"))
        said = (
            f"{change.name} was not checked; {change.setting.LOOK_FIRST}: "
            + command("ceph wcache rollback {}", self.rollout.plan_id)
        )
        return [*self._stopped(why), events.Note(said, "error")]


# What the answer to what was asked for last means in each phase; older ones are nothing.
ANSWERED: Dict[Phase, Callable[[RolloutMachine, object], List[events.Action]]] = {
    Phase.BEFORE: RolloutMachine._measured,
    Phase.AFTER: RolloutMachine._measured,
    Phase.BLOCKS_BEFORE: RolloutMachine._watched,
    Phase.BLOCKS_AFTER: RolloutMachine._watched,
    Phase.LOOKING: RolloutMachine._looked,
    Phase.CHANGING: RolloutMachine._changed,
    Phase.READING: RolloutMachine._read,
    Phase.LASTING: RolloutMachine._lasted,
    Phase.BACK: RolloutMachine._went_back,
}
# What a look at the cluster means.
SEEN: Dict[Phase, Callable[[RolloutMachine, events.ClusterSeen], List[events.Action]]] = {
    Phase.CHECKING: RolloutMachine._cluster_seen,
    Phase.LASTING_CHECK: RolloutMachine._seen_before_lasting,
}
# What is done when the time of a phase has come.
DUE: Dict[Phase, Callable[[RolloutMachine], List[events.Action]]] = {
    Phase.HELD: RolloutMachine._check,
    Phase.BLOCKS_BEFORE: RolloutMachine._block_is_late,
    Phase.BLOCKS_AFTER: RolloutMachine._block_is_late,
    Phase.FINISHING: RolloutMachine._apply_again,
    Phase.WAITING: RolloutMachine._waited,
    Phase.BACK: RolloutMachine._back_is_due,
    Phase.PAUSED_BACK: RolloutMachine._back_is_due,
}
