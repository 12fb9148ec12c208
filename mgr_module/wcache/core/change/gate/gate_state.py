"""What a plan keeps of its gate: how it judges, and where the step under way stands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional, Tuple

from ...loads import OSDS_MAX, Block
from .blocks import BLOCKS_MAX
from .judge import BLOCKS_AGAIN, BLOCKS_BEFORE, LOOKS, LOOKS_BEFORE, WATCHED, Judgement


@dataclass(frozen=True)
class GateSettings:
    """How steps are judged: blocks of `block_s` seconds, longer for the canary.

    Without `by_load` a bench before and after each change is all there is.
    """

    by_load: bool = True
    block_s: float = 5.0
    canary_block_s: float = 5.0

    def seconds(self, canary: bool, blocks: int) -> float:
        """How long so many blocks take."""
        return blocks * (self.canary_block_s if canary else self.block_s)

    def before_max(self, canary: bool, proven: int) -> int:
        """How many blocks are taken before a step at most, whose kinds are proven so often.

        What steps of its kind have shown counts as well; and long blocks have little noise.
        """
        if proven:
            return BLOCKS_AGAIN
        longer = canary and self.canary_block_s > self.block_s
        return BLOCKS_BEFORE if longer else LOOKS_BEFORE[-1]

    def range_s(self, canary: bool) -> Tuple[float, float]:
        """The shortest and the longest time that judging a step takes, before and after.

        Of a step that is not the first, the blocks before are those of the steps before it.
        """
        least = WATCHED if canary and self.canary_block_s > self.block_s else LOOKS[0]
        before = BLOCKS_BEFORE if canary else 0
        most = self.before_max(canary, 0) + LOOKS[-1]
        return self.seconds(canary, before + least), self.seconds(canary, most)


@dataclass(frozen=True)
class GateStep:
    """The step under way: which changes, whose OSDs, beside which controls.

    `before` are the blocks before the step, which ended at `before_at_s`; a mgr that takes over
    judges by them.  `last`: it was judged well, and what is to last is being made to.
    """

    indices: Tuple[int, ...] = field(default=(), metadata={"max_items": OSDS_MAX})
    treated: Tuple[int, ...] = field(default=(), metadata={"max_items": OSDS_MAX})
    controls: Tuple[int, ...] = field(default=(), metadata={"max_items": OSDS_MAX})
    before: Tuple[Block, ...] = field(default=(), metadata={"max_items": BLOCKS_MAX})
    before_at_s: float = 0.0
    judgement: Optional[Judgement] = None
    last: bool = False
