"""Which probe speaks for which host: one at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Dict, FrozenSet, List, Optional, Set, Tuple

from .. import across
from ..errors import ConflictError, VersionError
from ..protocol import PROTOCOL_VERSION, Hello

# A probe that has not called for this long is silent: `status` says so, nothing is begun on its
# host, and another probe may speak for the host.  An idle probe calls every 30 s
# (`poll_idle_s`), so two lost calls in a row are no silence yet.
SILENT_S = 90.0
# A probe under a lease calls every second or faster, and restores by itself when the lease runs
# out.  So whoever waits for its answer gives up sooner: after the lease and this long.
RESTORE_GRACE_S = 30.0
# A trial of more memory ends where a probe has told nothing of its host for so long: memory may
# grow, and nobody would see it.  Probes are asked every 2 s then, so lost calls do not end it.
MEMORY_UNTOLD_S = 60.0
# A host is removed only while its probe responds, so that it can still restore.  By jitter its
# calls are up to a fifth of a pause late; one is overdue after half a pause more, and this long.
CALL_LATE_S = 10.0


def overdue_s(poll_idle_s: float) -> float:
    """The age of an idle probe's last call from which on the next one is overdue."""
    return min(SILENT_S, 1.5 * poll_idle_s + CALL_LATE_S)


@dataclass(frozen=True)
class Agent:
    """The probe that speaks for a host, as last seen."""

    VERSION: ClassVar[int] = 1
    STORED_BY: ClassVar[str] = "hostname"
    hostname: str
    probe_id: str
    instance_id: str
    seen_at_s: float
    lease_id: str = ""
    simulated: bool = False
    probe_version: str = ""
    rival_probe_id: str = ""
    rival_seen_at_s: float = 0.0

    def silent(self, now_s: float) -> bool:
        """Whether it has not called for SILENT_S."""
        return now_s - self.seen_at_s >= SILENT_S


@dataclass(frozen=True)
class OtherVersion:
    """A probe that was refused, since it speaks another version of the protocol."""

    hostname: str
    version: int
    seen_at_s: float
    speaks: bool = False  # and so restores for this module all the same
    since_s: float = 0.0  # of its first call

    @property
    def words(self) -> str:
        """Which side has to be brought up to date."""
        todo = "upgrade the module on the mgrs"
        if self.version < PROTOCOL_VERSION:
            todo = f"upgrade the probe on {self.hostname}"
        return f"its probe speaks protocol {self.version}, the module {PROTOCOL_VERSION}: {todo}"


@dataclass(frozen=True)
class Blocked:
    """What a probe that goes on calling waits for on its host."""

    what: str
    since_s: float
    called_at_s: float

    def words(self, now_s: float) -> str:
        """What it waits for, and since when."""
        return f"the probe calls, and has waited for {now_s - self.since_s:.0f} s: {self.what}"


