"""A measurement of capacities: one OSD after the other, as a sans-I/O machine.

The drives are looked at before and after the calls, so that a capacity is known to belong
to one setting of the caches.  What was measured is stored before anything else is done; a
mgr that takes over goes on with the first OSD that is missing.  Any trouble ends it: what
was measured until then is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import List, Optional, Tuple, Union

from ...codec import one_line
from .capacity import CALL_BYTES, CALLS_MAX, CALLS_MIN, SCHEDULER, Measurement

TARGETS_MAX = 2000
# A probe polls within a second while this runs, else about every 30 s.
LOOK_S_MAX = 120.0


class JobStatus(str, Enum):
    """Where a measurement of capacities stands."""

    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"


@dataclass(frozen=True)
class Target:
    """An OSD to be benched."""

    osd_id: int
    hostname: str
    device_class: str
    rotational: bool
    stack: str


@dataclass(frozen=True)
class Job:
    """What is to be measured and how far it is; stored after each OSD."""

    job_id: str
    created_at_s: float
    targets: Tuple[Target, ...] = field(metadata={"max_items": TARGETS_MAX})
    calls: int = field(metadata={"min": CALLS_MIN, "max": CALLS_MAX})
    forced: bool = False
    status: JobStatus = JobStatus.RUNNING
    reason: str = ""
    done: int = 0
    bytes_written: int = 0


@dataclass(frozen=True)
class BenchSamples:
    """What the calls on one OSD gave, and what the OSD said of itself.

    A threshold of 0 means that the release has none.
    """

    iops: Tuple[float, ...]
    seconds: float
    scheduler: str = SCHEDULER
    iops_min: float = 0.0
    iops_max: float = 0.0


# ---- events


@dataclass(frozen=True)
class Seen:
    """The newest report of the target's host: when it came, and the OSD's setting."""

    reported_at_s: float
    setting: str


@dataclass(frozen=True)
class Benched:
    """The calls have ended."""

    token: str
    samples: BenchSamples


@dataclass(frozen=True)
class Failed:
    """The calls could not be made, or a reason to stop came up meanwhile."""

    token: str
    message: str


Event = Union[Seen, Benched, Failed]

# ---- actions


@dataclass(frozen=True)
class Look:
    """Have the host looked at anew."""

    hostname: str


@dataclass(frozen=True)
class Bench:
    """Make the calls; answered with Benched or Failed."""

    token: str
    target: Target
    calls: int


@dataclass(frozen=True)
class Keep:
    """Store a measurement."""

    measurement: Measurement


@dataclass(frozen=True)
class SaveJob:
    """Store the job."""


@dataclass(frozen=True)
class Say:
    """A line for the audit log."""

    text: str


Action = Union[Look, Bench, Keep, SaveJob, Say]


@dataclass
class JobMachine:
    """The machine of one job; `begin` starts it or takes it up after a restart."""

    job: Job
    epoch: str = "0"
    _token: str = ""
    _asked_at_s: Optional[float] = None
    _setting: str = ""
    _samples: Optional[BenchSamples] = None

    @property
    def over(self) -> bool:
        """Whether nothing is under way."""
        return self.job.status is not JobStatus.RUNNING

    @property
    def target(self) -> Optional[Target]:
        """The OSD that is being measured."""
        if self.over or self.job.done >= len(self.job.targets):
            return None
        return self.job.targets[self.job.done]

    def begin(self, now_s: float) -> List[Action]:
        """Start with the first OSD that is missing."""
        self._samples = None
        target = self.target
        if target is None:
            return [] if self.over else self._end(JobStatus.DONE, "")
        return self._look(target, now_s)

    def halt(self, reason: str) -> List[Action]:
        """Stop now."""
        return [] if self.over else self._end(JobStatus.STOPPED, reason)

    def handle(self, event: Event, now_s: float) -> List[Action]:
        """Take one event; return what is to be done, in order."""
        target = self.target
        if target is None:
            return []
        if isinstance(event, Seen):
            return self._seen(event, target, now_s)
        if event.token != self._token:
            return []
        if isinstance(event, Failed):
            return self._end(JobStatus.STOPPED, event.message)
        self._samples = event.samples
        return self._look(target, now_s)

    def _look(self, target: Target, now_s: float) -> List[Action]:
        self._token, self._asked_at_s = "", now_s
        return [Look(target.hostname)]

    def _seen(self, event: Seen, target: Target, now_s: float) -> List[Action]:
        if self._asked_at_s is None:
            return []
        if event.reported_at_s <= self._asked_at_s:
            if now_s - self._asked_at_s > LOOK_S_MAX:
                said = f"the probe on {target.hostname} did not report for {LOOK_S_MAX:.0f} s"
                return self._end(JobStatus.STOPPED, said)
            return []
        self._asked_at_s = None
        if not event.setting:
            said = f"the cache mode of osd.{target.osd_id} is not known"
            return self._end(JobStatus.STOPPED, said)
        if self._samples is None:
            self._setting = event.setting
            self._token = f"{self.job.job_id}.{self.epoch}.{self.job.done}"
            return [Bench(self._token, target, self.job.calls)]
        if event.setting != self._setting:
            return self._end(
                JobStatus.STOPPED,
                f"osd.{target.osd_id} went from {self._setting} to {event.setting} meanwhile",
            )
        return self._keep(target, self._samples, now_s)

    def _keep(self, target: Target, samples: BenchSamples, now_s: float) -> List[Action]:
        written = len(samples.iops) * CALL_BYTES
        kept = Measurement(
            target.osd_id, target.hostname, target.device_class, target.rotational,
            target.stack, self._setting, samples.iops, samples.seconds, written, now_s,
            samples.scheduler, samples.iops_min, samples.iops_max, self.job.forced,
        )
        self.job = replace(
            self.job, done=self.job.done + 1, bytes_written=self.job.bytes_written + written
        )
        return [Keep(kept), SaveJob(), *self.begin(now_s)]

    def _end(self, status: JobStatus, reason: str) -> List[Action]:
        self._token, self._asked_at_s = "", None
        self.job = replace(self.job, status=status, reason=one_line(reason))
        said = f"{self.job.done} of {len(self.job.targets)} OSDs measured"
        return [SaveJob(), Say(said + (f"; stopped: {self.job.reason}" if reason else ""))]
