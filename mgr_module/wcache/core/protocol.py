"""The protocol of mgr with probe: tasks down, posts up, all of it versioned data.

The probe calls `wcache agent poll` and `wcache agent post`; both answer with a
`PollReply`, so a post can be answered with the next task at once.  A message of
another version or with an unknown field is refused by `versions.take`, whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Optional, Tuple, Union

from .drive.journal import PriorDrive
from .drive.prior import UNKNOWN, Prior, PriorDoubt
from .hardware import NAME_CHARS_MAX, VALUE_CHARS_MAX, BcacheState, FlushCounters, HostMemory
from .host_report import EVIDENCE_MAX, HostReport, ToggleProof, Waiting
from .model import CacheMode, DriveReport, DriveState, LoadPoint, Role
from .options.option import SharedCache

PROTOCOL_VERSION = 8
# A post carries at most this much: a full report of a host with 60 drives is 60 KB.
POST_BYTES_MAX = 1_000_000
REPLY_BYTES_MAX = 64_000
SAMPLES_MAX = 10_000
# A cache domain has at most this many drives (the namespaces of a controller).
DOMAIN_DRIVES_MAX = 64


@dataclass(frozen=True)
class Lease:
    """The right to hold a cache domain in a mode of our choosing, for a time.

    In a factorial it is the right to hold the other drive's domain as well.

    The probe restores the prior state when `ttl_s` pass without a reply that names
    this lease, and at once when a reply names no lease or another one.
    """

    lease_id: str
    domain_id: str
    ttl_s: float
    other_domain_id: str = ""

    def covers(self, domain_id: str) -> bool:
        """Whether the cache domain may be held under it."""
        return bool(domain_id) and domain_id in (self.domain_id, self.other_domain_id)


@dataclass(frozen=True)
class ReportRequest:
    """Look at every drive and post a HostReport.

    `proofs` are what other hosts have shown of drive models that this host has too.
    """

    KIND: ClassVar[str] = "report"
    proofs: Tuple[ToggleProof, ...] = field(default=(), metadata={"max_items": EVIDENCE_MAX})


@dataclass(frozen=True)
class LookRequest:
    """Look at the drives of one cache domain: what is there before anything is touched."""

    KIND: ClassVar[str] = "look"
    domain_id: str


@dataclass(frozen=True)
class SetModeRequest:
    """Under a lease: journal the prior state, pin, toggle to `mode`, read back.

    `prior`, here and below: what the mgr has stored of the domain before the change.
    """

    KIND: ClassVar[str] = "set_mode"
    domain_id: str
    mode: CacheMode
    consent_turn_on: bool = False
    throwaway: bool = False
    prior: Prior = UNKNOWN


@dataclass(frozen=True)
class SetOptionRequest:
    """Under a lease: journal what an option and those that it resets are, set it, read back."""

    KIND: ClassVar[str] = "set_option"
    domain_id: str
    name: str = field(metadata={"max_chars": NAME_CHARS_MAX})
    value: str = field(metadata={"max_chars": VALUE_CHARS_MAX})
    prior: Prior = UNKNOWN


@dataclass(frozen=True)
class ApplyOptionRequest:
    """A decided change of an option, outside of any lease: it stays until it is rolled back.

    `expected` is the value that the plan was made from; where another stands, it is refused.
    `agreed`: an admin agreed that this cache device may hold alone what is acknowledged; where
    another one is there, or it serves others too, the consent is void.
    """

    KIND: ClassVar[str] = "apply_option"
    domain_id: str
    action_id: str
    name: str = field(metadata={"max_chars": NAME_CHARS_MAX})
    expected: str = field(metadata={"max_chars": VALUE_CHARS_MAX})
    value: str = field(metadata={"max_chars": VALUE_CHARS_MAX})
    prior: Prior = UNKNOWN
    agreed: Optional[SharedCache] = None


@dataclass(frozen=True)
class OptionsRequest:
    """Read state, options and kernel flush counters of the domain's drives."""

    KIND: ClassVar[str] = "options"
    domain_id: str


@dataclass(frozen=True)
class CountersRequest:
    """Read state and kernel flush counters of the domain's drives."""

    KIND: ClassVar[str] = "counters"
    domain_id: str