class Agents:
    """All agents of the cluster.  No I/O; the caller gives the time.

    A probe that calls and waits for its host is seen last when it began to wait: who needs it to
    do something hears nothing more of it, whether it calls or not.
    """

    def __init__(self) -> None:
        self._agents: Dict[str, Agent] = {}
        self._blocked: Dict[str, Blocked] = {}
        self._others: Dict[str, OtherVersion] = {}
        self._only_stored: Set[str] = set()

    def get(self, hostname: str) -> Optional[Agent]:
        return self._agents.get(hostname)

    def all(self) -> List[Agent]:
        """All agents, by host name."""
        return [self._agents[name] for name in sorted(self._agents)]

    def restore(self, agent: Agent) -> None:
        """Take over an agent from storage."""
        self._agents[agent.hostname] = agent
        self._only_stored.add(agent.hostname)

    def hear(self, hostname: str, hello: Hello, now_s: float) -> Agent:
        """Take a call of a probe; returns the agent as it was known *before* this call.

        Raises VersionError for a probe of another protocol, ConflictError while another
        probe speaks for the host: two probes with one journal each would restore each
        other's states.
        """
        if hello.version != PROTOCOL_VERSION:
            raise VersionError(
                f"the probe on {hostname} speaks protocol {hello.version}, this module "
                f"{PROTOCOL_VERSION}",
                "install the probe of this module's version",
            )
        known = self._known(hostname, hello.probe_id, now_s)
        seen_at_s = now_s
        self._blocked.pop(hostname, None)
        if hello.waiting is not None:
            seen_at_s -= max(0.0, hello.waiting.seconds)
            self._blocked[hostname] = Blocked(hello.waiting.what, seen_at_s, now_s)
        new = Agent(
            hostname, hello.probe_id, hello.instance_id, seen_at_s, hello.lease_id, hello.simulated,
            known.probe_version if known else "",
            known.rival_probe_id if known else "", known.rival_seen_at_s if known else 0.0,
        )
        self._agents[hostname] = new
        self._only_stored.discard(hostname)
        self._others.pop(hostname, None)
        return known or replace(new, instance_id="", lease_id="")

    def _known(
        self, hostname: str, probe_id: str, now_s: float, more: str = ""
    ) -> Optional[Agent]:
        """The agent of a host; raises ConflictError while it is another, and is at something."""
        known, blocked = self._agents.get(hostname), self._blocked.get(hostname)
        calls = blocked is not None and now_s - blocked.called_at_s < SILENT_S
        if known and known.probe_id != probe_id and (calls or not known.silent(now_s)):
            self._agents[hostname] = replace(known, rival_probe_id=probe_id, rival_seen_at_s=now_s)
            said = f"probe {known.probe_id} speaks for {hostname}"
            seen = f"{said} and was last seen {now_s - known.seen_at_s:.0f} s ago"
            raise ConflictError(
                f"{said}, and {more}" if more else seen,
                "stop one of the two probes, or give each its own host name",
            )
        return known

    def blocked(self, now_s: float) -> Dict[str, Blocked]:
        """What the probes of hosts wait for that have called lately."""
        return {
            hostname: one for hostname, one in self._blocked.items()
            if now_s - one.called_at_s < SILENT_S
        }

    def hear_other(
        self, hostname: str, hello: across.Caller, now_s: float, speaks: bool = False
    ) -> OtherVersion:
        """Take a call of a probe of another protocol; in memory only, since it goes on calling.

        Raises ConflictError while another probe speaks for the host.
        """
        before = self._others.get(hostname)
        self._known(hostname, hello.probe_id, now_s, f"this one is of protocol {hello.version}")
        speaks = speaks or (before is not None and before.speaks)
        since_s = before.since_s if before is not None else now_s
        self._others[hostname] = OtherVersion(hostname, hello.version, now_s, speaks, since_s)
        return self._others[hostname]

    def other(self, hostname: str, now_s: float) -> Optional[OtherVersion]:
        """The probe of another protocol that called last and lately for a host."""
        one = self._others.get(hostname)
        return None if one is None or now_s - one.seen_at_s > SILENT_S else one

    def look(
        self, now_s: float
    ) -> Tuple[
        Tuple[Agent, ...], FrozenSet[str], Tuple[OtherVersion, ...], Dict[str, Blocked],
    ]:
        """Those of this protocol, hosts of which only a stored one is known, others, and `blocked`.

        All agents, and probes of another protocol that called lately, by host name.
        """
        for hostname, one in list(self._others.items()):
            if now_s - one.seen_at_s > SILENT_S:
                del self._others[hostname]
        others = tuple(self._others[name] for name in sorted(self._others))
        agents = tuple(self._agents[name] for name in sorted(self._agents))
        return agents, frozenset(self._only_stored), others, self.blocked(now_s)

    def note_version(self, hostname: str, probe_version: str) -> None:
        agent = self._agents.get(hostname)
        if agent:
            self._agents[hostname] = replace(agent, probe_version=probe_version)

    def forget(self, hostname: str) -> None:
        self._agents.pop(hostname, None)
        self._blocked.pop(hostname, None)
        self._only_stored.discard(hostname)
        self._others.pop(hostname, None)
