"""``make powercuts ROUNDS=1000 [SEED=s]``: power cuts in the middle of what wcache does.

Exit code 0: nothing acknowledged was lost, and the controls lost something.
"""

from __future__ import annotations

import argparse
import secrets
import signal
import sys
import time
from typing import Callable

from ..artefacts import BuildError
from ..processes import LabError
from .plan import RoundPlan, control_plan, has_control, round_plan
from .rig import Rig
from .rounds import Round
from .tally import Tally

ROUNDS_MAX = 1_000_000
SEED_MAX = 2**32 - 1
LOST_SHOWN = 5
DEBUG = True


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="drive_lab.powercuts", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1000, help="default: %(default)s")
    parser.add_argument("--seed", type=int, help="default: one of chance, which is printed")
    parser.add_argument("--round", type=int, help="only this one: repeats what a run printed")
    parser.add_argument("--release", type=int, choices=(16, 18, 20), default=20)
    options = parser.parse_args(words)
    seed = secrets.randbelow(1 << 31) if options.seed is None else options.seed
    rounds = range(1, options.rounds + 1)
    if options.round is not None:
        rounds = range(options.round, options.round + 1)
    if not (0 <= seed <= SEED_MAX and rounds and 0 < rounds[0] <= rounds[-1] <= ROUNDS_MAX):
        parser.error(f"rounds are 1 to {ROUNDS_MAX}, a seed is 0 to {SEED_MAX}")
    # a run that is stopped takes the same way out as a finished one, and a shell begins its
    # background jobs with SIGINT ignored
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    tally = Tally(seed)
    try:
        play(tally, rounds, options.release)
    except (BuildError, LabError, OSError) as error:
        print(f"powercuts: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(tally.text())
        print("powercuts: stopped before its end; nothing is left behind", file=sys.stderr)
        return 130
    print(tally.text())
    failures = tally.failures()
    for line in failures:
        print(f"FAILED: {line}")
    return 1 if failures else 0


def play(tally: Tally, rounds: range, release: int) -> None:
    """Play rounds and their controls; what they came to is in the tally."""
    began = time.monotonic()
    say(f"seed {tally.seed}, rounds {rounds[0]} to {rounds[-1]}")
    try:
        with Rig(release) as rig:
            rig.booted()
            say(f"guest up after {time.monotonic() - began:.0f} s")
            for number in rounds:
                _one(rig, tally, round_plan(tally.seed, number), tally.results.append)
                if has_control(number, rounds[-1]):
                    _one(rig, tally, control_plan(tally.seed, number), tally.controls.append)
                tally.boots = rig.boots
                tally.seconds = time.monotonic() - began
    finally:
        tally.seconds = time.monotonic() - began


def _one(rig: Rig, tally: Tally, plan: RoundPlan, keep: Callable[..., None]) -> None:
    playing = Round(rig, plan, tally.seed)
    what = f"{'control after ' * plan.control}round {plan.number}"
    try:
        result = playing.play()
    except (LabError, OSError, AssertionError) as error:
        say(f"{what}: {plan.words()}")
        for line in playing.log:
            say(f"    {line}")
        say(f"BROKEN {what}: {error}; repeat it: {repeat(tally, plan)}")
        tally.broken.append((plan, str(error)))
        rig.power_cycle()
        return
    keep(result)
    lost = result.judgement.lost
    say(
        f"{what}: {plan.where}, {result.judgement.acknowledged} acknowledged, {len(lost)} lost, "
        f"{result.seconds:.1f} s: {', '.join(e.verb.value for e in plan.events)}"
    )
    if DEBUG:
        say("\n".join(result.log))
    if lost and not plan.control:
        say(f"    {plan.words()}")
        for line in result.log:
            say(f"    {line}")
        first = ", ".join(f"{w.number} at block {w.block}" for w in lost[:LOST_SHOWN])
        say(f"LOST in {what}: writes {first}; repeat it: {repeat(tally, plan)}")


def repeat(tally: Tally, plan: RoundPlan) -> str:
    """The command that plays a round again."""
    return f"make powercuts SEED={tally.seed} ROUND={plan.number}"


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
