"""What the module keeps over a mgr restart, typed: one folder of keys for each kind.

A stored value that cannot be read (another version, a damaged part) is left where it
is, listed in `unreadable`, and never guessed at.

Nothing here waits.  A method that takes `done` says by it when the mons have the value;
what the others store may come later, and what is dropped goes later still.

What waits for the mons: a machine's next step is taken once they have what came before it.

The store answers from a thread of its own; `answers` hands its answers to the engine, which
takes them under its lock.
"""

from __future__ import annotations

import queue
import re
from dataclasses import dataclass
from typing import (
    Callable,
    Dict,
    Generic,
    Iterable,
    Iterator,
    List,
    Optional,
    Sequence,
    Tuple,
    Type,
    TypeVar,
)

from ...core import codec, events, versions
from ...core.automation.state import AutoState
from ...core.drive.journal import Acceptances
from ...core.drive.proofs import AcceptedProofs
from ...core.errors import StorageError, WcacheError
from ...core.experiment.campaign import Campaign
from ...core.experiment.design import Periods, Slot
from ...core.experiment.run_state import RunState
from ...core.fleet.agents import Agent
from ...core.host_report import HostReport
from ...core.ports import Done, Store, Write
from ...core.protocol import ReleaseRequest
from ...core.record import Period, Record
from ...core.verdict.foreign import Evidence
from ...core.verdict.load_profile import LoadProfile
from ...core.verdict.result import Result, TrustedModels
from ...core.versions import Numbered
from ...deployment.places import Deployment, RemovedHosts
from .plans import VALUE_BYTES_MAX, StoredPlans, own_name, readable, require_key

T = TypeVar("T", bound=Numbered)
_NUMBERED = re.compile(r"[cp][0-9]{1,12}(\.[0-9]+)?").fullmatch
_NUMBER = re.compile(r"[0-9]{1,18}").fullmatch
# Before the key of a value that could not be read, and that another one was stored in place of.
ASIDE = "aside/"
STATE_VERSION = 1


@dataclass(frozen=True)
class StoredKind(Generic[T]):
    """Say where values of a type are: in a folder by their names, or one as `prefix` itself.

    A value's name is what STORED_BY of its type says; one without it is given a name.  What is
    measured is too much to be `proven`, that is read back, each time it is stored.
    """

    prefix: str
    cls: Type[T]
    proven: bool = True

    def key(self, name: Optional[str] = None) -> str:
        return self.prefix if name is None else f"{self.prefix}/{name}"

    def write(self, value: T, name: Optional[str] = None, *, proven: bool = True) -> Write:
        """Return what stores a value; raise StorageError if it would not be read again."""
        key = self.key(own_name(value) if name is None else name)
        proven = proven and self.proven
        return Write(key, readable(key, value) if proven else versions.dumps(value))


# All kinds but plans (`StoredPlans`), lines of the audit log, and what knobs store.
ACCEPTED = StoredKind("accepted", Acceptances)
ACCEPTED_PROOFS = StoredKind("accepted-words", AcceptedProofs)
AGENT = StoredKind("agent", Agent)
AUTOMATION = StoredKind("automation", AutoState)
CAMPAIGN = StoredKind("campaign", Campaign)
DEPLOYMENT = StoredKind("deployment", Deployment)
FOREIGN = StoredKind("foreign", Evidence)
PERIOD = StoredKind("period", Period, proven=False)
PROFILE = StoredKind("profile", LoadProfile)
RECORD = StoredKind("record", Record, proven=False)
REMOVED = StoredKind("removed", RemovedHosts)
REPORT = StoredKind("report", HostReport)
RESULT = StoredKind("result", Result)
RUN = StoredKind("run", RunState)
TRUSTED = StoredKind("plp-trust", TrustedModels)


