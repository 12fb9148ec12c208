"""What OSDs are asked for machines: measurements, questions of trials, tasks about their options.

One of each for each machine at most.  Answers come from other threads, as events of the machine.

Tasks about other settings go to a probe.  No probe holds the lease of an OSD's option, so nothing
puts it back while no mgr runs the module.  The next mgr does so first; and where an OSD did not
answer when its run ended, it is asked again.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Protocol, Sequence

from ..core import events
from ..core.cluster import ClusterView
from ..core.experiment.osd_option import Program, perform
from ..core.experiment.run import RunMachine
from ..core.experiment.run_state import RunSpec
from ..core.host_report import HostReport
from ..core.jobs import Touched, Trial
from ..core.model import LoadPoint, Role
from ..core.protocol import Outcome, ReleaseRequest, StateOutcome
from ..core.record import Precondition
from .hosts import RESTORE_EVERY_S
from .storing.archive import StoredKind


class OsdWork(Protocol):
    """Port: has OSDs do what the trial of a knob is made of."""

    def ask(
        self, request: object, goes_on: Callable[[], bool], done: Callable[[object], None]
    ) -> None:
        """Do it in the background; calls `done(answer)` once, from another thread.

        Nothing more is asked of an OSD once `goes_on()` says no.
        """


class TrialKind(NamedTuple):
    """What a knob tries by itself: where it is stored, its machine, and what asks its OSDs."""

    stored: StoredKind[Any]
    machine_of: Callable[[Any, str], Trial]
    work: OsdWork


class LoadRunner(Protocol):
    """Port: measures OSDs in the background."""

    def start(
        self, token: str, request: events.LoadRequest,
        done: Callable[[events.LoadSamples, str], None],
    ) -> None:
        """Measure; calls `done(samples, error)` once, from another thread."""

    def cancel(self, token: str) -> None:
        """Stop a measurement as soon as it can be stopped; one that is over is fine."""


class Call(NamedTuple):
    """A measurement that was started, and what it touches for as long as it goes on."""

    load_point: LoadPoint
    touched: Touched


class ByOwner:
    """What is done elsewhere, by its token: for each owner one thing at most.

    `stop` ends what a token is of; where that is over, nothing need be done.
    """

    def __init__(self, stop: Callable[[str], None] = lambda token: None) -> None:
        self._stop = stop
        self.under_way: Dict[str, str] = {}  # owner to token

    def put(self, owner: str, token: str) -> None:
        """Something is begun for an owner; what was before is cancelled."""
        self.cancel(owner)
        self.under_way[owner] = token

    def cancel(self, owner: str) -> None:
        """Stop what is done for an owner, if anything is."""
        token = self.under_way.pop(owner, None)
        if token is not None:
            self._stop(token)

    def cancel_all(self) -> None:
        """Stop everything: the mgr stops."""
        for owner in list(self.under_way):
            self.cancel(owner)


class Measuring(ByOwner):
    """Starts and cancels the measurements that machines ask for.

    `post_event(owner, event)` takes the answers, from any thread.
    """

    def __init__(
        self, loads: LoadRunner, post_event: Callable[[str, events.Event], None]
    ) -> None:
        super().__init__(loads.cancel)
        self._loads = loads
        self._post_event = post_event
        self._unanswered: Dict[str, Call] = {}  # by token

    def start(self, owner: str, action: events.MeasureLoad, touched: Touched) -> None:
        """Measure for `owner`; what it measured before is cancelled.

        `touched` is kept with the call: it may go on when nobody knows its owner any more.
        """

        def done(samples: events.LoadSamples, error: str) -> None:
            self._unanswered.pop(action.token, None)
            answer = events.LoadFailed(error) if error else samples
            if samples.moved:
                self._post_event(owner, events.Unmet((Precondition.NOT_BUSY,)))
            self._post_event(owner, events.Answered(action.token, answer))

        self.put(owner, action.token)
        self._unanswered[action.token] = Call(action.request.load_point, touched)
        self._loads.start(action.token, action.request, done)

    def ended(self, owner: str, event: events.Event) -> None:
        """An answer has come: what it answers is not under way any more."""
        if isinstance(event, events.Answered) and self.under_way.get(owner) == event.token:
            del self.under_way[owner]

    def going_on(self) -> List[Call]:
        """What nobody waits for any more and has not ended: a bench call is not called back."""
        awaited = set(self.under_way.values())
        return [call for token, call in list(self._unanswered.items()) if token not in awaited]


class OsdQuestions(ByOwner):
    """What trials ask of OSDs; each question replaces the one before of its trial.

    `kinds` are those that there are, by knob; `post_event(owner, event)` takes the answers.
    """

    def __init__(self, post_event: Callable[[str, events.Event], None]) -> None:
        super().__init__()
        self._post_event = post_event
        self.kinds: Dict[str, TrialKind] = {}

    def ask(self, owner: str, action: events.AskOsds) -> None:
        """Have OSDs do this for `owner`."""
        token = action.token
        self.put(owner, token)

        def done(answer: object) -> None:
            self._post_event(owner, events.Answered(token, answer))

        self.kinds[action.knob].work.ask(
            action.request, lambda: self.under_way.get(owner) == token, done
        )


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


class OsdOptionTasks(ByOwner):
    """One task for each run at most; guarded by the engine's lock."""

    def __init__(
        self, osds: OsdPrograms, view: ClusterView,
        post_event: Callable[[str, events.Event], None],
    ) -> None:
        super().__init__()
        self._osds = osds
        self._view = view
        self._post_event = post_event
        self._asked_at_s: Dict[str, float] = {}
        self._again = 0

    def give(
        self, owner: str, spec: RunSpec, action: events.GiveTask, report: Optional[HostReport]
    ) -> None:
        """Do a task for `owner`; the one before is not begun any more, unless it gives back."""
        osd_id, trial, token = spec.option_osd, spec.option, action.task_id
        if osd_id is None or trial is None:
            raise ValueError(f"{owner} is about no option of an OSD")
        self.put(owner, token)
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
            elif self.under_way.get(owner) != token:
                return None
            return perform(request, trial, osd_id, drives)

        self._osds.start(
            osd_id, make,
            lambda outcome: self._post_event(owner, events.Answered(token, outcome)),
        )

    def ask_again(self, runs: Mapping[str, RunMachine], now_s: float, epoch: str) -> None:
        """Runs that are over and owe an OSD its own value: it may answer now."""
        for run_id, machine in runs.items():
            state, spec = machine.state, machine.state.spec
            owed = spec.option_osd is not None and machine.over and not state.restored
            asked_at_s = self._asked_at_s.get(run_id, float("-inf"))
            if owed and state.unsettled and now_s - asked_at_s >= RESTORE_EVERY_S:
                self._asked_at_s[run_id] = now_s
                self._again += 1
                token = f"{run_id}.{epoch}.again.{self._again}"
                task = events.GiveTask(token, state.release(spec.domain_id))
                self.give(run_id, spec, task, None)


def _gone(request: ReleaseRequest) -> Program:
    """The OSD is not in the cluster any more: what it had at run time went with it."""
    return StateOutcome.of_prior(request.prior, changed=False)
    yield  # a program of no steps
