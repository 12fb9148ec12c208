"""What is done in a round: all of it follows from the seed and the number of the round."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import List, Mapping, Sequence, Tuple, TypeVar

CAMPAIGN, AB, MEMORY, ROLLOUT = "campaign", "ab", "memory", "rollout"
Card = TypeVar("Card")
WORKS = (CAMPAIGN, AB, MEMORY, ROLLOUT)

# Which probe's state folder lies on a small disk, and whose on one that flushes as slowly as told.
SMALL_HOST, SLOW_HOST, SMALL_MON = "h1", "h2", "c"
MONS = ("a", "b", "c")

SECOND_WORK, SECOND_FAULT, AIMED, NEAR = 0.4, 0.5, 0.6, 0.7
FIRST_AT_S = (2.0, 20.0)
APART_S = (1.0, 15.0)
FLUSH_S = 40.0


@dataclass(frozen=True)
class FaultKind:
    """One fault: what it befalls, and for how long at least and at most."""

    name: str
    befalls: str
    for_s: Tuple[float, float]


KINDS = (
    FaultKind("kill mgr", "mgr", (1, 30)),
    FaultKind("stop mgr", "mgr", (15, 45)),
    FaultKind("kill probe", "host", (1, 10)),
    FaultKind("stop probe", "host", (5, 25)),
    FaultKind("kill osd", "osd", (1, 10)),
    FaultKind("stop osd", "osd", (3, 30)),
    FaultKind("kill child", "child", (0, 0)),
    FaultKind("stop child", "child", (5, 30)),
    FaultKind("kill mon", "mon", (1, 15)),
    FaultKind("stop mon", "mon", (3, 20)),
    FaultKind("full probe", "small host", (5, 30)),
    FaultKind("full mon", "small mon", (5, 20)),
    FaultKind("slow flush", "slow host", (FLUSH_S, FLUSH_S)),
    FaultKind("cut", "host", (10, 45)),
    FaultKind("module off", "module", (1, 10)),
    FaultKind("osd out", "osd", (5, 20)),
)
# They come twice as often: what they leave to a lease's end is what matters most.
CUT_OFF = ("kill mgr", "stop mgr", "cut")
DECK = (*KINDS, *(kind for kind in KINDS if kind.name in CUT_OFF))


@dataclass(frozen=True)
class Fault:
    """A fault of a round, in seconds after its work was begun.

    One that is aimed waits a while from then on for a drive that is otherwise than before.
    """

    kind: str
    target: str
    at_s: float
    for_s: float
    aimed: bool = False

    def __str__(self) -> str:
        return f"{self.kind} {self.target}".strip() + f" at {self.at_s:.0f} s for {self.for_s:.0f}"


@dataclass(frozen=True)
class Round:
    """A round's choices."""

    number: int
    seed: int
    works: Tuple[str, ...]
    hosts: Tuple[str, ...]  # of each work
    osds: Tuple[int, ...]  # of each work, on that host
    faults: Tuple[Fault, ...]


def choose(seed: int, number: int, hosts: Mapping[str, Sequence[int]]) -> Round:
    """The choices of a round: each kind of work and fault comes once before one comes again."""
    dice = random.Random(f"{seed}:{number}")
    works = [_dealt(seed, "works", WORKS, number)]
    if dice.random() < SECOND_WORK:
        works.append(dice.choice([work for work in WORKS if work not in works]))
    names = [dice.choice(sorted(hosts)) for _ in works]
    kinds = [_dealt(seed, "faults", DECK, number)]
    if dice.random() < SECOND_FAULT:
        # what a fault has taken away, another one does not find
        kinds.append(dice.choice([k for k in KINDS if k.befalls != kinds[0].befalls]))
    faults: List[Fault] = []
    at_s = dice.uniform(*FIRST_AT_S)
    for kind in kinds:
        # where work is done, most often
        near = {name: hosts[name] for name in names} if dice.random() < NEAR else hosts
        target = _target(kind, dice, near)
        faults.append(Fault(
            kind.name, target, round(at_s, 1), round(dice.uniform(*kind.for_s), 1),
            dice.random() < AIMED,
        ))
        at_s += dice.uniform(*APART_S)
    return Round(
        number, dice.randrange(1 << 31), tuple(works), tuple(names),
        tuple(dice.choice(list(hosts[name])) for name in names), tuple(faults),
    )


def _dealt(seed: int, name: str, cards: Sequence[Card], number: int) -> Card:
    """The card of a round, of a deck that is shuffled anew each time it has run out."""
    deck, place = divmod(number - 1, len(cards))
    return random.Random(f"{seed}:{name}:{deck}").sample(list(cards), len(cards))[place]


def _target(kind: FaultKind, dice: random.Random, hosts: Mapping[str, Sequence[int]]) -> str:
    every = sorted(osd_id for osd_ids in hosts.values() for osd_id in osd_ids)
    chosen = {
        "host": dice.choice(sorted(hosts)), "osd": f"osd.{dice.choice(every)}",
        "mon": f"mon.{dice.choice(MONS)}",
    }
    fixed = {
        "small host": SMALL_HOST, "slow host": SLOW_HOST, "small mon": f"mon.{SMALL_MON}",
        "mgr": "", "child": "", "module": "",
    }
    return {**fixed, **chosen}[kind.befalls]


def parts(rounds: int, part: Tuple[int, int]) -> List[int]:
    """The rounds of a part: 2 of 5 is each fifth one from the second on."""
    turn, of = part
    return [number for number in range(1, rounds + 1) if (number - 1) % of == turn - 1]
