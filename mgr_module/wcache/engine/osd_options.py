"""Tasks of runs that compare an option of an OSD: done here, where others go to a probe.

No probe holds the lease of such an option, so nothing puts it back while no mgr runs the module.
The next mgr does so first; and where an OSD did not answer when its run ended, it is asked again.
"""

from __future__ import annotations

from typing import Callable, Dict, Mapping, Optional, Protocol, Sequence

from ..core import events
from ..core.cluster import ClusterView
from ..core.experiment.osd_option import Program, given_back, perform
from ..core.experiment.run import RunMachine
from ..core.experiment.run_priors import release_request, touched
from ..core.experiment.run_state import RunSpec
from ..core.host_report import HostReport
from ..core.model import Role
from ..core.protocol import Outcome, ReleaseRequest
from .unrestored import RESTORE_EVERY_S


class OsdPrograms(Protocol):
    """Port: carries out on OSDs what programs ask for, of one OSD one after the other."""

    def start(
        self, osd_id: int, make: Callable[[], Optional[Program]],
        done: Callable[[Outcome], None],
    ) -> None:
        """Do it in the background when those before are over; `done` from another thread.

        Where `make` gives none any more, nothing is done or told.
        """

    def values(
        self, osd_ids: Sequence[int], names: Sequence[str], timeout_s: float
    ) -> Mapping[int, Mapping[str, str]]:
        """Return what OSDs go by; of those that answer in time, which is waited for."""


class OsdOptionTasks:
    """One task for each run at most; guarded by the engine's lock."""

    def __init__(
        self, osds: OsdPrograms, view: ClusterView,
        post_event: Callable[[str, events.Event], None],
    ) -> None:
        self._osds = osds
        self._view = view
        self._post_event = post_event
        self._wanted: Dict[str, str] = {}  # owner to the task that it waits for
        self._asked_at_s: Dict[str, float] = {}
        self._again = 0

    def give(
        self, owner: str, spec: RunSpec, action: events.GiveTask, report: Optional[HostReport]
    ) -> None:
        """Do a task for `owner`; the one before is not begun any more, unless it gives back."""
        osd_id, trial, token = spec.option_osd, spec.option, action.task_id
        if osd_id is None or trial is None:
            raise ValueError(f"{owner} is about no option of an OSD")
        self._wanted[owner] = token
        drives = [
            drive for drive in (report.drives if report is not None else ())
            if drive.domain_id == spec.domain_id
            and any(use.osd_id == osd_id and use.role is Role.BLOCK for use in drive.uses)
        ]
        request = action.request

        def make() -> Optional[Program]:
            if isinstance(request, ReleaseRequest):
                if osd_id not in self._view.cluster().osds:
                    return _gone(request)
            elif self._wanted.get(owner) != token:
                return None
            return perform(request, trial, osd_id, drives)

        self._osds.start(
            osd_id, make,
            lambda outcome: self._post_event(owner, events.TaskAnswered(token, outcome)),
        )

    def cancel(self, owner: str) -> None:
        """Nobody waits for the task of a run any more."""
        self._wanted.pop(owner, None)

    def ask_again(self, runs: Mapping[str, RunMachine], now_s: float, epoch: str) -> None:
        """Runs that are over and owe an OSD its own value: it may answer now."""
        for run_id, machine in runs.items():
            state, spec = machine.state, machine.spec
            owes = machine.over and not state.settled and spec.option_osd is not None
            asked_at_s = self._asked_at_s.get(run_id, float("-inf"))
            if owes and touched(state, spec.domain_id) and now_s - asked_at_s >= RESTORE_EVERY_S:
                self._asked_at_s[run_id] = now_s
                self._again += 1
                request = release_request(state, spec.domain_id)
                token = f"{run_id}.{epoch}.again.{self._again}"
                self.give(run_id, spec, events.GiveTask(token, request), None)


def _gone(request: ReleaseRequest) -> Program:
    """The OSD is not in the cluster any more: what it had at run time went with it."""
    return given_back(request, False)
    yield  # a program of no steps
