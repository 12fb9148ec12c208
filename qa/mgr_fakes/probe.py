"""A probe in a few lines: speaks the protocol as JSON, keeps a journal, obeys leases.

Its drives switch at once; `crash()` is kill -9 and a new start, `fails` makes tasks fail.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Callable, Dict, Optional, Sequence, Set, Tuple, Union

from wcache.core import codec
from wcache.core.drive.safety import not_flushing
from wcache.core.hardware import BcacheState, FlushCounters, HostMemory, OptionValue
from wcache.core.host_report import HostReport, JournalNote, KeptPrior, Waiting, disobeyed
from wcache.core.model import CacheMode, DeviceCache, DriveReport, Finding, Transport
from wcache.core.protocol import (
    PROTOCOL_VERSION,
    AcceptRequest,
    ApplyOptionRequest,
    ApplyRequest,
    CountersRequest,
    DrivesOutcome,
    FailureOutcome,
    Hello,
    LookRequest,
    MeasureRequest,
    MemoryOutcome,
    MemoryRequest,
    OptionsRequest,
    Outcome,
    PollReply,
    Post,
    ReleaseRequest,
    ReportOutcome,
    ReportRequest,
    Request,
    RollbackRequest,
    SamplesOutcome,
    SetModeRequest,
    SetOptionRequest,
    StateOutcome,
    Task,
    TimerRequest,
)

from .builders import CLUSTER_ID, LATENCY_NS

# Drives that a probe times whatever the kernel's view of them is.
UNPINNED = (Transport.LOOP, Transport.SIMULATED)
# Sends (prefix, hostname, body) and gives (return code, output, error).
Send = Callable[[str, str, str], Tuple[int, str, str]]


class FakeProbe:
    """One host's probe."""

    def __init__(
        self, send: Send, hostname: str, drives: Tuple[DriveReport, ...], *,
        simulated: bool = False, probe_id: str = "",
    ) -> None:
        self._send = send
        self.hostname = hostname
        self.probe_id = probe_id or f"probe-{hostname}"
        self.simulated = simulated
        self.drives = {drive.domain_id: drive for drive in drives}
        self.latency_ns: Dict[CacheMode, int] = dict(LATENCY_NS)
        self.fails: Callable[[Task], Optional[FailureOutcome]] = lambda task: None
        self.findings: Tuple[Finding, ...] = ()
        self.memory: Optional[HostMemory] = None
        self.starts = 0
        self.lease: Optional[str] = None
        # the journal of options: domain to what they were before
        self.leased_options: Dict[str, Tuple[OptionValue, ...]] = {}
        self.bcache: Callable[[], Tuple[BcacheState, ...]] = lambda: ()
        self.leased: Dict[str, CacheMode] = {}  # the journal: domain to its prior mode
        self.muted = False  # it runs, and nothing of it reaches the mgr
        # it calls and does no task: what it waits for
        self.waiting: Optional[Callable[[], Waiting]] = None
        self.stuck: Set[str] = set()  # domains whose drives do not go back
        self.keeps = True  # drives keep what they are told to keep over a power cycle
        self.actions: Dict[str, Tuple[str, CacheMode]] = {}
        # the same of options: a domain and what they were before
        self.option_actions: Dict[str, Tuple[str, Tuple[OptionValue, ...]]] = {}
        self.error = ""
        self.last_post = ""
        self.set_count = 0
        self.crash()

    def crash(self) -> None:
        """Killed and started again: the journal says what to restore."""
        self.starts += 1
        self._restore_all()

    def modes(self) -> Dict[str, Optional[CacheMode]]:
        """The mode of each cache domain."""
        return {domain: drive.mode for domain, drive in self.drives.items()}

    def lose_lease(self) -> None:
        """Nothing was heard for the lease's time."""
        self._restore_all()

    def turn(self, rounds: int = 1) -> Optional[PollReply]:
        """Poll, and do tasks and post as long as there are some, `rounds` at most."""
        waiting = self.waiting() if self.waiting else None
        text = codec.dumps(
            Hello(PROTOCOL_VERSION, self.probe_id, self._instance, self.lease or "",
                  self.simulated, waiting=waiting)
        )
        reply = self._call("wcache agent poll", text)
        if waiting is not None:
            return reply
        while reply is not None and reply.task is not None and rounds:
            rounds -= 1
            outcome = self._learned(reply.task) or self.do(reply.task)
            reply = self.post(reply.task.task_id, outcome)
        return reply

    def _learned(self, task: Task) -> Optional[FailureOutcome]:
        """The failure of a task; that a drive itself refused a change is remembered."""
        outcome, request = self.fails(task), task.request
        if outcome is None or not isinstance(request, (SetModeRequest, ApplyRequest)):
            return outcome
        if outcome.by_drive or "refuses SCSI command" in outcome.message:
            drive = self.drives[request.domain_id]
            self.drives[request.domain_id] = disobeyed(drive, outcome.message)
            outcome = replace(outcome, by_drive=True)
        return outcome

    def post(self, task_id: str, outcome: Optional[Outcome], **changes: Any) -> Optional[PollReply]:
        """Report an outcome."""
        post = Post(
            PROTOCOL_VERSION, self.probe_id, self._instance, self.lease or "", self.simulated,
            hostname=self.hostname, task_id=task_id, outcome=outcome,
        )
        self.last_post = codec.dumps(replace(post, **changes))
        return self._call("wcache agent post", self.last_post)

    @property
    def _instance(self) -> str:
        return f"i{self.starts}"

    def _call(self, prefix: str, text: str) -> Optional[PollReply]:
        if self.muted:
            return None
        code, out, self.error = self._send(prefix, self.hostname, text)
        if code != 0:
            return None
        reply = codec.decode(PollReply, json.loads(out), "reply")
        held = reply.lease.lease_id if reply.lease else None
        if held != self.lease:
            self._restore_all()
        self.lease = held
        return reply

    def _restore_all(self) -> None:
        for domain_id, mode in list(self.leased.items()):
            if domain_id not in self.stuck:
                self.switch(domain_id, mode)
                del self.leased[domain_id]
        for domain_id, values in list(self.leased_options.items()):
            if domain_id not in self.stuck:
                self.set_options(domain_id, values)
                del self.leased_options[domain_id]
        self.lease = None

    def switch(self, domain_id: str, mode: CacheMode) -> StateOutcome:
        """Put a drive into a mode, as a task would or as somebody else might."""
        before = self.drives[domain_id]
        state = replace(before.state, device_cache=DeviceCache(mode.value))
        self.drives[domain_id] = replace(before, state=state)
        counters = (FlushCounters(1, 2, 3, 4),)
        return StateOutcome(
            (before.state,), (state,), counters, before.mode is not mode, (before.drive_id,)
        )

    def set_options(self, domain_id: str, values: Sequence[OptionValue]) -> StateOutcome:
        """Give options of a drive values, as a task would or as somebody else might."""
        before = self.drives[domain_id]
        now = {one.name: one for one in (*before.state.options, *values)}
        state = replace(before.state, options=tuple(now.values()))
        self.drives[domain_id] = replace(before, state=state)
        return StateOutcome(
            (before.state,), (state,), (FlushCounters(1, 2, 3, 4),), before.state != state,
            (before.drive_id,), bcache=self.bcache(),
        )

    def _keep(self, domain_id: str, saved: Optional[CacheMode]) -> None:
        drive = self.drives[domain_id]
        page = replace(drive.state.page, saved=saved)
        self.drives[domain_id] = replace(drive, state=replace(drive.state, page=page))

    def report(self) -> HostReport:
        """What the probe sees now."""
        return HostReport(
            self.hostname, "0.1.0", tuple(self.drives.values()), self.findings, self.simulated,
            self._journal_notes(), memory=self.memory,
        )

    def _journal_notes(self) -> Tuple[JournalNote, ...]:
        kept = {f"lease/{domain}": (domain, mode) for domain, mode in self.leased.items()}
        kept.update(
            (f"lease/{domain}", (domain, self.drives[domain].mode or CacheMode.WRITE_BACK))
            for domain in self.leased_options
        )
        kept.update((f"action/{name}", found) for name, found in self.actions.items())
        kept.update(
            (f"action/{name}", (domain, self.drives[domain].mode or CacheMode.WRITE_BACK))
            for name, (domain, _) in self.option_actions.items()
        )
        return tuple(
            JournalNote(
                key, domain, CLUSTER_ID, (KeptPrior(self.drives[domain].drive_id, mode),)
            )
            for key, (domain, mode) in kept.items()
        )

    def do(self, task: Task) -> Outcome:
        """Perform a task."""
        return self._of_options(task.request) or self._of_modes(task.request)

    def _of_options(self, request: Request) -> Optional[Outcome]:
        if isinstance(request, ApplyOptionRequest):
            (drive,) = request.prior.drives
            assert drive.options, "nothing is set that the mgr has not stored"
            if request.value == "writeback":
                assert request.agreed is not None, "nobody has agreed to it"
            self.option_actions.setdefault(
                request.action_id, (request.domain_id, drive.options)
            )
            return self.set_options(
                request.domain_id, (OptionValue(request.name, request.value),)
            )
        if isinstance(request, RollbackRequest) and request.prior.of_options:
            (drive,) = request.prior.drives
            if request.domain_id in self.stuck:
                return FailureOutcome("the drive does not answer", restored=False)
            domain_id, values = self.option_actions.pop(
                request.action_id, (request.domain_id, drive.options)
            )
            return self.set_options(domain_id, values)
        if isinstance(request, SetOptionRequest):
            (drive,) = request.prior.drives
            assert drive.options, "nothing is set that the mgr has not stored"
            self.leased_options.setdefault(request.domain_id, drive.options)
            return self.set_options(
                request.domain_id, (OptionValue(request.name, request.value),)
            )
        if isinstance(request, OptionsRequest):
            return self.set_options(request.domain_id, ())
        if isinstance(request, ReleaseRequest) and request.domain_id in self.leased_options:
            return self.set_options(
                request.domain_id, self.leased_options.pop(request.domain_id)
            )
        return None

    def _of_modes(self, request: Request) -> Outcome:
        if isinstance(request, ReportRequest):
            return ReportOutcome(self.report())
        if isinstance(request, MemoryRequest):
            return MemoryOutcome(self.memory)
        if isinstance(request, LookRequest):
            return DrivesOutcome((self.drives[request.domain_id],))
        if isinstance(request, AcceptRequest):
            return self._accept(request)
        mode = self.drives[request.domain_id].mode or CacheMode.WRITE_BACK
        if isinstance(request, (SetModeRequest, ApplyRequest, ReleaseRequest, RollbackRequest)):
            assert request.prior.known, "nothing is touched that the mgr has not stored"
        if isinstance(request, SetModeRequest):
            self.leased.setdefault(request.domain_id, mode)
            self.set_count += 1
            return self.switch(request.domain_id, request.mode)
        if isinstance(request, CountersRequest):
            return self.switch(request.domain_id, mode)
        if request.domain_id in self.stuck and isinstance(
            request, (ReleaseRequest, RollbackRequest)
        ):
            return FailureOutcome("the drive does not answer", "x" * 1000, restored=False)
        if isinstance(request, ReleaseRequest):
            back = request.prior.drives[0].mode if request.prior.known else mode
            return self.switch(request.domain_id, self.leased.pop(request.domain_id, back))
        if isinstance(request, ApplyRequest):
            return self._apply(request, mode)
        if isinstance(request, RollbackRequest):
            back = request.prior.drives[0].mode if request.prior.known else mode
            prior = self.actions.pop(request.action_id, (request.domain_id, back))
            if request.prior.known:
                self._keep(prior[0], request.prior.drives[0].state.page.saved)
            return self.switch(*prior)
        assert isinstance(request, (TimerRequest, MeasureRequest))
        return self._refuses(request) or SamplesOutcome(
            (self.latency_ns[mode],) * request.count, 0.1, 0
        )

    def _apply(self, request: ApplyRequest, mode: CacheMode) -> Outcome:
        """A mode that is not kept: what was made before stays with its entry, else it is back."""
        if not request.consent_persist or self.keeps:
            self.actions.setdefault(request.action_id, (request.domain_id, mode))
            if request.consent_persist:
                self._keep(request.domain_id, request.mode)
            return self.switch(request.domain_id, request.mode)
        stays = request.action_id in self.actions and mode is request.mode
        why = f"was told to keep {request.mode.value} over a power cycle, and it keeps nothing"
        if not stays:
            self.switch(*self.actions.pop(request.action_id, (request.domain_id, mode)))
            why += "; the prior state is back"
        drive = self.drives[request.domain_id]
        return FailureOutcome(
            f"{drive.dev_name} {why}", "plan again without --persist", refused=True,
            restored=not stays, drive_ids=(drive.drive_id,), after=(drive.state,),
        )

    def _refuses(self, request: Union[TimerRequest, MeasureRequest]) -> Optional[FailureOutcome]:
        """A flush that the kernel does not send has no time."""
        drive = self.drives[request.domain_id]
        dropping = not_flushing(drive.state)
        if isinstance(request, MeasureRequest) or drive.transport in UNPINNED or not dropping:
            return None
        return FailureOutcome(
            f"the kernel sends no flush to {dropping[-1]}, so there is none to time",
            "under a lease the drive is pinned and can be timed", refused=True,
        )

    def _accept(self, request: AcceptRequest) -> StateOutcome:
        for key in request.keys:
            kind, _, name = key.partition("/")
            (self.leased if kind == "lease" else self.actions).pop(name, None)
            if kind != "lease":
                self.option_actions.pop(name, None)
        drive = self.drives.get(request.domain_id)
        if drive is None:
            return StateOutcome((), (), (), True)
        return StateOutcome((drive.state,), (drive.state,), (), True, (drive.drive_id,))