class Archive:
    """Typed access to the store; `plans` are kept apart, as a large one has many keys."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.trouble = store.trouble  # one line on what the mons do not store now, or ""
        self.unreadable: Dict[str, str] = {}
        self.plans = StoredPlans(store, self.unreadable)
        self._is_fresh = False  # nothing is stored yet: the number goes with what comes first

    def check_version(self) -> None:
        """Refuse to touch the state of a newer module; note that a store is fresh.

        A number that is none says nothing: each value has its own.
        """
        for key in self._store.keys(ASIDE):
            self.unreadable[key] = f"{key[len(ASIDE):]} could not be read, and another is stored"
        try:
            text = self._store.get("version")
        except StorageError as error:
            self.unreadable["version"] = error.message
            return
        if text is None:
            self._is_fresh = True
        elif not _NUMBER(text):
            self.unreadable["version"] = "version is no number"
        elif int(text) != STATE_VERSION:
            raise WcacheError(
                f"the stored state has version {text[:10]!r}, this module knows {STATE_VERSION}",
                "run the module that wrote it, or `ceph config-key rm` its keys",
            )

    # ---- values of all kinds

    def get(self, kind: StoredKind[T], name: Optional[str] = None) -> Optional[T]:
        """Return one value, or None; what cannot be read is in `unreadable`."""
        key = kind.key(name)
        try:
            text = self._store.get(key)
            if text is None:
                return None
            value = versions.loads(kind.cls, text, bytes_max=VALUE_BYTES_MAX, what=key)
            require_key(key, value)
        except WcacheError as error:
            self.unreadable[key] = error.message
            return None
        return value

    def all(self, kind: StoredKind[T], under: str = "") -> Dict[str, T]:
        """Return all values of a kind by name, or those whose names begin with `under`."""
        found = {name: self.get(kind, name) for name in self.names(kind, under)}
        return {name: value for name, value in found.items() if value is not None}

    def numbered(self, kind: StoredKind[T]) -> Dict[int, T]:
        """Return the same of a kind whose names are numbers, in their order."""
        found: Dict[int, T] = {}
        for name, value in self.all(kind).items():
            if _NUMBER(name):
                found[int(name)] = value
            else:
                self.unreadable[kind.key(name)] = f"{kind.key(name)} names no number"
        return found

    def names(self, kind: StoredKind[T], under: str = "") -> List[str]:
        """Return the names of everything stored of a kind, what cannot be read included."""
        keys = self._store.keys(kind.key(under))
        return [key[len(kind.prefix) + 1:] for key in keys]

    def next_number(self, kind: StoredKind[T]) -> int:
        """Return the number after all that are names of a kind, what cannot be read included."""
        return max((int(n) for n in self.names(kind) if _NUMBER(n)), default=-1) + 1

    def sizes(self, kind: StoredKind[T], name: str = "") -> Dict[str, int]:
        """Return the bytes that values take, by name; this reads them."""
        found = self._store.sizes(kind.key(name))
        return {key[len(kind.prefix) + 1:]: size for key, size in found.items()}

    def put(
        self, kind: StoredKind[T], value: T, done: Done, name: Optional[str] = None
    ) -> None:
        """Store a value that will be read again, else tell `done` why it would not be."""
        try:
            write = kind.write(value, name)
        except StorageError as error:
            done(error)
            return
        self._store.write(self._whole([write]), done)

    def put_later(self, kind: StoredKind[T], value: T, name: Optional[str] = None) -> None:
        """Store a value that may wait, and of which only the newest counts."""
        for write in self._whole([kind.write(value, name, proven=False)]):
            self._store.write_later(write.key, write.text)

    def drop(self, kind: StoredKind[T], name: str) -> None:
        self._store.write_later(kind.key(name), None)

    def left_out(self, key: str, error: Exception) -> None:
        """What was read of a key does not do: it is left out, and stays where it is."""
        self.unreadable[key] = codec.one_line(f"{key} does not do ({error!r})", 300)

    def _whole(self, writes: Sequence[Write]) -> List[Write]:
        """Put what could not be read of their keys first: it is not lost with them."""
        marked = [Write("version", str(STATE_VERSION))] if self._is_fresh else []
        self._is_fresh = False
        return [*marked, *(each for write in writes for each in (*self._aside(write.key), write))]

    def _aside(self, key: str) -> Sequence[Write]:
        if key not in self.unreadable or key.startswith(ASIDE):
            return ()
        why = self.unreadable.pop(key)
        try:
            text = self._store.get(key)
        except StorageError:
            return ()  # nothing can be made of it
        if text is None:
            return ()
        self.unreadable[ASIDE + key] = why
        return (Write(ASIDE + key, text),)

    def end(self, done: Done) -> None:
        """Remove all that is stored, and store nothing from then on."""
        self._store.end(done)

    # ---- what is no value of a kind, or several

    @property
    def frozen(self) -> bool:
        """Whether an admin has frozen the cluster; a word that cannot be read may say so."""
        try:
            text = self._store.get("frozen")
        except StorageError as error:
            self.unreadable["frozen"] = error.message
            return True
        if text not in (None, "0", "1"):
            self.unreadable["frozen"] = "frozen is neither 0 nor 1, so nothing is changed"
        return text not in (None, "0")

    def set_frozen(self, frozen: bool, done: Done) -> None:
        self._store.write(self._whole([Write("frozen", "1" if frozen else "0")]), done)

    def put_campaign(
        self, campaign: Campaign, runs: Sequence[RunState], done: Done
    ) -> None:
        """Store a campaign with its runs.

        The header comes last: runs without one are not begun after a restart.
        """
        try:
            writes = [*(RUN.write(run) for run in runs), CAMPAIGN.write(campaign)]
        except StorageError as error:
            done(error)
            return
        self._store.write(self._whole(writes), done)

    def drop_run(self, run_id: str) -> None:
        """Remove a run with what is left of its periods."""
        self.drop_periods(run_id)
        self.drop(RUN, run_id)

    def periods(self, run_id: str, experiments: int) -> List[Periods]:
        """The saved periods of a run, one dict for each of its experiments."""
        found: List[Periods] = [{} for _ in range(experiments)]
        for name, period in self.all(PERIOD, f"{run_id}/").items():
            parts = name.split("/")[1:]
            if len(parts) == 3 and all(map(_NUMBER, parts)):
                index, number, second = (int(part) for part in parts)
                if index < experiments:
                    found[index][Slot(number, bool(second))] = period
        return found

    def put_period(
        self, run_id: str, experiment: int, slot: Slot, period: Period, done: Done
    ) -> None:
        name = f"{run_id}/{experiment}/{slot.index}/{int(slot.second)}"
        self.put(PERIOD, period, done, name)

    def drop_periods(self, run_id: str, experiment: Optional[int] = None) -> None:
        """Remove the periods of an experiment whose record is stored, or all of a run."""
        of = "" if experiment is None else f"{experiment}/"
        for name in self.names(PERIOD, f"{run_id}/{of}"):
            self.drop(PERIOD, name)


def next_number(ids: Iterable[str]) -> int:
    """The number of a new campaign or plan, after all that `ids` (c1, c1.0, p3) have."""
    numbers = [int(key[1:].partition(".")[0] or "0") for key in ids if _NUMBERED(key)]
    return max(numbers, default=0) + 1


@dataclass(frozen=True)
class MonsAnswer:
    """The mons' answer to one write: whose it was, and what follows from it."""

    owner: str
    error: Optional[StorageError]
    then: Callable[[], None]
    failed: Optional[Callable[[StorageError], None]]