@dataclass(frozen=True)
class TimerRequest:
    """Time `count` bare fdatasync() calls on the device of a role.

    `spread_s` above 0: they are spread over that time (`loads.spread_at_s`).
    """

    KIND: ClassVar[str] = "timer"
    domain_id: str
    osd_id: int
    role: Role
    count: int = field(metadata={"min": 1, "max": SAMPLES_MAX})
    seconds_max: float
    latency_limit_ms: float
    spread_s: float = 0.0


@dataclass(frozen=True)
class MeasureRequest:
    """Simulated hosts only: what `osd bench` or the OSD's counters would have said."""

    KIND: ClassVar[str] = "measure"
    domain_id: str
    osd_id: int
    load_point: LoadPoint
    count: int = field(metadata={"min": 1, "max": SAMPLES_MAX})
    spread_s: float = 0.0


@dataclass(frozen=True)
class ReleaseRequest:
    """End the lease: restore what was there before it, and say what is there now.

    Without a journal entry of `lease_id` it is restored from `prior`.
    """

    KIND: ClassVar[str] = "release"
    domain_id: str
    lease_id: str = ""
    throwaway: bool = False
    prior: Prior = UNKNOWN


@dataclass(frozen=True)
class ApplyRequest:
    """A decided change, outside of any lease: it stays until it is rolled back.

    `expected` is the mode the plan was made from; anything else is refused.
    """

    KIND: ClassVar[str] = "apply"
    domain_id: str
    action_id: str
    expected: CacheMode
    mode: CacheMode
    consent_turn_on: bool = False
    consent_persist: bool = False
    throwaway: bool = False
    prior: Prior = UNKNOWN


@dataclass(frozen=True)
class RollbackRequest:
    """Restore what action `action_id` found, current and saved."""

    KIND: ClassVar[str] = "rollback"
    domain_id: str
    action_id: str
    throwaway: bool = False
    prior: Prior = UNKNOWN


@dataclass(frozen=True)
class AcceptRequest:
    """An admin takes the domain as it is: drop these entries of the journal, change nothing."""

    KIND: ClassVar[str] = "accept"
    domain_id: str
    keys: Tuple[str, ...] = field(default=(), metadata={"max_items": 64})


@dataclass(frozen=True)
class MemoryRequest:
    """Read the host's memory and its OSDs' control groups as they are now; touch no drive."""

    KIND: ClassVar[str] = "memory"


Request = Union[
    ReportRequest, LookRequest, SetModeRequest, SetOptionRequest, ApplyOptionRequest,
    OptionsRequest, CountersRequest, TimerRequest, MeasureRequest, ReleaseRequest, ApplyRequest,
    RollbackRequest, AcceptRequest, MemoryRequest,
]
# What is done under a lease alone.
LEASED = (SetModeRequest, SetOptionRequest)
# What stays until it is rolled back.
APPLIED = (ApplyRequest, ApplyOptionRequest)


@dataclass(frozen=True)
class Task:
    """One thing for a probe to do, once: a repeated `task_id` repeats only the answer."""

    task_id: str
    request: Request


@dataclass(frozen=True)
class PollReply:
    """What a probe hears at every call.

    `lease` is the live lease of the host as the mgr knows it (renewed by hearing it),
    `frozen` that nothing may be changed until an admin thaws the cluster.
    `throwaway` says that the cluster's data is worth nothing (option `throwaway_cluster`).
    """

    VERSION: ClassVar[int] = PROTOCOL_VERSION
    version: int
    next_poll_s: float
    task: Optional[Task] = None
    lease: Optional[Lease] = None
    frozen: bool = False
    throwaway: bool = False


@dataclass(frozen=True)
class ReportOutcome:
    """Answer to ReportRequest."""

    KIND: ClassVar[str] = "report"
    report: HostReport


@dataclass(frozen=True)
class DrivesOutcome:
    """Answer to LookRequest."""

    KIND: ClassVar[str] = "drives"
    drives: Tuple[DriveReport, ...] = field(metadata={"max_items": DOMAIN_DRIVES_MAX})


