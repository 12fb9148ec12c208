"""The gate in a rollout: a step is made, judged by clients' load, and kept, taken back or held.

A step is a few changes of one wave.  The blocks before it are taken first; then its changes
are made one after the other; then come blocks until the judge knows, or gives up.  All blocks
also have the OSDs of the steps to come: what was measured while earlier steps were judged is the
stretch before those, as long as the longest and at no time of their own.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Collection, Dict, FrozenSet, List, Optional, Sequence, Tuple, TypeVar

from .. import events
from ..cluster import ClusterState
from ..codec import one_line
from ..loads import Block, BlocksRequest
from ..record import Precondition
from ..text import named
from .change import Change
from .change_status import ChangeStatus
from .gate.blocks import CONTROLS_MIN, log_ratios, only_of, told_of
from .gate.gate_state import GateStep
from .gate.harm import Harm
from .gate.judge import (
    BLOCKS_BEFORE,
    LOOKS,
    LOOKS_BEFORE,
    USABLE_MIN,
    WATCHED,
    Effect,
    Judgement,
    judge_all,
    level_known,
    load_of,
    load_of_any,
    look_at,
)
from .phase import Phase
from .preconditions import LOOK_EVERY_S, illness_of, words
from .putting_off import put_off
from .rollout_base import MID_CHANGE
from .rollout_state import RolloutStatus
from .stepping import Stepping, drives_of

# A block that is this much later than it should be does not come any more.
BLOCK_LATE_S = 60.0
# Blocks that ended longer ago are of another load.
BEFORE_OLD_S = 300.0
# So often is a watch that ended with an error begun again.
WATCHES_MAX = 3
# An OSD that does not answer is down in the map within this many looks, or something else is wrong.
SILENCES_MAX = 24

Machine = TypeVar("Machine", bound="Gating")


@dataclass
class Gating(Stepping):
    """Steps and their judgement."""

    _blocks: List[Block] = field(default_factory=list)
    _blocks_at_s: float = 0.0  # when the last one ended
    # the last blocks of all watches; what is about to be changed is taken out of them
    _seen: List[Block] = field(default_factory=list)
    _watches: int = 0
    # OSDs of the watch under way that were not well meanwhile: their blocks are no evidence
    _ill: FrozenSet[int] = frozenset()
    _silences: int = 0

    @property
    def blocks_seen(self) -> int:
        """How many blocks the watch under way has so far."""
        return len(self._blocks)

    @property
    def blocks_max(self) -> int:
        """How many blocks the watch under way has at most."""
        return self._blocks_before() if self._phase is Phase.BLOCKS_BEFORE else LOOKS[-1]

    def now_judged(self) -> Optional[Judgement]:
        """What the blocks after the step say so far; None where there are too few."""
        step = self.rollout.step
        waits = self._phase is not Phase.BLOCKS_AFTER or len(self._blocks) < USABLE_MIN
        return step.judgement if waits or self._too_ill(self._ill) else self._judged()[0]

    def _judged(self) -> Tuple[Judgement, ...]:
        """By clients' writes; and by their reads where a change may concern those."""
        step, rollout = self.rollout.step, self.rollout
        kinds: Dict[str, Dict[int, None]] = {}
        for change in self._of_step():
            osd_ids = kinds.setdefault(change.pooled_as, {})
            osd_ids.update(dict.fromkeys(self._well(change.judging_osds)))
        return judge_all(
            step.before, self._blocks,
            {kind: tuple(each) for kind, each in kinds.items() if each},
            self._well(step.controls), reads=self._reads_too(), look=rollout.looks + 1,
            past=rollout.evidence, hosts={
                osd_id: change.hostname for change in self._of_step() if change.hostname
                for osd_id in change.judging_osds
            },
        )

    def _of_step(self) -> Tuple[Change, ...]:
        return tuple(self.rollout.changes[index] for index in self.rollout.step.indices)

    # ---- who is well

    def looking_ahead(self: Machine, cluster: ClusterState) -> Machine:
        """As it would be if it took note of who is ill now: what comes next is well, if any is."""
        found, rollout, step = copy(self), self.rollout, self.rollout.step
        change = self.current
        if change is None or change.status is not ChangeStatus.PLANNED:
            return found
        if self._in_step():
            ill = (
                index for index in step.indices
                if rollout.changes[index].status is ChangeStatus.PLANNED
                and Precondition.OSDS_WELL not in rollout.overridden
                and illness_of(rollout.changes[index], cluster)
            )
            found.take_later((*rollout.later, *ill))
        else:
            found.take_later(put_off(rollout, cluster, self._without_clients))
        return found

    def take_later(self, later: Tuple[int, ...]) -> bool:
        """Put changes off, and take them out of the step; whether some of it is left out.

        What was measured before them is of another load when they come back.
        """
        rollout, step = self.rollout, self.rollout.step
        new = {*later} - rollout.put_off
        self._put({
            index: replace(rollout.changes[index], before_us=None)
            for index in new if rollout.changes[index].before_us is not None
        })
        rest = tuple(index for index in step.indices if index not in new)
        self.rollout = self.rollout.putting_off(tuple(sorted({*later})))
        if rest == step.indices:
            return False
        step = replace(step, indices=rest, treated=self._judged_on(rest)) if rest else GateStep()
        self.rollout = replace(self.rollout, step=step)
        return True

    @property
    def waits_to_judge(self) -> bool:
        """Whether a step is made, and not judged as too few of its OSDs were well."""
        held = self._phase in (Phase.HELD, Phase.CHECKING)
        return held and bool(self._unjudged()) and not self._in_step()

    def illness_of_step(self, cluster: ClusterState) -> str:
        """Say why the step cannot be judged now; "" where it can."""
        step = self.rollout.step
        ill = cluster.illness((*step.treated, *step.controls))
        words = named([f"osd.{osd_id} {why}" for osd_id, why in ill.items()])
        return words if self._too_ill(ill) else ""

    def _too_ill(self, ill: Collection[int]) -> bool:
        """Whether so few OSDs of the step are well that nothing is known of it."""
        step = self.rollout.step
        beside = sum(osd_id not in ill for osd_id in step.controls)
        return all(osd_id in ill for osd_id in step.treated) or (
            bool(step.controls) and beside < CONTROLS_MIN
        )

    def _well(self, osd_ids: Sequence[int]) -> Tuple[int, ...]:
        return tuple(osd_id for osd_id in osd_ids if osd_id not in self._ill)

    def _hold_step(self, why: str) -> List[events.Action]:
        """Wait for OSDs of the step; the next look at the cluster says whether they are well."""
        since_s = self.rollout.held_since_s if self.rollout.missed else self._now_s
        reason = one_line(f"waiting: {words([Precondition.OSDS_WELL], why)}")
        self.rollout = replace(
            self.rollout, missed=(Precondition.OSDS_WELL,), held_since_s=since_s, reason=reason
        )
        self._phase, self._wait_until_s = Phase.HELD, self._now_s + LOOK_EVERY_S
        return [events.SaveRun(), events.Note(reason, "warning")]

    # ---- blocks

    def _watch(self, phase: Phase, blocks: int) -> List[events.Action]:
        step, gate = self.rollout.step, self.rollout.gate
        if self._now_s - self._blocks_at_s > BEFORE_OLD_S:
            self._seen = []
        self._phase, self._blocks, self._ill = phase, [], frozenset()
        block_s = gate.seconds(self._is_canary(), 1)
        self._wait_until_s = self._now_s + block_s + BLOCK_LATE_S
        others = dict.fromkeys((*step.controls, *self._ahead()))
        beside = tuple(osd_id for osd_id in others if osd_id not in step.treated)
        request = BlocksRequest(
            step.treated, beside, block_s, blocks, self.rollout.latency_limit_ms
        )
        return [events.SaveRun(), events.WatchBlocks(self._new_token(), request)]

    def _begin_step(self, event: events.ClusterSeen) -> List[events.Action]:
        """The preconditions hold: take the blocks before the step, where none are there."""
        most = 1 if event.together is None else max(1, event.together)
        able = self._candidates()
        indices = able[:most]
        if len(able) > most:
            self._together_max = most
        elif len(able) > self._together_max:
            self._together_max = 0
        treated, controls = self._judged_on(indices), tuple(event.controls)
        before = self._blocks_there(treated, controls)
        step = GateStep(indices, treated, controls, before, self._blocks_at_s if before else 0.0)
        self.rollout = replace(self.rollout, step=step, step_at_s=self._now_s)
        self._watches = 0
        return self._look() if before else self._watch(Phase.BLOCKS_BEFORE, self._blocks_before())

    def _blocks_before(self) -> int:
        """At most."""
        proven = self.rollout.proven_least(self.rollout.step.indices)
        return self.rollout.gate.before_max(self._is_canary(), proven)

    def _enough_before(self) -> bool:
        """Whether the stretch before the step is over: nobody writes, or the level is known."""
        step, count = self.rollout.step, len(self._blocks)
        told = {osd.osd_id for each in self._blocks for osd in each.osds}
        if told.isdisjoint(step.treated) and count >= USABLE_MIN:
            return True
        if count < self._blocks_before():
            return count in LOOKS_BEFORE and level_known(
                self._blocks, step.treated, step.controls, self._reads_too()
            )
        return True

    def _blocks_there(
        self, treated: Tuple[int, ...], controls: Tuple[int, ...]
    ) -> Tuple[Block, ...]:
        """What was measured while earlier steps were judged, where it tells of all these, now."""
        there = told_of(self._seen, treated)
        if self._now_s - self._blocks_at_s > BEFORE_OLD_S or len(there) < USABLE_MIN:
            return ()
        mine, others, why = load_of(there, treated, controls)
        if why or len(mine) < len(treated) or 2 * len(others) < len(controls):
            return ()
        return only_of(there, (*treated, *controls))

    def _keep_seen(self, block: Block) -> None:
        """For the steps to come; the canary's blocks may be longer, and no measure of others."""
        gate = self.rollout.gate
        if gate.seconds(self._is_canary(), 1) == gate.block_s:
            self._seen = [*self._seen, block][-BLOCKS_BEFORE:]

    def _forget_seen(self) -> None:
        """What a step has changed: nothing that was measured before is of the same any more."""
        step, changes = self.rollout.step, self.rollout.changes
        if all(changes[index].alone_touched for index in step.indices):
            gone = {*step.treated}
            self._seen = [
                replace(block, osds=tuple(o for o in block.osds if o.osd_id not in gone))
                for block in self._seen
            ]
        else:
            self._seen = []

    def _block_seen(self, block: Block, ill: FrozenSet[int]) -> List[events.Action]:
        gate, step = self.rollout.gate, self.rollout.step
        if self._phase not in (Phase.BLOCKS_BEFORE, Phase.BLOCKS_AFTER):
            return []
        if ill and Precondition.OSDS_WELL not in self.rollout.overridden:
            self._ill |= ill
            if self._phase is Phase.BLOCKS_BEFORE:
                if not self._ill.isdisjoint(step.treated) or self._too_ill(self._ill):
                    # nothing is made yet: the next look leaves them out
                    self.rollout, self._seen = replace(self.rollout, step=GateStep()), []
                    return self._check()
                step = replace(step, controls=self._well(step.controls))
                self.rollout = replace(self.rollout, step=step)
        self._silences = 0
        self._blocks = [*self._blocks, block]  # a copy of this machine has the same list
        self._keep_seen(block)
        self._blocks_at_s = self._now_s
        block_s = gate.seconds(self._is_canary(), 1)
        self._wait_until_s = self._now_s + block_s + BLOCK_LATE_S
        if self._phase is Phase.BLOCKS_AFTER:
            return self._judge_step() if look_at(len(self._blocks)) else []
        if not self._enough_before():
            return []
        _, _, why = load_of(self._blocks, step.treated, step.controls)
        change = self.current
        if why and change is not None and change.setting.READS_TOO:
            why = load_of_any(self._blocks, step.treated, step.controls)
            if why:
                return self._only_read(change, why)
        if why:
            return self._no_load(why)
        self.rollout = replace(
            self.rollout,
            step=replace(
                step, before=only_of(self._blocks, (*step.treated, *step.controls)),
                before_at_s=self._now_s,
            ),
        )
        return self._next_of_step()

    def _only_read(self, change: Change, why: str) -> List[events.Action]:
        """Nobody waits for these OSDs: reading the values back is all the proof there is."""
        self._without_clients = change.touches
        self.rollout = replace(self.rollout, step=GateStep())
        return [events.Note(f"{change.name}: {why}: it is only read back"), *self._check()]

    def _no_load(self, why: str) -> List[events.Action]:
        self.rollout = replace(self.rollout, step=GateStep())
        return self._pause(
            f"{why}; resume when clients write, or with --override=client_load, which judges by "
            "benches before and after each change and not by what clients see"
        )

    def _blocks_ended(self, event: events.BlocksEnded) -> List[events.Action]:
        """A watch ended early: an OSD past the limit, or one that gave no answer."""
        if self._phase not in (Phase.BLOCKS_BEFORE, Phase.BLOCKS_AFTER):
            return []
        after = self._phase is Phase.BLOCKS_AFTER
        if event.past_limit and after and event.silent:
            # its host may have lost power: goes back, and says nothing of its drive model
            self.rollout = replace(self.rollout, undone=True)
            return self._take_back(event.why)
        if event.past_limit and after:
            return self._worse(self.rollout.step.indices, event.why)
        if event.past_limit and event.silent and self._silences < SILENCES_MAX:
            # the map may not know yet that it is down
            self._silences += 1
            self.rollout = replace(self.rollout, step=GateStep())
            return self._hold_step(event.why)
        if event.past_limit:
            self.rollout = replace(self.rollout, step=GateStep())
            return self._pause(f"nothing of this step is changed: {event.why}")
        self._watches += 1
        if self._watches < WATCHES_MAX:
            return self._watch(self._phase, LOOKS[-1] if after else self._blocks_before())
        if not after:
            self.rollout = replace(self.rollout, step=GateStep())
        return self._pause(f"clients' load could not be watched: {event.why}")

    # ---- the step

    def _next_of_step(self) -> List[events.Action]:
        """The next change of the step, or its judgement once all are made."""
        if self.rollout.pausing:
            return self._pause(self.rollout.pausing)
        if self._in_step():
            return self._check()
        if not self._unjudged():
            return self._step_over()
        waits = [self.rollout.changes[i].wait_s for i in self._unjudged()]
        return self._wait(max(self.rollout.settle_s, *waits))

    def _end_step_early(self) -> List[events.Action]:
        """Nothing more is changed in this step: what it has made is judged."""
        made = self._unjudged()
        step = replace(self.rollout.step, indices=made, treated=self._judged_on(made))
        self.rollout = replace(self.rollout, step=step)
        return self._next_of_step()

    def _watch_after(self) -> List[events.Action]:
        self._watches = 0
        self._forget_seen()
        return self._watch(Phase.BLOCKS_AFTER, LOOKS[-1])

    def _judge_step(self) -> List[events.Action]:
        step, gate = self.rollout.step, self.rollout.gate
        if self._too_ill(self._ill):
            ill = [f"osd.{osd_id}" for osd_id in sorted(self._ill)]
            return self._hold_step(f"{named(ill)} was not well while the step was watched")
        judged = self._judged()
        found = judged[0]
        self.rollout = replace(self.rollout, looks=self.rollout.looks + 1)
        last = len(self._blocks) >= LOOKS[-1]
        # the canary is watched for all of its time, unless it is worse
        long_canary = self._is_canary() and gate.canary_block_s > gate.block_s
        spent = self._harm_too_large(judged)
        watched = not long_canary or len(self._blocks) >= WATCHED
        early = found.verdict is Effect.UNDECIDED or (not watched and found.goes_on)
        if early and not last and not spent:
            return [events.SaveRun()]
        self._keep_latencies()
        self.rollout = replace(
            self.rollout, step=replace(step, judgement=found),
            harm=self.rollout.harm.beside(judged), harm_spent=bool(spent),
            pausing=self.rollout.pausing or (spent if found.verdict is not Effect.WORSE else ""),
        )
        said: List[events.Action] = [events.Note(f"step judged {found.words}")]
        if found.verdict is Effect.WORSE:
            return [*said, *self._worse(step.indices, found.words)]
        if found.goes_on:
            self._pool(judged)
            return [*said, *self._make_last()]
        if Precondition.GATE_DECIDED in self.rollout.overridden:
            self._pool(judged)
            forced = (*self.rollout.forced, Precondition.GATE_DECIDED)
            self.rollout = replace(self.rollout, forced=tuple(dict.fromkeys(forced)))
            return [*said, *self._make_last()]
        return [*said, *self._pause(
            spent or f"{found.words or found.why}; it would be settled by {found.settle}: resume "
            "to watch again, abort to take this step back, or resume with --override=gate_decided"
        )]

    def _harm_too_large(self, judged: Tuple[Judgement, ...]) -> str:
        """Why its budget is spent, or would be by what comes next; "" where it is not."""
        rollout, grows = self.rollout, 1.0
        if judged[0].goes_on:
            grows = max(1.0, self.next_step()[0] / self._apart(rollout.step.indices))
        return rollout.harm.too_large(rollout.harm.beside(judged), rollout.harm_max_s, grows)

    def _pool(self, judged: Tuple[Judgement, ...]) -> None:
        """The step counts for those after it; what an admin overrode proves no drive."""
        rollout = self.rollout
        by_kind = drives_of(
            change for change in self._of_step() if self._well(change.judging_osds)
        )
        known = {(item.kind, item.of): item for item in rollout.evidence}
        for item in judged:
            kind = item.together.kind
            proven = by_kind.get(kind, {}) if item.goes_on else {}
            known[kind, item.of] = item.together.having_proven(proven)
        self.rollout = replace(rollout, evidence=tuple(known.values()))

    def _keep_latencies(self) -> None:
        step, changed = self.rollout.step, {}
        for index in self._unjudged():
            mine = self._well(self.rollout.changes[index].judging_osds)
            before, after = (log_ratios(each, mine, ()) for each in (step.before, self._blocks))
            if mine and before and after:
                changed[index] = replace(
                    self.rollout.changes[index],
                    before_us=math.exp(sum(before) / len(before)),
                    after_us=math.exp(sum(after) / len(after)),
                )
        self._put(changed)

    def _step_over(self) -> List[events.Action]:
        rollout = self.rollout
        took = (*rollout.judged_s, self._now_s - rollout.step_at_s)[-64:]
        said = ", ".join(rollout.changes[index].name for index in rollout.step.indices)
        verdict = rollout.step.judgement
        self.rollout = replace(
            rollout, step=GateStep(judgement=verdict),
            judged_s=took if verdict else rollout.judged_s,
        )
        proven = any(
            rollout.changes[index].status is ChangeStatus.APPLIED for index in rollout.step.indices
        )
        if verdict is None and proven:
            return self._next()  # by a bench, which was told
        words = verdict.verdict.value if verdict else "already as planned"
        return [events.Note(f"{said}: {words}"), *self._next()]

    # ---- pause

    def pause(self, reason: str) -> List[events.Action]:
        """An admin's pause: at once, or when the change under way is made."""
        if self.rollout.status is not RolloutStatus.RUNNING:
            return []
        made = self._phase is Phase.WAITING and self._unjudged()
        if self._phase in MID_CHANGE and not made:
            self.rollout = replace(self.rollout, pausing=one_line(reason))
            return [events.SaveRun(), events.Note("pauses after the change under way")]
        return self._pause(reason)

    def _pause(self, reason: str) -> List[events.Action]:
        reason = one_line(reason)
        made = self._unjudged()
        if not made and not self.rollout.all_in(ChangeStatus.APPLYING):
            self.rollout = replace(
                self.rollout, step=GateStep(judgement=self.rollout.step.judgement)
            )
        self._set(RolloutStatus.PAUSED, reason=reason, paused_at_s=self._now_s, pausing="")
        return self._idle(events.Note(f"paused: {reason}", "warning"))

    def resume(self, now_s: float) -> List[events.Action]:
        """Go on with a paused rollout: an unjudged step is watched anew.

        One that pauses once the change under way is made does not pause.
        """
        pausing = self.rollout.status is RolloutStatus.RUNNING and bool(self.rollout.pausing)
        if not self.paused and not pausing:
            return []
        self._now_s = now_s
        if self.rollout.harm_spent:
            self.rollout = replace(self.rollout, harm=Harm(), harm_spent=False)
        if pausing:
            self.rollout = replace(self.rollout, pausing="")
            return [events.SaveRun(), events.Note("goes on, without the pause that was asked for")]
        self._set(RolloutStatus.RUNNING, reason="", paused_at_s=0.0, missed=())
        return self._go_on()

    # ---- what the rest of the machine does

    @abstractmethod
    def _next(self) -> List[events.Action]:
        """Begin the next step, or end."""

    @abstractmethod
    def _look(self) -> List[events.Action]:
        """Read what is there, then make the change."""

    @abstractmethod
    def _check(self) -> List[events.Action]:
        """Look whether the preconditions of the next change hold."""

    @abstractmethod
    def _go_on(self) -> List[events.Action]:
        """Go on from what is stored."""
