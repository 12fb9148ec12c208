"""What a plan keeps of its gate: how it judges, its step under way, what clients have lost."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Iterable, Optional, Sequence, Tuple

from ...loads import OSDS_MAX, Block
from .blocks import BLOCKS_MAX
from .evidence import HOSTS_MAX
from .judge import (
    BLOCKS_AGAIN,
    BLOCKS_BEFORE,
    LOOKS,
    LOOKS_BEFORE,
    WATCHED,
    HostHarm,
    Judgement,
)

# So many standard errors above nothing it is more than noise, at any of a rollout's looks.
BEYOND_NOISE = 3.5
# The mean of the greater of nothing and a standard normal value: 1 / sqrt(2 pi).
HALF_MEAN = 0.3989


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

    `before` are the blocks before the step: a mgr that takes over judges by them.  `last`: it was
    judged well, and what is to last is being made to.
    """

    indices: Tuple[int, ...] = field(default=(), metadata={"max_items": OSDS_MAX})
    treated: Tuple[int, ...] = field(default=(), metadata={"max_items": OSDS_MAX})
    controls: Tuple[int, ...] = field(default=(), metadata={"max_items": OSDS_MAX})
    before: Tuple[Block, ...] = field(default=(), metadata={"max_items": BLOCKS_MAX})
    judgement: Optional[Judgement] = None
    last: bool = False


@dataclass(frozen=True)
class Harm:
    """Seconds of extra wait over all clients: after less before, times commits and reads.

    Before is what the unchanged OSDs say it would be now.  What was gained on a host counts
    against what was lost there, and never against what clients of another host wait longer: a
    host may claim any gain.
    """

    hosts: Tuple[HostHarm, ...] = field(default=(), metadata={"max_items": HOSTS_MAX})

    def beside(self, judged: Iterable[Judgement]) -> Harm:
        """With one more stretch of blocks, judged by writes and perhaps by reads."""
        found = {item.host: item for item in self.hosts}
        for item in (more for each in judged for more in each.by_host):
            known = found.get(item.host, HostHarm(item.host))
            found[item.host] = replace(
                known, extra_s=known.extra_s + item.extra_s, squares=known.squares + item.squares
            )
        return replace(self, hosts=tuple(found.values())[-HOSTS_MAX:])

    @property
    def lost_s(self) -> float:
        """What was lost on the hosts where more was lost than gained."""
        return sum(max(0.0, item.extra_s) for item in self.hosts)

    @property
    def spent_s(self) -> float:
        """What is spent of a budget: nothing below noise, and never less than nothing.

        The noise of one host hides nothing of others: it is looked at without the noisiest too.
        """
        parts = sorted(self.hosts, key=lambda item: item.squares)
        return max(_beyond_noise(parts), _beyond_noise(parts[:-1]))

    def too_large(self, now: Harm, limit_s: float, grows: float) -> str:
        """Why a step that brought it to `now` is the last one of a budget; "" where it is not.

        The next one is of `grows` times as many drives, and may cost as much for each.
        """
        next_s = grows * max(0.0, now.lost_s - self.lost_s)
        if not limit_s or not now.spent_s or now.spent_s + next_s <= limit_s:
            return ""
        return (
            f"clients have waited {now.spent_s:.0f} s longer, and {limit_s:.0f} s are allowed "
            "(rollout_harm_max_s): resume to allow as much again, or abort to take this step back"
        )


def _beyond_noise(parts: Sequence[HostHarm]) -> float:
    """What these hosts lost together, 0 where as much may be noise that gains do not make good.

    Of hosts where nothing changed a half lies above nothing, by 0.8 standard errors on average.
    """
    lost_s = sum(max(0.0, item.extra_s) for item in parts)
    usual_s = HALF_MEAN * sum(math.sqrt(item.squares) for item in parts)
    noise_s = BEYOND_NOISE * math.sqrt(sum(item.squares for item in parts))
    return lost_s if lost_s > usual_s + noise_s else 0.0