class StoreGate:
    """Writes without an answer, and the step that each of their owners wants to take next.

    Guarded by the engine's lock, but for `Done`, which is called from any thread.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._answers: queue.Queue[MonsAnswer] = queue.Queue()
        self._open: Dict[str, int] = {}
        self.held: Dict[str, Tuple[events.Action, float]] = {}  # a step, and since when it waits

    @staticmethod
    def passes(action: events.Action) -> bool:
        """Whether an action needs nothing stored: all but steps, and ends of leases among them."""
        if isinstance(action, events.GiveTask):
            return isinstance(action.request, ReleaseRequest)
        if isinstance(action, events.AskOsds):
            return action.back
        return not isinstance(action, (events.MeasureLoad, events.AskConfig, events.WatchBlocks))

    def expect(
        self, owner: str, then: Callable[[], None] = lambda: None,
        failed: Optional[Callable[[StorageError], None]] = None,
    ) -> Done:
        """For a write of `owner`: what to call with its answer.  `then` follows where it is
        stored, `failed` where it is not (without it, whatever holds for its owner)."""
        self._open[owner] = self._open.get(owner, 0) + 1

        def done(error: Optional[StorageError]) -> None:
            self._answers.put(MonsAnswer(owner, error, then, failed))
            self._wake()

        return done

    def answers(self) -> Iterator[MonsAnswer]:
        """What the mons have answered since."""
        while True:
            try:
                answer = self._answers.get_nowait()
            except queue.Empty:
                return
            left = self._open[answer.owner] - 1
            self._open[answer.owner] = left
            if not left:
                del self._open[answer.owner]
            yield answer

    def closed(self, owner: str) -> bool:
        """Whether a write of `owner` has no answer yet."""
        return owner in self._open

    def hold(self, owner: str, step: events.Action, now_s: float) -> None:
        """Keep a step until `take`; it replaces the one before."""
        since_s = self.held[owner][1] if owner in self.held else now_s
        self.held[owner] = (step, since_s)

    def take(self, owner: str) -> Optional[events.Action]:
        """The step that waits, which is not kept any more; None where there is none."""
        step, _ = self.held.pop(owner, (None, 0.0))
        return step
