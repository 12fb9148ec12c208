"""What all rounds came to: the table at the end of a run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from wcache.core.text import table

from .plan import STACKS, TRANSPORTS, Cut, RoundPlan, Verb
from .rounds import RoundResult

REFUSALS_SHOWN = 8
# so many are never all refused before their first step
KILLS_MIN = 5


@dataclass
class Tally:
    """Sums over rounds and controls."""

    seed: int
    results: list[RoundResult] = field(default_factory=list)
    controls: list[RoundResult] = field(default_factory=list)
    broken: list[tuple[RoundPlan, str]] = field(default_factory=list)
    seconds: float = 0.0  # of the whole run, boots and controls included
    boots: int = 0

    @property
    def acknowledged(self) -> int:
        return sum(result.judgement.acknowledged for result in self.results)

    @property
    def lost(self) -> int:
        return sum(len(result.judgement.lost) for result in self.results)

    def failures(self) -> list[str]:
        """Why the run proves nothing, or proves the opposite; empty where all is well."""
        found = []
        if self.lost:
            found.append(f"{self.lost} acknowledged writes were lost")
        if self.broken:
            found.append(f"{len(self.broken)} rounds could not be judged")
        for control in self.controls:
            if not control.judgement.lost:
                found.append(
                    f"the control after round {control.plan.number} on {control.plan.drive} lost "
                    f"nothing of {control.judgement.acknowledged}: the referee sees nothing"
                )
        if not self.controls:
            found.append("no control was played")
        meant = sum(r.events[Verb.LEASE_KILLED] + r.events[Verb.RESTORE_KILLED]
                    for r in self.results)  # fmt: skip
        if meant >= KILLS_MIN and not any(result.killed for result in self.results):
            found.append(f"{meant} programs were to be killed in a change, and none was")
        if self.results and not any(result.switched for result in self.results):
            found.append("no drive was ever switched")
        return found

    def text(self) -> str:
        """The tables."""
        return "\n\n".join((self._paths(), self._events(), self._summary()))

    def _paths(self) -> str:
        rows = []
        for transport in TRANSPORTS:
            for stack in STACKS:
                of = [r for r in self.results
                      if (r.plan.transport, r.plan.stack) == (transport, stack)]
                controls = [c for c in self.controls
                            if (c.plan.transport, c.plan.stack) == (transport, stack)]
                rows.append([
                    transport.value, stack.value, str(len(of)),
                    str(sum(r.judgement.acknowledged for r in of)),
                    str(sum(len(r.judgement.lost) for r in of)),
                    str(sum(r.switched for r in of)),
                    str(sum(1 for r in of if r.volatile)),
                    " of ".join((
                        str(sum(len(c.judgement.lost) for c in controls)),
                        str(sum(c.judgement.acknowledged for c in controls)),
                    )),
                ])  # fmt: skip
        head = ("TRANSPORT", "STACK", "ROUNDS", "ACKNOWLEDGED", "LOST", "SWITCHED",
                "CUT WHILE DIRTY", "CONTROL LOST")  # fmt: skip
        return table(head, rows)

    def _events(self) -> str:
        counts: Counter[Verb] = Counter()
        refused: Counter[str] = Counter()
        for result in self.results:
            counts.update(result.events)
            refused.update(result.refused)
        rows = [[verb.value, str(counts[verb])] for verb in Verb]
        rows.append(["killed in a change", str(sum(r.killed for r in self.results))])
        rows += [[f"cut of the {cut.value}", str(sum(r.plan.cut is cut for r in self.results))]
                 for cut in Cut]
        text = table(("EVENT", "TIMES"), rows)
        if refused:
            shown = [[str(n), line[:160]] for line, n in refused.most_common(REFUSALS_SHOWN)]
            text += "\n\n" + table(("TIMES", "REFUSED OR FAILED"), shown)
        return text

    def _summary(self) -> str:
        rounds = len(self.results)
        lines = [
            f"seed {self.seed}: {rounds} power cuts, {self.acknowledged} writes acknowledged "
            f"before them, {self.lost} lost",
            f"control: {sum(len(c.judgement.lost) for c in self.controls)} of "
            f"{sum(c.judgement.acknowledged for c in self.controls)} lost in "
            f"{len(self.controls)} cuts",
            f"{self.seconds:.0f} s in all, {self.seconds / max(1, rounds):.2f} s a round; "
            f"{self.boots} boots, set-up and controls included",
        ]
        return "\n".join(lines)
