"""The hosts as the module knows them: their probes, last reports, open tasks."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Dict, FrozenSet, Optional, Set, Tuple

from ..core.drive.journal import EntryKind
from ..core.fleet.agents import Agents
from ..core.fleet.claims import OLD_S, Age, age_of
from ..core.hardware import HostMemory
from ..core.host_report import HostReport
from ..core.protocol import (
    MemoryRequest,
    ReleaseRequest,
    Request,
    RollbackRequest,
    Task,
)
from ..deployment.places import Deployment, RemovedHosts
from .storing.archive import AGENT, DEPLOYMENT, REMOVED, REPORT, Archive

# Notices of each host that are remembered, so that one that is sent twice is told once.
NOTICES_MAX = 256
# A host is looked at again this long after its last report.
REPORT_EVERY_S = 600.0
# One that says that it has changed, or of which a command wants to know, no sooner than this.
CHANGED_EVERY_S = 5.0
# The report of a host that calls is waited for so long where others do, as it lists drives in
# seconds; then they go on without it, and wait for it again no sooner than this later.
AWAITED_S = 600.0
AWAITED_AGAIN_S = 3600.0
# How often a probe is asked to restore what its journal has lost, or to drop what is accepted.
RESTORE_EVERY_S = 60.0
# A host whose memory is watched tells of it this often, as its calls allow.
MEMORY_EVERY_S = 2.0


def lease_key(domain_id: str) -> str:
    """The journal's entry of a lease of a cache domain."""
    return f"{EntryKind.LEASE.value}/{domain_id}"


def leased_by(report: HostReport, domain_id: str) -> bool:
    """Whether the journal of a host's probe has an entry of a lease of a cache domain."""
    return any(note.key == lease_key(domain_id) for note in report.journal)


def key_of(request: Request) -> Optional[str]:
    """The journal's entry that a request goes back to; None where it does something else."""
    if isinstance(request, ReleaseRequest):
        return lease_key(request.domain_id)
    if isinstance(request, RollbackRequest):
        return f"{EntryKind.ACTION.value}/{request.action_id}"
    return None


@dataclass(frozen=True)
class OpenTask:
    """A task that waits for its answer, and whose it is ("" for a look around)."""

    owner: str
    task: Task


