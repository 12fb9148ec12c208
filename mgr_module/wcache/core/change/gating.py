"""The gate in a rollout: clients' load judges each step, which is kept, taken back or held.

A step is a few changes of one wave.  The blocks before it are taken first; then its changes
are made one after the other; then come blocks until the judge knows, or gives up.  All blocks
also have the OSDs of the steps to come: what was measured while earlier steps were judged is the
stretch before those, as long as the longest and at no time of their own.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, field, replace
from typing import (
    Dict,
    FrozenSet,
    Iterator,
    List,
    Optional,
    Sequence,
    Set,
    Tuple,
    TypeVar,
)

from .. import events
from ..cluster import ClusterState
from ..loads import Block, BlocksRequest
from ..record import Precondition
from ..text import named
from .asking import Asking
from .change import Change, ChangeStatus
from .gate.blocks import log_ratios, only_of, present, told_of
from .gate.gate_state import GateStep
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
)
from .preconditions import illness_of, words
from .rollout_base import Phase
from .stepping import drives_of, osds_ahead
from .waves import put_off

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
class Gating(Asking):
    """Steps and their judgement."""

    _blocks: List[Block] = field(default_factory=list)
    _blocks_at_s: float = 0.0  # when the last one ended
    # the last blocks of all watches; what is about to be changed is taken out of them
    _seen: List[Block] = field(default_factory=list)
    _watches: int = 0
    # OSDs of the watch under way that were not well meanwhile: their blocks are no evidence
    _ill: FrozenSet[int] = frozenset()
    _silences: int = 0
    # drives that were put off as nothing would judge them
    _unseen: FrozenSet[int] = frozenset()

    @property
    def blocks_seen(self) -> int:
        """How many blocks the watch under way has so far."""
        return len(self._blocks)

    @property
    def blocks_max(self) -> int:
        """How many blocks the watch under way has at most."""
        return self._blocks_before() if self.phase is Phase.BLOCKS_BEFORE else LOOKS[-1]

    def now_judged(self) -> Optional[Judgement]:
        """What the blocks after the step say so far; None where there are too few."""
        waits = self.phase is not Phase.BLOCKS_AFTER or len(self._blocks) < USABLE_MIN
        if waits or self._too_ill(self._ill):
            return self.rollout.step.judgement
        return self._judged()[0]

    def _judged(self) -> Tuple[Judgement, ...]:
        """By clients' writes; and by their reads where a change may concern those."""
        rollout, step = self.rollout, self.rollout.step
        kinds: Dict[str, Dict[int, None]] = {}
        for change in rollout.of_step:
            osd_ids = kinds.setdefault(change.pooled_as, {})
            osd_ids.update(dict.fromkeys(self._well(change.judging_osds)))
        return judge_all(
            step.before, self._blocks,
            {kind: tuple(each) for kind, each in kinds.items() if each},
            self._well(step.controls), reads=self._reads_too(), look=rollout.looks + 1,
            past=rollout.evidence, hosts={
                osd_id: change.hostname for change in rollout.of_step if change.hostname
                for osd_id in change.judging_osds
            },
        )

    def _reads_too(self) -> bool:
        """Whether a change of the step may concern clients' reads."""
        return any(change.setting.READS_TOO for change in self.rollout.of_step)

    # ---- who is well

    def looking_ahead(self: Machine, cluster: ClusterState) -> Machine:
        """As it would be if it took note of who is ill now: what comes next is well, if any is."""
        found, rollout = copy(self), self.rollout
        change = self.current
        if change is None or change.status is not ChangeStatus.PLANNED:
            return found
        if rollout.in_step:
            ill = (
                index for index in rollout.step.indices
                if rollout.changes[index].status is ChangeStatus.PLANNED
                and Precondition.OSDS_WELL not in rollout.overridden
                and illness_of(rollout.changes[index], cluster)
            )
            found.take_later((*rollout.later, *ill))
        else:
            found.take_later(put_off(rollout, cluster, self._without_clients, self._unseen))
        return found

    def _well(self, osd_ids: Sequence[int]) -> Tuple[int, ...]:
        return tuple(osd_id for osd_id in osd_ids if osd_id not in self._ill)

    def _hold_step(self, why: str) -> List[events.Action]:
        """Wait for OSDs of the step."""
        return self._hold(Precondition.OSDS_WELL, words([Precondition.OSDS_WELL], why))

    # ---- blocks

    def _block_s(self) -> float:
        return self.rollout.gate.seconds(self.rollout.is_canary, 1)

    def _await_block(self) -> None:
        self._wait_until_s = self._now_s + self._block_s() + BLOCK_LATE_S

    def _watch(self, phase: Phase) -> List[events.Action]:
        step = self.rollout.step
        if self._now_s - self._blocks_at_s > BEFORE_OLD_S:
            self._seen = []
        self.phase, self._blocks, self._ill = phase, [], frozenset()
        self._await_block()
        others = dict.fromkeys((*step.controls, *osds_ahead(self.rollout, self.steps_left())))
        beside = tuple(osd_id for osd_id in others if osd_id not in step.treated)
        request = BlocksRequest(
            step.treated, beside, self._block_s(), self.blocks_max, self.rollout.latency_limit_ms
        )
        return [events.SaveRun(), events.WatchBlocks(self._new_token(), request)]

    def _begin_step(self, event: events.ClusterSeen) -> List[events.Action]:
        """The preconditions hold: take the blocks before the step, where none are there."""
        most = 1 if event.together is None else max(1, event.together)
        able = self._candidates()
        if len(able) > most:
            self._together_max = most
        elif len(able) > self._together_max:
            self._together_max = 0
        if able[0] in self._unseen:
            self._unseen = frozenset()  # nothing else is left
        treated, controls = self.rollout.judged_on(able[:most]), tuple(event.controls)
        before = self._blocks_there(treated, controls)
        self._have(step=GateStep(able[:most], treated, controls, before), step_at_s=self._now_s)
        self._watches = 0
        return self._look() if before else self._watch(Phase.BLOCKS_BEFORE)

    def _blocks_before(self) -> int:
        """At most."""
        proven = self.rollout.proven_least(self.rollout.step.indices)
        return self.rollout.gate.before_max(self.rollout.is_canary, proven)

    def _enough_before(self) -> bool:
        """Whether the stretch before the step is over: nobody writes, or the level is known."""
        step, count = self.rollout.step, len(self._blocks)
        told = {osd.osd_id for each in self._blocks for osd in each.osds}
        if told.isdisjoint(step.treated) and count >= USABLE_MIN:
            return True
        return count >= self._blocks_before() or (count in LOOKS_BEFORE and level_known(
            self._blocks, step.treated, step.controls, self._reads_too()
        ))

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

    def _watch_after(self) -> List[events.Action]:
        """What a step has changed: nothing that was measured before is of the same any more."""
        if not all(change.alone_touched for change in self.rollout.of_step):
            self._seen = []
        gone = {*self.rollout.step.treated}
        self._seen = [
            replace(block, osds=tuple(o for o in block.osds if o.osd_id not in gone))
            for block in self._seen
        ]
        self._watches = 0
        return self._watch(Phase.BLOCKS_AFTER)

    def _watched(self, answer: object) -> List[events.Action]:
        if isinstance(answer, events.BlockSeen):
            return self._block_seen(answer)
        return self._blocks_ended(answer) if isinstance(answer, events.BlocksEnded) else []

    def _block_seen(self, event: events.BlockSeen) -> List[events.Action]:
        after, block = self.phase is Phase.BLOCKS_AFTER, event.block
        if event.ill and Precondition.OSDS_WELL not in self.rollout.overridden:
            self._ill |= event.ill
            step = self.rollout.step
            if not after and (not self._ill.isdisjoint(step.treated) or self._too_ill(self._ill)):
                # nothing is made yet: the next look leaves them out
                self._forget_step()
                return self._check()
            if not after:
                self._have(step=replace(step, controls=self._well(step.controls)))
        self._silences = 0
        self._blocks = [*self._blocks, block]  # a copy of this machine has the same list
        if self._block_s() == self.rollout.gate.block_s:
            # for the steps to come; the canary's may be longer, and no measure of others
            self._seen = [*self._seen, block][-BLOCKS_BEFORE:]
        self._blocks_at_s = self._now_s
        self._await_block()
        if after:
            return self._judge_step() if len(self._blocks) in LOOKS else []
        return self._judge_load() if self._enough_before() else []

    def _forget_step(self) -> None:
        self._have(step=GateStep())
        self._seen = []

    def _judge_load(self) -> List[events.Action]:
        """Whether clients write, or read, enough to judge each change of the step by."""
        step, change = self.rollout.step, self.current
        reads = [block.of_reads for block in self._blocks]
        mine, _, why = load_of(self._blocks, step.treated, step.controls)
        unseen = [*self._unseen_of_step(reads)]
        if change is not None and change.setting.READS_TOO:
            told = why or f"clients do too little on OSDs of {change.failure_domain}"
            why = why and load_of(reads, step.treated, step.controls)[2]
            if why or step.indices[0] in unseen:
                # nobody waits for these OSDs: reading the values back is all the proof there is
                self._without_clients = change.setting.touches
                self._have(step=GateStep())
                return [events.Note(f"{change.name}: {told}: it is only read back"), *self._check()]
        more = {osd.osd_id for each in self._blocks for osd in each.osds}.difference(step.treated)
        left = self.rollout.putting_off((*self.rollout.later, *step.indices))
        if why and (mine or not present(self._blocks, more) or left.current_index in left.put_off):
            return self._pause_without_step(
                f"{why}; resume when clients write, or with --override=client_load, which judges "
                "by benches before and after each change and not by what clients see",
                (Precondition.CLIENT_LOAD,),
            )
        if why and self.rollout.is_canary:
            self._seen = []  # too few blocks for the next canary
        said = self._leave_unseen(unseen)
        step = self.rollout.step
        before = only_of(self._blocks, (*step.treated, *step.controls))
        self._have(step=replace(step, before=before))
        return [*said, *self._next_of_step()]

    @property
    def unseen_osds(self) -> Set[int]:
        """The OSDs of drives that are put off as clients write too little to them."""
        return {*self.rollout.judged_on(self._unseen)}

    def _unseen_of_step(self, reads: Sequence[Block]) -> Iterator[int]:
        """The changes of the step that nothing would judge: clients do too little on their OSDs."""
        rollout = self.rollout
        told = (self._blocks, reads) if self._reads_too() else (self._blocks,)
        seen = {osd_id for blocks in told for osd_id in present(blocks, rollout.step.treated)}
        for index in rollout.step.indices:
            if seen.isdisjoint(rollout.changes[index].judging_osds):
                yield index

    def _leave_unseen(self, unseen: Sequence[int]) -> List[events.Action]:
        """Put such drives off.  Values keep their order: the step ends before the first of them."""
        rollout = self.rollout
        values = [index for index in unseen if rollout.changes[index].setting.IN_ORDER]
        if values:
            left = (index for index in rollout.step.indices if index < values[0])
            self.rollout = rollout.with_step_of(tuple(left))
        drives = {*unseen}.difference(values)
        if not drives:
            return []
        self._unseen |= drives
        self.take_later((*rollout.later, *drives))
        names = named([rollout.changes[index].name for index in sorted(drives)])
        return [events.Note(f"put off, as clients write too little to judge them by: {names}")]

    def _blocks_ended(self, event: events.BlocksEnded) -> List[events.Action]:
        """A watch ended early: an OSD past the limit, or one that gave no answer."""
        after = self.phase is Phase.BLOCKS_AFTER
        if event.past_limit and after and event.silent:
            return self._take_back_unjudged(event.why)  # its host may have lost power
        if event.past_limit and after:
            return self._worse(self.rollout.step.indices, event.why)
        if event.past_limit and event.silent and self._silences < SILENCES_MAX:
            # the map may not know yet that it is down
            self._silences += 1
            self._have(step=GateStep())
            return self._hold_step(event.why)
        if event.past_limit:
            return self._pause_without_step(f"nothing of this step is changed: {event.why}")
        self._watches += 1
        if self._watches < WATCHES_MAX:
            return self._watch(self.phase)
        unwatched = f"clients' load could not be watched: {event.why}"
        return self._pause(unwatched) if after else self._pause_without_step(unwatched)

    # ---- the step

    def _judge_step(self) -> List[events.Action]:
        rollout, gate = self.rollout, self.rollout.gate
        if self._too_ill(self._ill):
            ill = [f"osd.{osd_id}" for osd_id in sorted(self._ill)]
            return self._hold_step(f"{named(ill)} was not well while the step was watched")
        judged = self._judged()
        found = judged[0]
        spent = self._harm_too_large(judged)
        # the canary is watched for all of its time, unless it is worse
        long_canary = rollout.is_canary and gate.canary_block_s > gate.block_s
        watched = not long_canary or len(self._blocks) >= WATCHED
        early = found.verdict is Effect.UNDECIDED or (not watched and found.goes_on)
        self._have(looks=rollout.looks + 1)
        if early and len(self._blocks) < LOOKS[-1] and not spent:
            return [events.SaveRun()]
        self._keep_latencies()
        self._have(
            step=replace(rollout.step, judgement=found), harm=rollout.harm.beside(judged),
            harm_spent=bool(spent),
            pausing=rollout.pausing or (spent if found.verdict is not Effect.WORSE else ""),
        )
        said = events.Note(f"step judged {found.words}")
        if found.verdict is Effect.WORSE:
            return [said, *self._worse(rollout.step.indices, found.words)]
        if found.goes_on or Precondition.GATE_DECIDED in rollout.overridden:
            self._pool(judged)
            if not found.goes_on:
                forced = (*rollout.forced, Precondition.GATE_DECIDED)
                self._have(forced=tuple(dict.fromkeys(forced)))
            return [said, *self._make_last()]
        return [said, *self._pause(
            spent or f"{found.words or found.why}; it would be settled by {found.settle}: resume "
            "to watch again, abort to take this step back, or resume with --override=gate_decided"
        )]

    def _harm_too_large(self, judged: Tuple[Judgement, ...]) -> str:
        """Why its budget is spent, or would be by what comes next; "" where it is not."""
        rollout, grows = self.rollout, 1.0
        if judged[0].goes_on:
            grows = max(1.0, self.next_step()[0] / rollout.apart(rollout.step.indices))
        return rollout.harm.too_large(rollout.harm.beside(judged), rollout.harm_max_s, grows)

    def _pool(self, judged: Tuple[Judgement, ...]) -> None:
        """The step counts for those after it; what an admin overrode proves no drive."""
        rollout = self.rollout
        by_kind = drives_of(
            change for change in rollout.of_step if self._well(change.judging_osds)
        )
        known = {(item.kind, item.of): item for item in rollout.evidence}
        for item in judged:
            kind = item.together.kind
            proven = by_kind.get(kind, {}) if item.goes_on else {}
            known[kind, item.of] = item.together.having_proven(proven)
        self._have(evidence=tuple(known.values()))

    def _keep_latencies(self) -> None:
        changed: Dict[int, Change] = {}
        for index in self.rollout.unjudged:
            change = self.rollout.changes[index]
            mine = self._well(change.judging_osds)
            before, after = (
                log_ratios(each, mine, ()) for each in (self.rollout.step.before, self._blocks)
            )
            if mine and before and after:
                changed[index] = replace(
                    change, before_us=math.exp(sum(before) / len(before)),
                    after_us=math.exp(sum(after) / len(after)),
                )
        self._put(changed)
