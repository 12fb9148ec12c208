"""Work and faults on a real cluster, round by round; after each a look at what is left.

python -m chaos --rounds 50 --seed 1 [--part 2/5] [--no-guest] [--round n] [--fault NAME]
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import List, Sequence, Tuple

from drive_lab import network
from harness import HarnessError

from . import breakages
from .choices import Round, choose, parts
from .memory import Series
from .places import enter_own_mounts
from .rounds import Outcome, Rounds
from .stage import Stage, host_names, install, staged

NO_CLUSTER = 3


def part_of(text: str) -> Tuple[int, int]:
    """n/m: the n-th of m parts."""
    turn, _, of = text.partition("/")
    found = int(turn), int(of or 1)
    if not 1 <= found[0] <= found[1]:
        raise argparse.ArgumentTypeError(f"{text} is no part")
    return found


def asked(words: Sequence[str]) -> argparse.Namespace:
    """The arguments."""
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=None, help="default: a new one, printed")
    parser.add_argument("--part", type=part_of, default=(1, 1), metavar="n/m")
    parser.add_argument("--round", type=int, default=None, help="only that one")
    parser.add_argument("--first", action="store_true", help="end where a round left something")
    parser.add_argument("--no-guest", action="store_true", help="three hosts without own caches")
    parser.add_argument("--fault", choices=sorted(breakages.BREAKAGES), default=None,
                        help="break the code in a copy of the project: a round must find it")
    return parser.parse_args(words)


def say(line: str) -> None:
    """Print at once."""
    print(line, flush=True)


class Run:
    """The rounds of a run.  A round that left something ends its cluster; the next has a new one.
    """

    def __init__(self, given: argparse.Namespace, seed: int) -> None:
        self._given = given
        self._series = Series()
        self.outcomes: List[Outcome] = []
        hosts = host_names(not given.no_guest)
        numbers = [given.round] if given.round else parts(given.rounds, given.part)
        self._waiting: List[Round] = [choose(seed, number, hosts) for number in numbers]

    def play(self) -> None:
        """All of them."""
        while self._waiting:
            began_s = time.monotonic()
            with staged(not self._given.no_guest) as stage:
                rounds = Rounds(stage)
                say(f"the cluster is ready after {time.monotonic() - began_s:.0f} s")
                try:
                    if self._on(rounds):
                        keep_logs(stage)
                finally:
                    rounds.end()

    def _on(self, rounds: Rounds) -> bool:
        """Rounds on one cluster; whether one of them left something."""
        while self._waiting:
            outcome = rounds.play(self._waiting.pop(0))
            self.outcomes.append(outcome)
            say(str(outcome))
            if outcome.wrong:
                for line in outcome.wrong:
                    say(f"    {line}")
                if self._given.first:
                    self._waiting.clear()
                return True
            self._series.add(outcome.chosen.number, outcome.kib)
        return False

    def table(self) -> None:
        """What was done, and memory."""
        say("\nround  seconds  looks  mgr MiB  verdict  work: faults")
        for each in self.outcomes:
            faults = "; ".join(map(str, each.chosen.faults))
            say(
                f"{each.chosen.number:5d}  {each.seconds:7.0f}  {each.looks:5d}  "
                f"{each.kib.get('mgr', 0) / 1024:7.0f}  {'LEFT' if each.wrong else 'ok':7}  "
                f"{' + '.join(map(str, each.works))}: {faults}"
            )
        for who, found in self._series.judged().items():
            say(f"memory of {who}: {found or 'too few rounds from the tenth on'}")

    @property
    def grows(self) -> bool:
        """Whether anything's memory does."""
        return any(found and not found.flat for found in self._series.judged().values())


def keep_logs(stage: Stage) -> None:
    """Copy the logs of a cluster to where they stay."""
    kept = Path(tempfile.mkdtemp(prefix="wcache-chaos-logs-"))
    for name in ("log", "crash"):
        shutil.copytree(stage.cluster.folder / name, kept / name)
    for guest in stage.guest:
        for log in guest.lab.share.glob("*.log"):
            shutil.copy(log, kept)
    say(f"    logs: {kept}")


def main(words: Sequence[str]) -> int:
    """Exit code 0 where no round left anything; with --fault, where one found it."""
    given = asked(words)
    seed = given.seed if given.seed is not None else random.randrange(1 << 31)
    guest = "the guest is one of the hosts" if not given.no_guest else (
        "GUEST=0: no guest, so no drive with a cache of its own"
    )
    say(f"seed {seed}; {guest}")
    if given.fault:
        return breakages.found(given.fault, [
            "--rounds", str(given.rounds), "--seed", str(seed), "--first",
            "--part", "/".join(map(str, given.part)), *(["--no-guest"] if given.no_guest else []),
        ])
    install(not given.no_guest)
    network.enter_private_network()
    enter_own_mounts()
    run = Run(given, seed)
    try:
        run.play()
    except (HarnessError, AssertionError) as error:
        say(f"the cluster does not start: {error}")
        return NO_CLUSTER
    finally:
        run.table()
    return 1 if run.grows or any(each.wrong for each in run.outcomes) else 0


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main(sys.argv[1:]))