class Hosts:
    """All hosts with a probe; guarded by the engine's lock.

    A host that is not in `reported_at_s` is asked for a report next.  `journal_known` are
    those of which a report came since this mgr and their probe started: what it told of the
    journal changes by our own tasks alone.  `deployments` are the hosts that `agent add` was
    called for.  `removed` are those that were removed, with the instance of their probe: it may go
    on calling, and is refused until its host is added again.  `memory` is what a host has told
    of its memory and when, while it is watched: reports say that too seldom to see it grow.
    """

    def __init__(self) -> None:
        self.agents = Agents()
        self.reports: Dict[str, HostReport] = {}
        self.reported_at_s: Dict[str, float] = {}
        self.awaited_until_s: Dict[str, float] = {}
        self.look_wanted: Set[str] = set()  # by its probe, which saw a change, or by a command
        self.journal_known: Set[str] = set()
        self.tasks: Dict[str, OpenTask] = {}
        self._notices: Dict[str, Dict[Tuple[str, str], None]] = {}
        self._looks = 0
        self.deployments: Dict[str, Deployment] = {}
        self.removed = RemovedHosts()
        self.memory: Dict[str, Tuple[float, HostMemory]] = {}
        self._memory_wanted: FrozenSet[str] = frozenset()

    def load(self, archive: Archive, now_s: float) -> None:
        """Take up what was stored; every probe counts as heard now."""
        for hostname, agent in archive.all(AGENT).items():
            self.agents.restore(replace(agent, hostname=hostname, seen_at_s=now_s))
        self.reports.update(archive.all(REPORT))
        self.deployments = archive.all(DEPLOYMENT)
        self.removed = archive.get(REMOVED) or RemovedHosts()

    def is_removed(self, hostname: str) -> bool:
        """Whether nothing is known of a host any more: `agent rm` forgets all of it."""
        known = hostname in self.reports or hostname in self.deployments
        return self.agents.get(hostname) is None and not known

    def look_due(self, hostname: str, now_s: float) -> bool:
        """Whether the host's drives should be looked at again."""
        every_s = CHANGED_EVERY_S if hostname in self.look_wanted else REPORT_EVERY_S
        return now_s - self.reported_at_s.get(hostname, -math.inf) > every_s

    def reported(self, hostname: str, now_s: float) -> None:
        """A report came; one that is needed soon after it is not waited for again."""
        self.reported_at_s[hostname] = now_s
        self.look_wanted.discard(hostname)
        self.journal_known.add(hostname)

    def look_again(self, hostname: str) -> None:
        """What the host has told is of before what was done there: others wait for news."""
        self.reported_at_s.pop(hostname, None)
        self.awaited_until_s.pop(hostname, None)

    def heard(self, hostname: str, now_s: float) -> None:
        """Its probe calls: where it has still to report, others wait for that from now on.

        For a bounded time, and not again soon: it may go on to call and never report.
        """
        until_s = self.awaited_until_s.get(hostname)
        if hostname not in self.reported_at_s and (
            until_s is None or now_s >= until_s + AWAITED_AGAIN_S
        ):
            self.awaited_until_s[hostname] = now_s + AWAITED_S

    def refresh(self, now_s: float) -> Age:
        """How old what a command goes by is; hosts whose reports are old are looked at again."""
        self.look_wanted.update(
            name for name in self.reports
            if now_s - self.reported_at_s.get(name, -math.inf) > OLD_S
        )
        return age_of(self.reports.keys(), self.reported_at_s, now_s)

    def give(self, hostname: str, epoch: str, request: Request) -> Task:
        """A new task for the host that no machine waits for."""
        self._looks += 1
        task = Task(f"{request.KIND}.{epoch}.{self._looks}", request)
        self.tasks[hostname] = OpenTask("", task)
        return task

    def watch_memory(self, wanted: FrozenSet[str]) -> None:
        """Ask these hosts for their memory again and again, and no others."""
        for hostname in self._memory_wanted - wanted:
            self.memory.pop(hostname, None)
            pending = self.tasks.get(hostname)
            if pending is not None and isinstance(pending.task.request, MemoryRequest):
                del self.tasks[hostname]
        self._memory_wanted = wanted

    def memory_due(self, hostname: str, now_s: float) -> bool:
        """Whether the host should tell of its memory now."""
        told = self.memory.get(hostname)
        return hostname in self._memory_wanted and (
            told is None or now_s - told[0] >= MEMORY_EVERY_S
        )

    def drop_tasks(self, owner: str) -> None:
        """Nobody waits any more for what a machine has asked for."""
        for hostname in [h for h, pending in self.tasks.items() if pending.owner == owner]:
            del self.tasks[hostname]

    def drop_tasks_of(self, hostname: str) -> None:
        """A host need not do what no machine waits for."""
        pending = self.tasks.get(hostname)
        if pending is not None and not pending.owner:
            del self.tasks[hostname]

    def forget(self, hostname: str) -> None:
        self.agents.forget(hostname)
        self.reports.pop(hostname, None)
        self.reported_at_s.pop(hostname, None)
        self.awaited_until_s.pop(hostname, None)
        self.look_wanted.discard(hostname)
        self.journal_known.discard(hostname)
        self.tasks.pop(hostname, None)
        self._notices.pop(hostname, None)
        self.deployments.pop(hostname, None)
        self.memory.pop(hostname, None)

    def seen_notice(
        self, hostname: str, probe_id: str, notice_id: str, mark: bool = True
    ) -> bool:
        """Whether a notice of a host's probe was taken before; remembers it with `mark`."""
        key, notices = (probe_id, notice_id), self._notices.setdefault(hostname, {})
        seen = key in notices
        if mark and not seen:
            notices[key] = None
            if len(notices) > NOTICES_MAX:
                del notices[next(iter(notices))]
        return seen
