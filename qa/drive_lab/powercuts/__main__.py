"""``make powercuts ROUNDS=1000 [SEED=s]``: power cuts in the middle of what wcache does.

Exit code 0: nothing acknowledged was lost, and the controls lost something.
"""

from __future__ import annotations

import argparse
import secrets
import signal
import sys
import time

from ..images.artefacts import BuildError
from ..processes import LabError
from .plan import RoundPlan, control_plan, has_control, round_plan
from .rig import Rig
from .rounds import Round, RoundResult
from .tally import Tally

ROUNDS_MAX = 1_000_000
SEED_MAX = 2**32 - 1
LOST_SHOWN = 5


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
    code = 0
    try:
        began = time.monotonic()
        with Rig(options.release) as rig:
            Run(rig, tally, rounds, began).play()
    except (BuildError, LabError, OSError) as error:
        say(f"powercuts: {error}")
        code = 1
    except KeyboardInterrupt:
        say("powercuts: stopped before its end; nothing is left behind")
        code = 130
    say(f"\n{tally.text()}")
    failures = tally.failures()
    for line in failures:
        say(f"FAILED: {line}")
    return code or int(bool(failures))


class Run:
    """Plays rounds and their controls, and says how it goes."""

    def __init__(self, rig: Rig, tally: Tally, rounds: range, began: float) -> None:
        self._began = began
        self._rig = rig
        self._tally = tally
        self._rounds = rounds

    def play(self) -> None:
        """What the rounds came to is in the tally, also when this is interrupted."""
        tally, last = self._tally, self._rounds[-1]
        say(f"seed {tally.seed}, rounds {self._rounds[0]} to {last}")
        try:
            self._rig.booted()
            self._rig.prepare()
            for number in self._rounds:
                result = self._one(round_plan(tally.seed, number))
                tally.results += [result] if result else []
                if has_control(number, last):
                    control = self._one(control_plan(tally.seed, number))
                    tally.controls += [control] if control else []
        finally:
            tally.boots = self._rig.boots
            tally.seconds = time.monotonic() - self._began

    def _one(self, plan: RoundPlan) -> RoundResult | None:
        """What became of it; None where that can't be told."""
        playing = Round(self._rig, plan, self._tally.seed)
        what = f"{'control after ' * plan.control}round {plan.number}"
        try:
            result = playing.play()
        except (LabError, OSError, AssertionError) as error:
            self._details(plan, playing.log)
            say(f"BROKEN {what}: {error}; to repeat it: {self._repeat(plan)}")
            self._tally.broken.append((plan, str(error)))
            self._rig.power_cycle()
            return None
        judged = result.judgement
        say(
            f"{what} of {self._rounds[-1]}: {plan.drive}, {judged.acknowledged} acknowledged, "
            f"{len(judged.lost)} lost, {result.seconds:.1f} s: "
            f"{', '.join(event.verb.value for event in plan.events) or 'nothing flushes'}"
        )
        if not plan.control and (judged.lost or len(self._rounds) == 1):
            self._details(plan, result.log)
        if not plan.control and judged.lost:
            first = ", ".join(f"{w.number} at block {w.block}" for w in judged.lost[:LOST_SHOWN])
            say(f"LOST in {what}: writes {first}; to repeat it: {self._repeat(plan)}")
        return result

    def _details(self, plan: RoundPlan, log: list[str]) -> None:
        for line in (plan.words(), *log):
            say(f"    {line}")

    def _repeat(self, plan: RoundPlan) -> str:
        """The command that plays a round again."""
        return f"make powercuts SEED={self._tally.seed} ROUND={plan.number}"


def say(text: str) -> None:
    """Print a line now: a run is followed live."""
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
