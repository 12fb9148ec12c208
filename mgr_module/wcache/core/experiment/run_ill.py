"""A run whose OSDs fall ill: its drives go back at once, and it waits until they are well.

The pair under way is thrown away.  Nothing is held meanwhile, so each drive is looked at before
it is touched again.  What it waits for is stored, and a mgr that takes over waits on.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import List, Tuple

from .. import events
from ..codec import one_line
from . import accounting, run_priors
from .period import PeriodUnderWay, Stage
from .run_state import RunStatus
from .slots import Slot
from .starting import StartingRun

# How long OSDs have to get well before a run ends: a daemon that restarts is back by then.
ILL_WAIT_S = 120.0
# A drive that makes its OSDs ill again and again is not measured any more.
ILL_TIMES_MAX = 3


@dataclass
class IllRun(StartingRun):
    """The part of a run's machine that leaves OSDs alone which are ill."""

    _looks: int = 0
    _watch_of: Tuple[int, str] = (-1, "")  # the experiment whose OSDs are watched, and the token

    def _ill(self, why: str, now_s: float) -> List[events.Action]:
        """A look at its OSDs; `why` is empty where all are well."""
        if self.state.status is not RunStatus.RUNNING:
            return []
        if self.state.ill_since_s:
            return self._still_ill(why, now_s)
        return self._wait_for_osds(why, now_s) if why else []

    def _fails(self, why: str, now_s: float) -> List[events.Action]:
        """A load failed; an OSD that has stopped does not answer long before the maps show it."""
        if not self.spec.heeds_cluster:
            return self._halt(why, now_s)
        return self._wait_for_osds(why, now_s, load_failed=one_line(why))

    def _wait_for_osds(
        self, why: str, now_s: float, load_failed: str = ""
    ) -> List[events.Action]:
        if self.state.ill_times >= ILL_TIMES_MAX:
            said = f"stopped: {why}, after it was ill {ILL_TIMES_MAX} times"
            return self._halt(said, now_s, unfit=True)
        self._void(now_s)
        self.state = replace(
            self.state, ill_since_s=now_s, voided_at_s=now_s, ill_times=self.state.ill_times + 1,
            reason=one_line(f"waiting: {why}"), load_failed=load_failed,
        )
        self.state = accounting.with_thrown_away(self.state, self._keep_whole().values())
        self._releases, self._watch_of = 0, (-1, "")  # what the watch says of them is known
        note = f"the pair under way is thrown away, and what it toggles goes back: {why}"
        return [events.Note(one_line(note), "warning"), *self._give_back()]

    def _given_back_while_ill(self, back: bool) -> List[events.Action]:
        if not back:  # the reason says why
            return self._halt(self.state.reason, self.state.ill_since_s, unfit=True)
        for domain_id in self.spec.domain_ids:
            self.state = run_priors.given_back(self.state, domain_id)
        self._now = PeriodUnderWay(Slot(0, False))
        return [events.SaveRun()]

    def _still_ill(self, why: str, now_s: float) -> List[events.Action]:
        """Go on after a while where all are well; else end with the complete pairs.

        Where a load failed and nobody was ill meanwhile, it ends for that.
        """
        shown: List[events.Action] = []
        if why:  # that it is another reason by now is told, and not stored at each look
            shown = [events.SaveRun()] if self.state.load_failed else []
            self.state = replace(self.state, load_failed="", reason=one_line(f"waiting: {why}"))
        going_back = self._now.phase is Stage.RELEASING
        if going_back or now_s < self.state.ill_since_s + ILL_WAIT_S:
            return shown
        if why:
            return self._halt(f"stopped: {why}", now_s, unfit=True)
        if self.state.load_failed:
            return self._halt(self.state.load_failed, now_s)
        self.state = replace(self.state, ill_since_s=0.0, reason="", began_at_s=now_s)
        self._looks = self._releases = 0
        note = events.Note("goes on: its OSDs are well again")
        return [note, *self._look_or_go_on(now_s)]

    # ---- what the run's machine does next

    @abstractmethod
    def _look_or_go_on(self, now_s: float) -> List[events.Action]:
        """Look at what was not looked at, then measure on."""
