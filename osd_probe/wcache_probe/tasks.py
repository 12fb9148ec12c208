"""Does the tasks of the mgr: reads, times and switches drives, and says what became of it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Callable, List, Optional, Tuple

from wcache.core import VERSION, switching
from wcache.core.errors import NotReadyError, RefusedError, WcacheError
from wcache.core.journal import EntryKind
from wcache.core.lease import LeaseKeeper
from wcache.core.model import (
    DriveReport,
    Finding,
    FindingCode,
    FlushCounters,
    HostReport,
    Role,
    Severity,
)
from wcache.core.ports import DriveHost
from wcache.core.protocol import (
    ApplyRequest,
    CountersRequest,
    FailureOutcome,
    MeasureRequest,
    Outcome,
    ReleaseRequest,
    ReportOutcome,
    ReportRequest,
    RollbackRequest,
    SetModeRequest,
    StateOutcome,
    Task,
    TimerRequest,
)
from wcache.core.switching import Switched

from .mgr_link import printable
from .switcher import Switcher
from .unprepared import told_once

TIMER_SECONDS_MAX = 30.0
# what these find before their first step must still hold then
CHANGES = (SetModeRequest, ReleaseRequest, ApplyRequest, RollbackRequest)


@dataclass(frozen=True)
class Identity:
    """Who this probe is; `instance_id` is new at each start."""

    hostname: str
    probe_id: str
    instance_id: str
    simulated: bool


class TaskRunner:
    """Performs tasks on one host.  `clock` is the keeper's, `wall` dates journal entries."""

    def __init__(
        self,
        *,
        host: DriveHost,
        switcher: Switcher,
        keeper: LeaseKeeper,
        identity: Identity,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._host = host
        self._switcher = switcher
        self._keeper = keeper
        self._identity = identity
        self._clock = clock
        self._wall = wall

    def perform(self, task: Task) -> Outcome:
        """Do it; a FailureOutcome says truthfully whether the prior state is in place."""
        try:
            if isinstance(task.request, CHANGES):
                with self._switcher.alone(task.request.domain_id):
                    return self._perform(task)
            return self._perform(task)
        except WcacheError as error:
            failure, refused = error, isinstance(error, RefusedError)
        except Exception as error:
            # a drive or a file that nobody thought of must not end the probe
            failure = WcacheError(f"{type(error).__name__}: {error}")
            refused = False
        return FailureOutcome(
            printable(failure.message), printable(failure.advice), refused,
            restored=self._restored(task),
        )

    def _restored(self, task: Task) -> bool:
        """Whether what the task may have touched is as it was found: no entry is left."""
        request = task.request
        if isinstance(request, (ApplyRequest, RollbackRequest)):
            kind, name = EntryKind.ACTION, request.action_id
        elif isinstance(request, ReportRequest):
            return not self._keeper.held
        else:
            kind, name = EntryKind.LEASE, request.domain_id
        try:
            return self._switcher.entry(kind, name) is None
        except WcacheError:
            return False

    def _perform(self, task: Task) -> Outcome:
        request = task.request
        if isinstance(request, ReportRequest):
            return ReportOutcome(self.report())
        if isinstance(request, SetModeRequest):
            return self._set_mode(request)
        if isinstance(request, ReleaseRequest):
            return self._release(request)
        if isinstance(request, ApplyRequest):
            return self._apply(request)
        if isinstance(request, RollbackRequest):
            return self._rollback(request)
        drives = self._host.domain(request.domain_id)
        if isinstance(request, CountersRequest):
            return self._state(drives)
        if isinstance(request, MeasureRequest):
            drive = _used_by(drives, request.osd_id, None)
            return self._host.measure(
                drive, request.osd_id, request.load_point, request.count, request.spread_s
            )
        return self._time(request, drives)

    # ---- reading

    def report(self) -> HostReport:
        """Everything on the host, with what could not be restored so far."""
        lease = self._keeper.lease(self._clock())
        sound, _ = self._switcher.read_journal()
        drives, unprepared = told_once(
            self._host.look(), {entry.domain_id for entry in sound.values()}
        )
        return HostReport(
            self._identity.hostname, self._identity.probe_id, self._identity.instance_id, VERSION,
            drives,
            (*self._host.host_findings(), *self._journal_findings(), *unprepared),
            lease.lease_id if lease else "", self._identity.simulated,
        )

    def _journal_findings(self) -> Tuple[Finding, ...]:
        sound, damaged = self._switcher.read_journal()
        lease = self._keeper.lease(self._clock())
        lines = [(printable(key), text) for key, text in damaged.items()]
        for entry in sound.values():
            live = lease is not None and lease.lease_id == entry.owner_id
            if entry.kind is EntryKind.LEASE and not live:
                lines.append(
                    (entry.domain_id, f"what lease {entry.owner_id} found is not back yet")
                )
        return tuple(
            Finding(FindingCode.RESTORE_FAILED, Severity.ERROR, subject, printable(text))
            for subject, text in lines
        )

    def _state(self, drives: Tuple[DriveReport, ...]) -> StateOutcome:
        states = tuple(self._host.state(drive) for drive in drives)
        return self._outcome(drives, Switched(states, states, changed=False))

    def _outcome(self, drives: Tuple[DriveReport, ...], done: Switched) -> StateOutcome:
        return StateOutcome(done.before, done.after, self._counters(drives), done.changed)

    def _counters(self, drives: Tuple[DriveReport, ...]) -> Tuple[FlushCounters, ...]:
        """The flush counters of all drives, or none: what was switched is true without them."""
        found: List[FlushCounters] = []
        for drive in drives:
            try:
                counted = self._host.counters(drive)
            except WcacheError:
                return ()
            if counted is None:
                return ()
            found.append(counted)
        return tuple(found)

    def _time(self, request: TimerRequest, drives: Tuple[DriveReport, ...]) -> Outcome:
        seconds = min(request.seconds_max, TIMER_SECONDS_MAX)
        remaining_s = self._keeper.remaining_s(self._clock())
        if remaining_s is not None:
            # nothing restores while flushes are timed, so they end before the lease does
            seconds = min(seconds, remaining_s / 2)
        elif request.domain_id in self._keeper.held:
            raise NotReadyError(f"the lease of {request.domain_id} has run out")
        drive = _used_by(drives, request.osd_id, request.role)
        return self._host.time_flushes(
            drive, request.osd_id, request.role, request.count, seconds,
            request.latency_limit_ms, min(max(request.spread_s, 0.0), seconds),
        )

    # ---- changing

    def _set_mode(self, request: SetModeRequest) -> Outcome:
        lease = self._keeper.lease(self._clock())
        if lease is None or not lease.covers(request.domain_id):
            raise RefusedError(f"there is no live lease for {request.domain_id}")
        drives = self._host.domain(request.domain_id)
        entry = self._switcher.entry(EntryKind.LEASE, request.domain_id)
        if entry is not None and entry.owner_id != lease.lease_id:
            raise RefusedError(f"lease {entry.owner_id} still holds {request.domain_id}")
        program = switching.lease_set(
            drives, entry, lease_id=lease.lease_id, mode=request.mode, now_s=self._wall(),
            throwaway=request.throwaway and self._keeper.throwaway,
            consent_turn_on=request.consent_turn_on,
        )
        # held from the first step on: should anything break, the keeper has it restored
        self._keeper.is_held(request.domain_id, lease.lease_id)
        try:
            return self._outcome(drives, self._switcher.run(request.domain_id, program))
        finally:
            self._follow_journal(request.domain_id)

    def _follow_journal(self, domain_id: str) -> None:
        """Tell the keeper whether the domain is still held; where in doubt, it is."""
        try:
            if self._switcher.entry(EntryKind.LEASE, domain_id) is None:
                self._keeper.is_free(domain_id)
        except WcacheError:
            return

    def _release(self, request: ReleaseRequest) -> Outcome:
        entry = self._switcher.entry(EntryKind.LEASE, request.domain_id)
        if entry is None:
            self._keeper.is_free(request.domain_id)
            return self._state(self._host.domain(request.domain_id))
        try:
            done = self._switcher.restore(entry)
            return self._outcome(self._host.prior(entry), done)
        finally:
            self._follow_journal(request.domain_id)

    def _apply(self, request: ApplyRequest) -> Outcome:
        drives = self._host.domain(request.domain_id)
        entry = self._switcher.entry(EntryKind.ACTION, request.action_id)
        if entry is not None and entry.domain_id != request.domain_id:
            raise RefusedError(f"action {request.action_id} changed {entry.domain_id}")
        done = self._switcher.run(
            request.domain_id, switching.apply(
                drives, entry, action_id=request.action_id, expected=request.expected,
                mode=request.mode, now_s=self._wall(),
                throwaway=request.throwaway and self._keeper.throwaway,
                consent_turn_on=request.consent_turn_on, persist=request.consent_persist,
            )
        )
        if entry is not None and any(prior.mode is not request.mode for prior in entry.drives):
            # a crash cut this action off after the change: it was ours, a rollback undoes it
            done = replace(done, changed=True)
        return self._outcome(drives, done)

    def _rollback(self, request: RollbackRequest) -> Outcome:
        entry = self._switcher.entry(EntryKind.ACTION, request.action_id)
        if entry is None:  # never made, or taken back before
            return self._state(self._host.domain(request.domain_id))
        if entry.domain_id != request.domain_id:
            raise RefusedError(f"action {request.action_id} changed {entry.domain_id}")
        done = self._switcher.restore(entry)
        return self._outcome(self._host.prior(entry), done)


def _used_by(
    drives: Tuple[DriveReport, ...], osd_id: int, role: Optional[Role]
) -> DriveReport:
    """The drive of a domain that an OSD uses, in `role` if one is given."""
    for drive in drives:
        for use in drive.uses:
            if use.osd_id == osd_id and role in (None, use.role):
                return drive
    what = f"the {role.value} device of " if role else ""
    raise RefusedError(f"nothing of this cache domain is {what}osd.{osd_id}")
