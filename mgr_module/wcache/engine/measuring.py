"""What is done elsewhere for machines: measurements, and what trials ask of OSDs.

One of either for each machine at most.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Protocol

from ..core import events
from ..core.jobs import Holding, Touched, Trial
from ..core.model import LoadPoint
from ..core.record import Precondition
from ..core.shell import command
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
            event: events.Event = (
                events.LoadFailed(action.token, error)
                if error
                else events.LoadMeasured(action.token, samples)
            )
            if samples.moved:
                self._post_event(owner, events.Unmet((Precondition.NOT_BUSY,)))
            self._post_event(owner, event)

        self.put(owner, action.token)
        self._unanswered[action.token] = Call(action.request.load_point, touched)
        self._loads.start(action.token, action.request, done)

    def ended(self, owner: str, event: events.Event) -> None:
        """An answer has come: what it answers is not under way any more."""
        if not isinstance(event, (events.LoadMeasured, events.LoadFailed)):
            return
        if self.under_way.get(owner) == event.token:
            del self.under_way[owner]

    def going_on(self) -> List[Call]:
        """What nobody waits for any more and has not ended: a bench call is not called back."""
        awaited = set(self.under_way.values())
        return [call for token, call in list(self._unanswered.items()) if token not in awaited]

    def last_calls(self) -> List[Holding]:
        """The bench calls of capacities that go on after their runs have ended."""
        show = command("ceph wcache mclock show")
        return [
            Holding("the last bench call of an mclock measurement", call.touched, show)
            for call in self.going_on() if call.load_point is LoadPoint.OSD_BENCH_CAPACITY
        ]


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
            self._post_event(owner, events.OsdsAnswered(token, answer))

        self.kinds[action.knob].work.ask(
            action.request, lambda: self.under_way.get(owner) == token, done
        )
