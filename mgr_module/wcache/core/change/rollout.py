"""A rollout: planned changes made step by step, each proven before the next.

Sans-I/O, and the same for every knob; what is asked for a setting is in `setting`.  A plan
goes wave by wave (`waves`): see that the preconditions hold (`preconditions`), take blocks of
clients' load (`gating`), read what is there and store it, change it (it is read back), and
judge the step by blocks beside unchanged OSDs.  What has no such load is measured before and
after each change.  What made things worse goes back at once (`rolling_back`), and the rollout
stops there; the first change is the canary and is watched longer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import List

from .. import events
from ..codec import one_line
from ..protocol import FailureOutcome, SamplesOutcome
from ..record import Precondition
from ..shell import command
from ..text import before_after, named
from . import preconditions as holding
from .change import Change
from .change_status import ChangeStatus, Made
from .gate.gate_state import GateStep
from .gate.regression_check import error_of, is_worse, latency_of
from .gating import Gating
from .phase import Phase
from .rollout_state import RolloutStatus

# A change that looks worse is measured again this often: the load beside it may have grown.
DOUBTS_MAX = 2


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
        if self.paused:
            return self._while_paused(event)
        if isinstance(event, events.Tick):
            due = self.wake_at_s is not None and now_s >= self.wake_at_s
            return self._time_has_come() if due else []
        if isinstance(event, events.ClusterSeen):
            if self._phase is Phase.LASTING:
                return self._seen_before_lasting(event)
            return self._cluster_seen(event, now_s)
        if isinstance(event, events.Halt):
            if event.unsaved:
                self.rollout = replace(self.rollout, undone=True)
            return self._stop(event.reason)
        if isinstance(event, events.AgentSilent):
            return self._silent(event)
        return self._heard(event, now_s)

    def _while_paused(self, event: events.Event) -> List[events.Action]:
        """What is made and not judged outlasts neither a freeze nor `pause_max_s`."""
        if isinstance(event, events.Halt):
            return self._stop(event.reason)
        at_s = self.wake_at_s
        if not isinstance(event, events.Tick) or at_s is None or self._now_s < at_s:
            return []
        hours = self.rollout.pause_max_s / 3600.0
        return self._stop(
            f"paused for {hours:g} h and nobody resumed it (pause_max_h): {self.rollout.reason}"
        )

    def _heard(self, event: events.Event, now_s: float) -> List[events.Action]:
        """The answer to what was asked for last; older ones are nothing."""
        if isinstance(event, events.BlockSeen) and event.token == self._token:
            return self._block_seen(event.block, event.ill)
        if isinstance(event, events.BlocksEnded) and event.token == self._token:
            return self._blocks_ended(event)
        if isinstance(event, events.TaskAnswered) and event.task_id == self._token:
            return self._answered(event.outcome, now_s)
        if isinstance(event, events.ConfigAnswered) and event.token == self._token:
            return self._answered(event.state, now_s)
        if isinstance(event, events.LoadMeasured) and event.token == self._token:
            return self._measured(event.samples, now_s)
        if isinstance(event, events.LoadFailed) and event.token == self._token:
            return self._unmeasured(event.message)
        return []

    # ---- forwards

    def _time_has_come(self) -> List[events.Action]:
        if self._phase in (Phase.BACK, Phase.PAUSED_BACK):
            # a probe that was silent is heard again: asked once, and its answer is waited for
            self._silent_since_s = None
            return self._next_back()
        if self._phase is Phase.HELD:
            return self._check()
        if self._phase is Phase.FINISHING and self.current is not None:
            self._resumed = True  # it was asked for before
            return self._apply(self.current)
        if self._phase is Phase.WAITING and self._in_step():
            return self._next_of_step()
        if self._phase is Phase.WAITING:
            return self._watch_after() if self._unjudged() else self._measure(Phase.AFTER)
        late = events.BlocksEnded(self._token, "no measurement of clients' writes came in time")
        return self._blocks_ended(late)

    def _begin(self) -> List[events.Action]:
        if self.rollout.status is RolloutStatus.ROLLING_BACK:
            return self._next_back()
        if self.rollout.status not in (RolloutStatus.PLANNED, RolloutStatus.RUNNING):
            return []
        if self.rollout.status is RolloutStatus.PLANNED:
            self.rollout = replace(self.rollout, began_at_s=self._now_s)
        self._set(RolloutStatus.RUNNING)
        return self._go_on()

    def _go_on(self) -> List[events.Action]:
        """From what is stored: after a restart of the mgr, a pause, or a probe that came back."""
        if self.rollout.step.last:
            return self._make_last()
        change = self.current
        if change is not None and change.status is ChangeStatus.APPLYING:
            if not change.prior_known:
                return self._take_back("started by a version that stored no prior states")
            if self.rollout.trial:
                return self._take_back("the mgr was restarted during the trial")
            self._resumed = True
            return self._apply(change)  # idempotent by its action id
        if self._unjudged() or (self._in_step() and self.rollout.step.before):
            return self._next_of_step()
        return self._next()

    def _next(self) -> List[events.Action]:
        if self.rollout.pausing:
            return self._pause(self.rollout.pausing)
        change = self.current
        if change is None:
            many = len(self.rollout.all_in(ChangeStatus.REFUSED))
            self._set(RolloutStatus.DONE, reason=f"{many} refused by the drive" if many else "")
            return self._idle(events.Note("done"))
        # one that is ill is put off before anything is asked of it
        first = bool(self.rollout.missed) or change.has_clients
        return [events.SaveRun(), *(self._check() if first else self._measure(Phase.BEFORE))]

    def _measure(self, phase: Phase) -> List[events.Action]:
        change = self.current
        assert change is not None  # callers looked  # noqa: S101
        request = self.rollout.measure(change)
        if request is None:  # reading it back is all the check there is
            return self._check() if phase is Phase.BEFORE else self._applied("as read back")
        self._phase = phase
        if isinstance(request, events.LoadRequest):
            return [events.MeasureLoad(self._new_token(), request)]
        return [self._ask(request)]

    def _measured(self, samples: events.LoadSamples, now_s: float) -> List[events.Action]:
        change = self.current
        if change is None:
            return []
        self._change(
            seconds=change.seconds + max(0.0, samples.seconds),
            bytes_written=change.bytes_written + samples.bytes_written,
        )
        latency_us = latency_of(samples)
        why_not = samples.aborted or samples.unusable
        if latency_us is None or why_not:
            return self._unmeasured(why_not or "no sample was taken")
        if self._phase is Phase.BEFORE:
            self._change(before_us=latency_us, before_error=error_of(samples))
            return self._check()
        if self._phase is Phase.AFTER:
            return self._judge(latency_us, error_of(samples), now_s)
        return []

    def _unmeasured(self, why: str) -> List[events.Action]:
        """Before a change: do not make it.  After it: take it back, since nothing proves it."""
        if self._phase is Phase.BEFORE:
            self._change(status=ChangeStatus.FAILED, detail=one_line(f"not changed: {why}"))
            return self._stop(why)
        return self._take_back(f"could not be measured afterwards: {why}")

    def _check(self) -> List[events.Action]:
        self._phase = Phase.CHECKING
        return [events.LookAtCluster(self.groups_next)]

    def _cluster_seen(self, event: events.ClusterSeen, now_s: float) -> List[events.Action]:
        """Go on with the change, or hold before it."""
        if self._phase is not Phase.CHECKING:
            return []
        if self.waits_to_judge:
            return self._seen_before_judging(event)
        more = self._take_later(event)
        change = self.current
        if change is None:
            return []
        was_held, made = bool(self.rollout.missed), self._unjudged()
        if made and more and not self._in_step():
            return [*more, *self._next_of_step()]
        planned = change.status is ChangeStatus.PLANNED
        begun = self._in_step() and bool(self.rollout.step.before) and planned
        broken = holding.missed(self.rollout, change, event.missed)
        # a probe that was silent, and still is, is waited for
        waits = was_held and Precondition.PROBES_HEARD in broken
        if begun and made and broken and not waits:
            # what is made is not left unjudged for as long as that lasts
            self.rollout = replace(self.rollout, missed=(), reason="")
            return self._end_step_early()
        if Precondition.PLAN_STANDS in broken:
            # it does not come right by itself, and what was agreed to is not what would be done
            return self._pause(holding.words(broken, event.detail, event.moved))
        self.rollout, said = holding.look(
            self.rollout, change, event.missed, now_s, event.detail
        )
        said = [*more, *said]
        if not self.rollout.missed:
            if begun and (made or not was_held or not self._gated(change)):
                return [*said, *self._look()]
            if made or change.status is ChangeStatus.APPLYING:
                # its probe was gone: nothing new is begun before this step is judged
                return [*said, *self._go_on()]
            # what was measured before it was held is of another load
            if self._gated(change):
                if was_held:
                    self.rollout, self._seen = replace(self.rollout, step=GateStep()), []
                return [*said, *self._begin_step(event)]
            new = change.before_us is None and change.measured
            return [*said, *(self._measure(Phase.BEFORE) if was_held or new else self._look())]
        if holding.waited_s(self.rollout, now_s) >= holding.HOLD_MAX_S:
            return self._waited_too_long()
        self._phase, self._wait_until_s = Phase.HELD, now_s + holding.LOOK_EVERY_S
        return said

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
        change = self._of_step()[0] if self._of_step() else None
        waits = (Precondition.OSDS_WELL, Precondition.PROBES_HEARD)
        if change is None:
            return self._go_on()
        seen = tuple(item for item in event.missed if item in waits)
        self.rollout, said = holding.look(self.rollout, change, seen, self._now_s, event.detail)
        if not self.rollout.missed:
            return [*said, *self._go_on()]
        if holding.waited_s(self.rollout, self._now_s) >= holding.HOLD_MAX_S:
            return self._waited_too_long()
        self._phase, self._wait_until_s = Phase.HELD, self._now_s + holding.LOOK_EVERY_S
        return said

    def _waited_too_long(self) -> List[events.Action]:
        days = holding.HOLD_MAX_S / 86400.0
        return self._pause(f"it has waited for {days:.0f} days: {self.rollout.reason}")

    def _look(self) -> List[events.Action]:
        """Nothing is touched before what was there is stored."""
        change = self.current
        assert change is not None  # callers looked  # noqa: S101
        self._phase = Phase.LOOKING
        return [events.SaveRun(), self._ask(self.rollout.look(change))]

    def _looked(self, outcome: object) -> List[events.Action]:
        change = self.current
        assert change is not None  # callers looked  # noqa: S101
        change, why = change.looked(outcome, self.rollout.warrant(change))
        if why:
            self._change(status=ChangeStatus.FAILED, detail=one_line(f"not changed: {why}"))
            return self._stop(why)
        self._keep(replace(change, status=ChangeStatus.APPLYING))
        return [events.SaveRun(), *self._apply(change)]

    def _apply(self, change: Change) -> List[events.Action]:
        self._phase = Phase.CHANGING
        return [self._ask(change.setting.apply(self.rollout.warrant(change)))]

    def _answered(self, outcome: object, now_s: float) -> List[events.Action]:
        measuring = self._phase in (Phase.BEFORE, Phase.AFTER)
        if measuring and isinstance(outcome, SamplesOutcome):
            samples = events.LoadSamples(
                outcome.seconds, outcome.samples_ns, (), outcome.bytes_written, outcome.aborted
            )
            return self._measured(samples, now_s)
        if self._phase is Phase.LOOKING:
            return self._looked(outcome)
        if self._phase is Phase.CHANGING:
            return self._changed(outcome, now_s)
        if self._phase is Phase.LASTING:
            return self._lasted(outcome)
        if self._phase is Phase.BACK:
            return self._went_back(outcome)
        if not measuring:
            return []
        if isinstance(outcome, FailureOutcome):
            return self._unmeasured(outcome.message)
        return self._unmeasured("the probe gave an unexpected answer")

    def _changed(self, outcome: object, now_s: float) -> List[events.Action]:
        change = self.current
        assert change is not None  # callers looked  # noqa: S101
        warrant = self.rollout.warrant(change)
        change, made, why = change.made(outcome, warrant, self._resumed)
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
        # after a restart of the mgr "unchanged" may well be what we did before it
        if made is Made.ALREADY and not self._resumed:
            in_step = self._in_step()
            self._change(status=ChangeStatus.UNCHANGED, detail=f"already in {change.setting.goal}")
            if in_step:
                return self._next_of_step()
            return self._stop("nothing to try") if self.rollout.trial else self._next()
        self._resumed = False
        if self._in_step():
            self._change(status=ChangeStatus.MADE)
            if change.wait_s and self._in_step():
                return self._wait(change.wait_s)
            return [events.SaveRun(), *self._next_of_step()]
        if not change.measured:
            return self._wait(change.wait_s) if change.wait_s else self._measure(Phase.AFTER)
        first = self.rollout.current_index == self.rollout.canary_index
        canary_s = self.rollout.canary_wait_s if first else 0.0
        return self._wait(max(canary_s, self.rollout.settle_s))

    def _refused(self, change: Change, why: str) -> List[events.Action]:
        """The drive is as it was: the next one is taken, unless a model refuses as such."""
        self._resumed = False
        said = events.Note(f"{change.name}: refused: {one_line(why)}", "warning")
        too_many = self._set_aside(change, why)
        if too_many:
            return [said, *self._pause(too_many)]
        goes_on = self._next_of_step() if self.rollout.step.indices else self._next()
        return [events.SaveRun(), said, *goes_on]

    def _judge(self, latency_us: float, error: float, now_s: float) -> List[events.Action]:
        change = self.current
        assert change is not None  # noqa: S101
        self._change(after_us=latency_us)
        before_us = change.before_us
        if before_us is not None and is_worse(before_us, change.before_error, latency_us, error):
            if self._doubts < DOUBTS_MAX:
                self._doubts += 1
                self._phase = Phase.WAITING
                self._wait_until_s = now_s + self.rollout.settle_s
                return []
            index = self.rollout.current_index
            return self._worse(
                () if index is None else (index,),
                f"latency: {before_after(before_us, latency_us)}",
            )
        return self._applied(before_after(before_us, latency_us))

    def _applied(self, latency: str) -> List[events.Action]:
        change = self.current
        assert change is not None  # noqa: S101
        self._doubts = 0
        if self.rollout.trial:
            return self._take_back(f"tried: {latency}")
        if change.setting.IS_READ:
            index = self.rollout.current_index
            self._change(status=ChangeStatus.MADE)
            step = GateStep(() if index is None else (index,))
            self.rollout = replace(self.rollout, step=step)
            return self._make_last()
        self._change(status=ChangeStatus.APPLIED)  # the history has a line for it
        return self._next()

    def _stop(self, reason: str) -> List[events.Action]:
        """Stop going on.  A change under way is taken back; finished ones stay."""
        reason = one_line(reason)
        change = self.current
        if self.rollout.status is RolloutStatus.ROLLING_BACK:
            return []
        if self.rollout.afterwards:
            return self._left_as_made(reason)
        if self._unjudged() or (change is not None and change.status is ChangeStatus.APPLYING):
            return self._take_back(reason)
        self._set(RolloutStatus.STOPPED, reason=reason, pausing="")
        return self._idle(events.Note(f"stopped: {reason}", "warning"))

    def _silent(self, event: events.AgentSilent) -> List[events.Action]:
        """Nobody there to change or restore the drive; `rollback` can be asked for later."""
        detail = one_line(event.detail)
        change = self.current
        if change is None:
            return []
        if self.rollout.status is RolloutStatus.ROLLING_BACK:
            return self._silent_back(change, event)
        if event.removed:
            return self._stop(detail)
        if not self.rollout.trial:
            return self._await_probe(detail)
        if change.status is ChangeStatus.APPLYING:
            return self._leave(detail)
        self._change(status=ChangeStatus.FAILED, detail=one_line(f"not changed: {detail}"))
        self._set(RolloutStatus.STOPPED, reason=detail)
        said = events.Note("the change under way was not begun")
        return [said, *self._idle(events.Note(f"stopped: {detail}", "warning"))]

    def _await_probe(self, detail: str) -> List[events.Action]:
        """It goes on where it stood once the probe is heard again, or pauses."""
        since_s = self.rollout.held_since_s if self.rollout.missed else self._now_s
        self.rollout = replace(
            self.rollout, missed=(Precondition.PROBES_HEARD,), held_since_s=since_s,
            reason=f"waiting: {detail}",
        )
        self._phase = Phase.HELD
        self._wait_until_s = self._now_s + holding.LOOK_EVERY_S
        return [events.SaveRun(), events.Note(f"waiting: {detail}", "warning")]

    def _leave(self, why: str) -> List[events.Action]:
        """Stop with a change that may have been made; its prior state stays as it was stored."""
        change = self.current
        assert change is not None  # callers looked  # noqa: S101
        why = one_line(why)
        self._change(detail=one_line(f"not checked: {why}"))
        self._set(RolloutStatus.STOPPED, reason=why)
        self._phase = Phase.IDLE
        said = (
            f"{change.name} was not checked; {change.setting.LOOK_FIRST}: "
            + command("ceph wcache rollback {}", self.rollout.plan_id)
        )
        ended = events.Note(f"stopped: {why}", "warning")
        return [events.SaveRun(), ended, events.Note(said, "error")]
