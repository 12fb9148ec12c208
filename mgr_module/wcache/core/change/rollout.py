"""A rollout: planned changes made one after the other, each proven before the next.

Sans-I/O, and the same for every knob; what a kind of change asks for is in `steps`.  For each
change: measure an OSD, see that the preconditions hold (`holding`), read what is there and
store it, change it (it is read back), measure again.  A change that made things worse is
rolled back at once, and the rollout stops there; the first change is the canary and is
watched longer.  A rollback goes backwards.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import List, Optional

from .. import events as act
from ..codec import one_line
from ..config_database import ConfigRequest
from ..protocol import FailureOutcome, SamplesOutcome
from . import preconditions as holding
from . import steps
from .change_status import LEFT_ALONE, TOUCHED, ChangeStatus, Made
from .phase import Phase
from .regression_check import error_of, is_worse, latency_of
from .rollout_state import Change, Rollout, RolloutStatus

# A change that looks worse is measured again this often: the load beside it may have grown.
DOUBTS_MAX = 2


@dataclass
class RolloutMachine:
    """The machine of one rollout; at most one runs at a time."""

    rollout: Rollout
    epoch: str = "0"
    _phase: Phase = Phase.IDLE
    _token: str = ""
    _serial: int = 0
    _wait_until_s: float = 0.0
    _doubts: int = 0
    _resumed: bool = False

    @property
    def over(self) -> bool:
        """Whether nothing is under way."""
        return self.rollout.status not in (RolloutStatus.RUNNING, RolloutStatus.ROLLING_BACK)

    @property
    def wake_at_s(self) -> Optional[float]:
        """When the machine wants its next Tick, or None."""
        waits = (Phase.WAITING, Phase.HELD, Phase.PAUSED_BACK)
        return self._wait_until_s if self._phase in waits else None

    @property
    def current(self) -> Optional[Change]:
        """The change under way, if any."""
        index = self.rollout.current_index
        return None if index is None else self.rollout.changes[index]

    def handle(self, event: act.Event, now_s: float) -> List[act.Action]:
        """Take one event at wall-clock time `now_s`; return what is to be done, in order."""
        if isinstance(event, act.Begin):
            return self._begin()
        if self.over:
            return []
        if isinstance(event, act.Tick):
            due = self.wake_at_s is not None and now_s >= self.wake_at_s
            return self._waited() if due else []
        if isinstance(event, act.ClusterSeen):
            return self._cluster_seen(event, now_s)
        if isinstance(event, act.TaskAnswered) and event.task_id == self._token:
            return self._answered(event.outcome, now_s)
        if isinstance(event, act.ConfigAnswered) and event.token == self._token:
            return self._answered(event.state, now_s)
        if isinstance(event, act.LoadMeasured) and event.token == self._token:
            return self._measured(event.samples, now_s)
        if isinstance(event, act.LoadFailed) and event.token == self._token:
            return self._unmeasured(event.message)
        if isinstance(event, act.Halt):
            return self._stop(event.reason)
        if isinstance(event, act.AgentSilent):
            return self._silent(event.detail)
        return []

    # ---- forwards

    def _begin(self) -> List[act.Action]:
        if self.rollout.status is RolloutStatus.ROLLING_BACK:
            return self._next_back()
        if self.rollout.status not in (RolloutStatus.PLANNED, RolloutStatus.RUNNING):
            return []
        self._set(RolloutStatus.RUNNING)
        change = self.current
        if change is not None and change.status is ChangeStatus.APPLYING:
            if not change.prior_known:
                return self._take_back("started by a version that stored no prior states")
            if self.rollout.trial:
                return self._take_back("the mgr was restarted during the trial")
            self._resumed = True
            return self._apply(change)  # idempotent by its action id
        return self._next()

    def _next(self) -> List[act.Action]:
        if self.current is None:
            self._set(RolloutStatus.DONE)
            self._phase = Phase.IDLE
            return [act.SaveRun(), act.Note(f"{self.rollout.plan_id} done")]
        held = bool(self.rollout.missed)
        return [act.SaveRun(), *(self._check() if held else self._measure(Phase.BEFORE))]

    def _measure(self, phase: Phase) -> List[act.Action]:
        change = self.current
        assert change is not None  # callers looked  # noqa: S101
        request = steps.measure(self.rollout, change)
        if request is None:  # what is read back is proof enough
            return self._check() if phase is Phase.BEFORE else self._applied("as read back")
        self._phase = phase
        if isinstance(request, act.LoadRequest):
            return [act.MeasureLoad(self._new_token(), request)]
        return [self._ask(request)]

    def _measured(self, samples: act.LoadSamples, now_s: float) -> List[act.Action]:
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

    def _unmeasured(self, why: str) -> List[act.Action]:
        """Before a change: do not make it.  After it: take it back, since nothing proves it."""
        if self._phase is Phase.BEFORE:
            self._change(status=ChangeStatus.FAILED, detail=one_line(f"not changed: {why}"))
            return self._stop(why)
        return self._take_back(f"could not be measured afterwards: {why}")

    def _check(self) -> List[act.Action]:
        self._phase = Phase.CHECKING
        return [act.LookAtCluster()]

    def _cluster_seen(self, event: act.ClusterSeen, now_s: float) -> List[act.Action]:
        """Go on with the change, or hold before it."""
        change = self.current
        if self._phase is not Phase.CHECKING or change is None:
            return []
        was_held = bool(self.rollout.missed)
        self.rollout, said = holding.look(self.rollout, change, event.missed, now_s)
        if not self.rollout.missed:
            # what was measured before it was held is of another load
            return [*said, *(self._measure(Phase.BEFORE) if was_held else self._look())]
        if holding.too_long(self.rollout, now_s):
            return self._stop(holding.given_up(self.rollout))
        self._phase, self._wait_until_s = Phase.HELD, now_s + holding.LOOK_EVERY_S
        return said

    def _look(self) -> List[act.Action]:
        """Nothing is touched before what was there is stored."""
        change = self.current
        assert change is not None  # callers looked  # noqa: S101
        self._phase = Phase.LOOKING
        return [act.SaveRun(), self._ask(steps.look(self.rollout, change))]

    def _looked(self, outcome: object) -> List[act.Action]:
        change = self.current
        assert change is not None  # callers looked  # noqa: S101
        change, why = steps.looked(self.rollout, change, outcome)
        if why:
            self._change(status=ChangeStatus.FAILED, detail=one_line(f"not changed: {why}"))
            return self._stop(why)
        self._keep(replace(change, status=ChangeStatus.APPLYING))
        return [act.SaveRun(), *self._apply(change)]

    def _apply(self, change: Change) -> List[act.Action]:
        self._phase = Phase.CHANGING
        return [self._ask(steps.apply(self.rollout, change))]

    def _answered(self, outcome: object, now_s: float) -> List[act.Action]:
        measuring = self._phase in (Phase.BEFORE, Phase.AFTER)
        if measuring and isinstance(outcome, SamplesOutcome):
            samples = act.LoadSamples(
                outcome.seconds, outcome.samples_ns, (), outcome.bytes_written, outcome.aborted
            )
            return self._measured(samples, now_s)
        if self._phase is Phase.LOOKING:
            return self._looked(outcome)
        if self._phase is Phase.CHANGING:
            return self._changed(outcome, now_s)
        if self._phase is Phase.BACK:
            return self._went_back(outcome, now_s)
        if not measuring:
            return []
        if isinstance(outcome, FailureOutcome):
            return self._unmeasured(outcome.message)
        return self._unmeasured("the probe gave an unexpected answer")

    def _changed(self, outcome: object, now_s: float) -> List[act.Action]:
        change = self.current
        assert change is not None  # callers looked  # noqa: S101
        change, made, why = steps.made(self.rollout, change, outcome, self._resumed)
        self._keep(change)
        if made is Made.OTHERS:
            return self._leave(why)
        if made is Made.NOT:
            self._change(status=ChangeStatus.FAILED, detail=one_line(why))
            return self._stop(why)
        if made is Made.UNSURE:
            loud = f"{change.name}: prior {change.what} NOT restored: {one_line(why)}"
            back = self._take_back(f"failed, prior {change.what} not restored: {why}")
            return [act.Note(loud, "error"), *back]
        if made is Made.WRONG:
            return self._take_back(why)
        # after a restart of the mgr "unchanged" may well be what we did before it
        if made is Made.ALREADY and not self._resumed:
            self._change(status=ChangeStatus.UNCHANGED, detail=f"already in {change.goal}")
            return self._stop("nothing to try") if self.rollout.trial else self._next()
        self._resumed = False
        pause_s = steps.wait_s(self.rollout, change)
        if steps.measure(self.rollout, change) is None:
            return self._wait(pause_s, now_s) if pause_s else self._measure(Phase.AFTER)
        canary_s = self.rollout.canary_wait_s if self.rollout.current_index == 0 else 0.0
        return self._wait(max(canary_s, self.rollout.settle_s), now_s)

    def _judge(self, latency_us: float, error: float, now_s: float) -> List[act.Action]:
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
            return self._take_back(
                f"latency went from {before_us:.0f} to {latency_us:.0f} us"
            )
        return self._applied(f"{before_us or 0:.0f} to {latency_us:.0f} us")

    def _applied(self, proof: str) -> List[act.Action]:
        change = self.current
        assert change is not None  # noqa: S101
        self._doubts = 0
        if self.rollout.trial:
            return self._take_back(f"tried: {proof}")
        self._change(status=ChangeStatus.APPLIED)
        return [act.Note(f"{change.name}: {change.words}, {proof}"), *self._next()]

    def _take_back(self, why: str) -> List[act.Action]:
        self._doubts = 0
        why = one_line(why)
        self._resumed = False
        self._change(status=ChangeStatus.ROLLING_BACK, detail=why)
        self._set(RolloutStatus.ROLLING_BACK, reason=why)
        return [act.Note(f"rolling back: {why}", "warning"), *self._next_back()]

    def _stop(self, reason: str) -> List[act.Action]:
        """Stop going on.  A change under way is taken back; finished ones stay."""
        reason = one_line(reason)
        change = self.current
        if change is not None and change.status is ChangeStatus.APPLYING:
            return self._take_back(reason)
        if self.rollout.status is RolloutStatus.ROLLING_BACK:
            return []
        self._set(RolloutStatus.STOPPED, reason=reason)
        self._phase = Phase.IDLE
        return [act.SaveRun(), act.Note(f"stopped: {reason}", "warning")]

    def _silent(self, detail: str) -> List[act.Action]:
        """Nobody there to change or restore the drive; `rollback` can be asked for later."""
        detail = one_line(detail)
        change = self.current
        if change is None:
            return []
        if self.rollout.status is RolloutStatus.ROLLING_BACK:
            unanswered, _ = steps.went_back(self.rollout, change, None)
            return self._not_back(unanswered, detail)
        if change.status is ChangeStatus.APPLYING:
            return self._leave(detail)
        self._change(status=ChangeStatus.FAILED, detail=one_line(f"not changed: {detail}"))
        self._set(RolloutStatus.STOPPED, reason=detail)
        self._phase = Phase.IDLE
        said = act.Note("the change under way was not begun")
        return [act.SaveRun(), act.Note(f"stopped: {detail}", "warning"), said]

    def _leave(self, why: str) -> List[act.Action]:
        """Stop with a change that may have been made; its prior state stays as it was stored."""
        change = self.current
        assert change is not None  # callers looked  # noqa: S101
        why = one_line(why)
        self._change(detail=one_line(f"not checked: {why}"))
        self._set(RolloutStatus.STOPPED, reason=why)
        self._phase = Phase.IDLE
        said = (
            f"{change.name} was not checked; {change.look_first}: ceph wcache rollback "
            f"{self.rollout.plan_id}"
        )
        return [act.SaveRun(), act.Note(f"stopped: {why}", "warning"), act.Note(said, "error")]

    # ---- backwards

    def start_rollback(self, reason: str) -> List[act.Action]:
        """Take back every change that touched its drive, last first."""
        changes = tuple(
            replace(c, status=ChangeStatus.ROLLING_BACK) if c.status in TOUCHED else c
            for c in self.rollout.changes
        )
        self._set(RolloutStatus.ROLLING_BACK, changes=changes, reason=one_line(reason))
        return self._next_back()

    def _next_back(self) -> List[act.Action]:
        change = self.current
        if change is None:
            left = self.rollout.touched
            final = RolloutStatus.STOPPED if left else RolloutStatus.ROLLED_BACK
            self._set(final)
            self._phase = Phase.IDLE
            return [act.SaveRun(), act.Note(f"{self.rollout.plan_id} {final.value}")]
        self._phase = Phase.BACK
        return [act.SaveRun(), self._ask(steps.back(self.rollout, change))]

    def _went_back(self, outcome: object, now_s: float) -> List[act.Action]:
        change = self.current
        assert change is not None  # callers looked  # noqa: S101
        change, why = steps.went_back(self.rollout, change, outcome)
        if why:
            return self._not_back(change, why)
        if change.detail.startswith(LEFT_ALONE):
            said = one_line(f"{self.rollout.reason}; {change.detail}")
            self._set(RolloutStatus.ROLLING_BACK, reason=said)
        pause_s = steps.wait_s(self.rollout, change)
        self._keep(replace(change, status=ChangeStatus.ROLLED_BACK))
        if not (pause_s and self.current is not None):
            return self._next_back()
        return self._wait(pause_s, now_s, Phase.PAUSED_BACK)

    def _not_back(self, change: Change, why: str) -> List[act.Action]:
        """This one is not back; the others are still tried, and it can be tried again."""
        said = one_line(f"rollback failed: {why}")
        self._keep(replace(change, status=ChangeStatus.ROLLBACK_FAILED, detail=said))
        return [act.Note(said, "error"), *self._next_back()]

    # ---- small things

    def _waited(self) -> List[act.Action]:
        if self._phase is Phase.PAUSED_BACK:
            return self._next_back()
        return self._check() if self._phase is Phase.HELD else self._measure(Phase.AFTER)

    def _wait(
        self, seconds: float, now_s: float, phase: Phase = Phase.WAITING
    ) -> List[act.Action]:
        self._phase, self._wait_until_s = phase, now_s + seconds
        return [act.SaveRun()]

    def _change(self, **values: object) -> None:
        change = self.current
        if change is not None:
            self._keep(replace(change, **values))  # type: ignore[arg-type]

    def _keep(self, change: Change) -> None:
        index = self.rollout.current_index
        assert index is not None  # callers looked  # noqa: S101
        changes = list(self.rollout.changes)
        changes[index] = change
        self.rollout = replace(self.rollout, changes=tuple(changes))

    def _set(self, status: RolloutStatus, **values: object) -> None:
        """Where the plan stands now; only one that runs waits for anything."""
        if status is not RolloutStatus.RUNNING:
            values["missed"] = ()
        self.rollout = replace(self.rollout, status=status, **values)  # type: ignore[arg-type]

    def _new_token(self) -> str:
        self._serial += 1
        self._token = f"{self.rollout.plan_id}.{self.epoch}.{self._serial}"
        return self._token

    def _ask(self, request: steps.Ask) -> act.Action:
        if isinstance(request, ConfigRequest):
            return act.AskConfig(self._new_token(), request)
        return act.GiveTask(self._new_token(), request)