@dataclass(frozen=True)
class StateOutcome:
    """Answer to everything that reads or changes state: the domain as it is now.

    `changed` is False where the asked-for state was there already (idempotence).
    `before` and `after` are read from the drive, not remembered, in the order of
    `drive_ids`.  `counters` are of every drive of the domain, or empty (a kernel before
    5.5).
    """

    KIND: ClassVar[str] = "state"
    before: Tuple[DriveState, ...] = field(metadata={"max_items": DOMAIN_DRIVES_MAX})
    after: Tuple[DriveState, ...] = field(metadata={"max_items": DOMAIN_DRIVES_MAX})
    counters: Tuple[FlushCounters, ...] = field(metadata={"max_items": DOMAIN_DRIVES_MAX})
    changed: bool
    drive_ids: Tuple[str, ...] = field(default=(), metadata={"max_items": DOMAIN_DRIVES_MAX})
    # of the bcache devices above the drives, read before anything was done
    bcache: Tuple[BcacheState, ...] = field(default=(), metadata={"max_items": DOMAIN_DRIVES_MAX})

    @staticmethod
    def of_prior(prior: Prior, *, changed: bool) -> StateOutcome:
        """Return the answer where what was there before is there again, or still."""
        states = tuple(replace(item.state, options=item.options) for item in prior.drives)
        ids = tuple(item.drive_id for item in prior.drives)
        return StateOutcome(states, states, (), changed, ids)


@dataclass(frozen=True)
class SamplesOutcome:
    """Answer to TimerRequest and MeasureRequest: latencies in ns, in order of time.

    `at_ns`, of a spread request: when each began, since the first could have.
    """

    KIND: ClassVar[str] = "samples"
    samples_ns: Tuple[int, ...] = field(metadata={"max_items": SAMPLES_MAX})
    seconds: float
    bytes_written: int
    aborted: str = ""
    at_ns: Tuple[int, ...] = field(default=(), metadata={"max_items": SAMPLES_MAX})


@dataclass(frozen=True)
class FailureOutcome:
    """The task was not done; `restored` says whether the prior state is (back) in place.

    `by_drive`: a drive refused the change itself, or took it and did nothing.

    `after` is what was read then, in the order of `drive_ids`; both are empty where the
    task touched nothing.
    """

    KIND: ClassVar[str] = "failure"
    message: str
    advice: str = ""
    refused: bool = False
    restored: bool = True
    drive_ids: Tuple[str, ...] = field(default=(), metadata={"max_items": DOMAIN_DRIVES_MAX})
    after: Tuple[DriveState, ...] = field(default=(), metadata={"max_items": DOMAIN_DRIVES_MAX})
    doubt: PriorDoubt = PriorDoubt.NONE
    by_drive: bool = False

    @property
    def said(self) -> str:
        """The message and its advice."""
        return self.message + (f": {self.advice}" if self.advice else "")


@dataclass(frozen=True)
class MemoryOutcome:
    """Answer to MemoryRequest; None where the host does not say."""

    KIND: ClassVar[str] = "memory"
    memory: Optional[HostMemory] = None


Outcome = Union[
    ReportOutcome, DrivesOutcome, StateOutcome, SamplesOutcome, MemoryOutcome, FailureOutcome
]


@dataclass(frozen=True)
class Notice:
    """Something the probe did by itself (a lease that ran out, a restore at start)."""

    notice_id: str
    text: str
    domain_id: str = ""
    restored: Optional[bool] = None
    lease_id: str = ""
    # what the journal entry said that was gone back to
    prior: Tuple[PriorDrive, ...] = field(default=(), metadata={"max_items": DOMAIN_DRIVES_MAX})


@dataclass(frozen=True)
class Hello:
    """Sent with every call: who asks, and the lease it believes it holds.

    `probe_id` lives in the probe's state folder, `instance_id` is new at each start.
    `changed`: the host is not as it was reported last.
    """

    VERSION: ClassVar[int] = PROTOCOL_VERSION
    version: int
    probe_id: str
    instance_id: str
    lease_id: str = ""
    simulated: bool = False
    changed: bool = False
    waiting: Optional[Waiting] = None


@dataclass(frozen=True)
class Post(Hello):
    """The body of `wcache agent post`: a hello that tells something."""

    VERSION: ClassVar[int] = PROTOCOL_VERSION
    hostname: str = ""
    task_id: str = ""
    outcome: Optional[Outcome] = None
    notices: Tuple[Notice, ...] = field(default=(), metadata={"max_items": 64})
