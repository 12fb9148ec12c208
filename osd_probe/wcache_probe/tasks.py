"""The tasks of the mgr: each is done here (read, time, switch), then answered."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Callable, Mapping, Optional, Sequence, Tuple, Union

from wcache.core import VERSION
from wcache.core.drive.journal import EntryKind, JournalEntry
from wcache.core.drive.prior import (
    Prior,
    PriorDoubt,
    PriorError,
    lost,
    not_back,
    states_by_id,
)
from wcache.core.errors import DisobeyedError, NotReadyError, RefusedError, WcacheError
from wcache.core.hardware import FlushCounters
from wcache.core.host_report import HostReport
from wcache.core.model import DriveReport, DriveState, Finding
from wcache.core.ports import DriveHost
from wcache.core.protocol import (
    APPLIED,
    DOMAIN_DRIVES_MAX,
    LEASED,
    AcceptRequest,
    ApplyOptionRequest,
    ApplyRequest,
    CountersRequest,
    DrivesOutcome,
    FailureOutcome,
    LookRequest,
    MeasureRequest,
    MemoryOutcome,
    MemoryRequest,
    OptionsRequest,
    Outcome,
    ReleaseRequest,
    ReportOutcome,
    ReportRequest,
    RollbackRequest,
    SetModeRequest,
    SetOptionRequest,
    StateOutcome,
    Task,
    TimerRequest,
)

from .domain_survey import CHANGES, WAYS_BACK, DomainSurvey, entry_of, used_by
from .evidence import EvidenceFolder
from .journal.journal_words import journal_findings, journal_notes
from .linux.persistence.preparation import told_once
from .linux.set_up import rounded
from .mgr_link import Identity, printable
from .restoring.owed import Holds
from .switcher import Switcher
from .switching import options as optioning
from .switching import toggle
from .switching.lease import LeaseKeeper
from .switching.steps import Switched
from .switching.toggle import bring_back

TIMER_SECONDS_MAX = 30.0


@dataclass
class TaskRunner:
    """Performs tasks on one host.  `clock` is the keeper's, `wall` dates journal entries.

    `not_pinned` names the drives of journal entries whose pins are not in place; `reported` hears
    of the drives of each report.
    """

    host: DriveHost
    switcher: Switcher
    keeper: LeaseKeeper
    holds: Holds
    identity: Identity
    evidence: Optional[EvidenceFolder] = None
    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    not_pinned: Callable[[Mapping[str, JournalEntry]], Sequence[Finding]] = lambda entries: ()
    reported: Callable[[Sequence[DriveReport]], None] = lambda drives: None

    def __post_init__(self) -> None:
        self._survey = DomainSurvey(self.host, self.switcher)

    def perform(self, task: Task) -> Outcome:
        """Do it; a FailureOutcome says truthfully whether the prior state is in place."""
        touches = self.switcher.touches
        try:
            if isinstance(task.request, CHANGES):
                return self._change(task)
            return self._perform(task)
        except WcacheError as error:
            failure = error
        except Exception as error:
            # a drive or a file that nobody thought of must not end the probe
            failure = WcacheError(f"{type(error).__name__}: {error}")
        doubt = failure.doubt if isinstance(failure, PriorError) else PriorDoubt.NONE
        ids, after = self._read_back(task, touched=self.switcher.touches > touches)
        return FailureOutcome(
            printable(failure.message), printable(failure.advice),
            isinstance(failure, RefusedError), self._restored(task, states_by_id(ids, after)),
            ids, after, doubt, isinstance(failure, DisobeyedError),
        )

    def _change(self, task: Task) -> Outcome:
        request = task.request
        assert isinstance(request, CHANGES)  # callers looked  # noqa: S101
        self._survey.take(request)
        with self.switcher.alone(request.domain_id):
            if not isinstance(request, AcceptRequest):
                return self._perform(task)
            self._accept(request)
        return self._accepted(request)

    def _read_back(
        self, task: Task, *, touched: bool
    ) -> Tuple[Tuple[str, ...], Tuple[DriveState, ...]]:
        """What the drives of a task that failed are like now, by their ids.

        Nothing where it touched nothing, or where they cannot be read.
        """
        request = task.request
        back = isinstance(request, WAYS_BACK)
        if not isinstance(request, (*LEASED, *APPLIED, *WAYS_BACK)) or not (touched or back):
            return (), ()
        try:
            return self._survey.now(request.domain_id)
        except Exception:
            return (), ()  # a drive that cannot be read is not known to be as it was

    def _restored(self, task: Task, read: Mapping[str, DriveState]) -> bool:
        """Whether what the task may have touched is as it was found.

        No entry is left, and what was read equals what the mgr knows of the time before.
        """
        request = task.request
        if isinstance(request, (ReportRequest, MemoryRequest)):
            return not self.keeper.held
        try:
            if self.switcher.entry(*entry_of(request)) is not None:
                return False
        except WcacheError:
            return False
        if isinstance(request, WAYS_BACK):
            return request.prior.known and not not_back(request.prior.drives, read)
        if isinstance(request, (*LEASED, *APPLIED)) and read:
            return not not_back(request.prior.drives, read)
        return True

    def _perform(self, task: Task) -> Outcome:
        request = task.request
        if isinstance(request, ReportRequest):
            if self.evidence is not None:
                self.evidence.take(request.proofs)
            report = self.report()
            self.reported(report.drives)
            return ReportOutcome(report)
        if isinstance(request, MemoryRequest):
            return MemoryOutcome(self.host.memory())
        if isinstance(request, LEASED):
            return self._under_lease(request)
        if isinstance(request, ReleaseRequest):
            return self._release(request)
        if isinstance(request, APPLIED):
            return self._apply(request)
        if isinstance(request, RollbackRequest):
            return self._rollback(request)
        drives = self.host.domain(request.domain_id)
        if isinstance(request, LookRequest):
            return DrivesOutcome(drives)
        if isinstance(request, (CountersRequest, OptionsRequest)):
            return self._state(drives, options=isinstance(request, OptionsRequest))
        if isinstance(request, MeasureRequest):
            drive = used_by(drives, request.osd_id, None)
            return self.host.measure(
                drive, request.osd_id, request.load_point, request.count, request.spread_s
            )
        assert isinstance(request, TimerRequest)  # what is accepted is not asked here  # noqa: S101
        return self._time(request, drives)

    # ---- reading

    def report(self) -> HostReport:
        """Everything on the host, with what could not be restored so far."""
        lease = self.keeper.lease(self.clock())
        looked = self.host.look()
        # what a look outlived is not told any more
        (sound, damaged), unread = self.switcher.read_journal(), self.switcher.unread()
        drives, unprepared = told_once(looked, {entry.domain_id for entry in sound.values()})
        findings = (
            *self.host.host_findings(), *journal_findings(sound, damaged, lease),
            *self.not_pinned({**unread, **sound}),
        )
        return HostReport(
            self.identity.hostname, VERSION, drives, (*findings, *unprepared),
            self.identity.simulated, journal_notes(sound, damaged, unread),
            power_cuts=self.evidence.power_cuts() if self.evidence else (),
            proofs=self.evidence.own_proofs() if self.evidence else (),
            controllers=self.host.controllers(),
            memory=rounded(self.host.memory()),
        )

    def _state(self, drives: Tuple[DriveReport, ...], *, options: bool = False) -> StateOutcome:
        states = tuple(self.host.state(drive) for drive in drives)
        if options:
            values = map(self.host.option_values, drives)
            states = tuple(replace(one, options=found) for one, found in zip(states, values))
        return self._outcome(drives, Switched(states, states, changed=False))

    def _outcome(self, drives: Tuple[DriveReport, ...], done: Switched) -> StateOutcome:
        return StateOutcome(
            done.before, done.after, self._counters(drives), done.changed,
            tuple(drive.drive_id for drive in drives),
            tuple(one for drive in drives for one in drive.bcache)[:DOMAIN_DRIVES_MAX],
        )

    def _counters(self, drives: Tuple[DriveReport, ...]) -> Tuple[FlushCounters, ...]:
        """The flush counters of all drives, or none: what was switched is true without them."""
        try:
            found = tuple(filter(None, map(self.host.counters, drives)))
        except WcacheError:
            return ()
        return found if len(found) == len(drives) else ()

    def _time(self, request: TimerRequest, drives: Tuple[DriveReport, ...]) -> Outcome:
        seconds = min(request.seconds_max, TIMER_SECONDS_MAX)
        remaining_s = self.keeper.remaining_s(self.clock())
        if remaining_s is not None:
            # nothing restores while flushes are timed, so they end before the lease does
            seconds = min(seconds, remaining_s / 2)
        elif request.domain_id in self.keeper.held:
            raise NotReadyError(f"the lease of {request.domain_id} has run out")
        drive = used_by(drives, request.osd_id, request.role)
        return self.host.time_flushes(
            drive, request.osd_id, request.role, request.count, seconds,
            request.latency_limit_ms, min(max(request.spread_s, 0.0), seconds),
        )

    # ---- changing

    def _under_lease(self, request: Union[SetModeRequest, SetOptionRequest]) -> Outcome:
        lease = self.keeper.lease(self.clock())
        if lease is None or not lease.covers(request.domain_id):
            raise RefusedError(f"there is no live lease for {request.domain_id}")
        drives = self._survey.drives()
        entry = self.switcher.entry(EntryKind.LEASE, request.domain_id)
        if entry is not None and entry.owner_id != lease.lease_id:
            raise RefusedError(f"lease {entry.owner_id} still holds {request.domain_id}")
        if isinstance(request, SetOptionRequest):
            program = optioning.lease_set(
                drives, entry, lease_id=lease.lease_id, name=request.name, value=request.value,
                now_s=self.wall(), prior=self._stored(request.prior),
            )
        elif entry is not None and entry.of_options:
            raise RefusedError(f"lease {entry.owner_id} is about options, not the cache mode")
        else:
            program = toggle.lease_set(
                drives, entry, lease_id=lease.lease_id, mode=request.mode, now_s=self.wall(),
                throwaway=request.throwaway and self.keeper.throwaway,
                consent_turn_on=request.consent_turn_on, prior=self._stored(request.prior),
                lost=self.host.lost_writes(),
            )
        # held from the first step on: should anything break, the keeper has it restored
        self.keeper.is_held(request.domain_id, lease.lease_id)
        try:
            return self._outcome(drives, self.switcher.run(request.domain_id, program))
        finally:
            self.holds.follow(request.domain_id)

    def _of_our_cluster(self, prior: Prior) -> Prior:
        """The prior state that a request tells of; PriorError where it is of another cluster."""
        ours = self.identity.cluster_fsid
        if ours and prior.cluster_fsid and prior.cluster_fsid != ours:
            raise PriorError(
                PriorDoubt.DISPUTED,
                f"the request is of cluster {prior.cluster_fsid}, and this probe serves {ours}",
            )
        return prior

    def _stored(self, prior: Prior) -> Prior:
        """The same of a request to change something; RefusedError where it tells of none."""
        if not prior.known:
            raise RefusedError(
                "the mgr did not say what the drive was like before, so it is not changed",
                "install the same version of wcache on this host and on the mgrs",
            )
        return self._of_our_cluster(prior)

    def _release(self, request: ReleaseRequest) -> Outcome:
        prior = self._of_our_cluster(request.prior)
        entry = self.switcher.entry(EntryKind.LEASE, request.domain_id)
        if entry is None and not prior.known:
            self.holds.follow(request.domain_id)
            return self._state(self._survey.drives())
        if entry is not None and request.lease_id not in ("", entry.owner_id):
            raise RefusedError(f"lease {entry.owner_id} holds {request.domain_id}")
        try:
            if entry is not None:
                done = self.switcher.restore(entry, prior)
                return self._outcome(self.host.prior(entry), done)
            # should it break off in the middle, the keeper goes on with it
            self.keeper.is_held(request.domain_id, request.lease_id)
            return self._bring_back(request, prior, EntryKind.LEASE, request.lease_id)
        finally:
            self.holds.follow(request.domain_id)

    def _bring_back(
        self, request: Union[ReleaseRequest, RollbackRequest], prior: Prior, kind: EntryKind,
        owner_id: str,
    ) -> Outcome:
        """Restore what only the mgr knows."""
        drives = self._survey.drives()
        return self._outcome(drives, self.switcher.run(request.domain_id, bring_back(
            prior, drives, kind=kind, owner_id=owner_id, now_s=self.wall(),
            throwaway=request.throwaway and self.keeper.throwaway,
        )))

    def _accept(self, request: AcceptRequest) -> None:
        """Give up what the entries say; the drives stay as they are."""
        lease = self.keeper.lease(self.clock())
        if lease is not None and lease.covers(request.domain_id):
            raise RefusedError(f"lease {lease.lease_id} holds {request.domain_id}")
        sound, damaged = self.switcher.read_journal()
        for key in request.keys:
            if key in damaged or (key in sound and sound[key].domain_id == request.domain_id):
                self.switcher.drop(key)
        self.holds.follow(request.domain_id)

    def _accepted(self, request: AcceptRequest) -> Outcome:
        """What the drives of a domain that was given up are like now."""
        try:
            ids, states = self._survey.now(request.domain_id)
        except WcacheError:
            ids, states = (), ()  # gone, or it does not answer: it is given up all the same
        return StateOutcome(states, states, (), bool(request.keys), ids)

    def _entry_of(
        self, request: Union[ApplyRequest, ApplyOptionRequest, RollbackRequest]
    ) -> Optional[JournalEntry]:
        """The entry of a request's action; RefusedError where that is of another domain."""
        entry = self.switcher.entry(*entry_of(request))
        if entry is not None and entry.domain_id != request.domain_id:
            raise RefusedError(f"action {request.action_id} changed {entry.domain_id}")
        return entry

    def _apply(self, request: Union[ApplyRequest, ApplyOptionRequest]) -> Outcome:
        drives, entry = self._survey.drives(), self._entry_of(request)
        if isinstance(request, ApplyOptionRequest):
            return self._outcome(drives, self.switcher.run(request.domain_id, optioning.apply(
                drives, entry, action_id=request.action_id, name=request.name,
                expected=request.expected, value=request.value, now_s=self.wall(),
                prior=self._stored(request.prior), agreed=request.agreed,
            )))
        done = self.switcher.run(request.domain_id, toggle.apply(
            drives, entry, action_id=request.action_id, expected=request.expected,
            mode=request.mode, now_s=self.wall(),
            throwaway=request.throwaway and self.keeper.throwaway,
            consent_turn_on=request.consent_turn_on, persist=request.consent_persist,
            known=self._stored(request.prior), lost=self.host.lost_writes(),
        ))
        if entry is not None and any(prior.mode is not request.mode for prior in entry.drives):
            # a crash cut this action off after the change: it was ours, a rollback undoes it
            done = replace(done, changed=True)
        return self._outcome(drives, done)

    def _rollback(self, request: RollbackRequest) -> Outcome:
        prior = self._of_our_cluster(request.prior)
        entry = self._entry_of(request)
        if entry is None:  # never made, taken back before, or its journal is gone
            return self._bring_back(request, prior, EntryKind.ACTION, request.action_id)
        if not prior.known:
            raise lost(request.action_id)
        self.switcher.refuse_unread(entry)
        done = self.switcher.restore(entry, prior)
        return self._outcome(self.host.prior(entry), done)
