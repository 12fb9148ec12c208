"""Faults in every state of a rollout on a real cluster: it ends, as its record says, and goes back.

The same in virtual time and in all states: mgr_module/tests/core/change/test_rollout_faults.py.
"""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Thread
from typing import Any, Callable, Dict, Iterator, List, Tuple

import pytest
from harness import CommandError
from rollouts.hosts import (
    BACK,
    CLASS,
    HOST_OPTIONS,
    THROUGH,
    Hosts,
    Unjudged,
    Witness,
    hosts_started,
)

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.one_release]

DEPTH = 8
ENTRY_BYTES_MAX = "mon_config_key_max_entry_size"
DRIVES = 5
# Of a plan of all: the canary, the other one of its host, and the next host's first.
AFTER_HOST_1 = 2


@pytest.fixture(scope="module")
def hosts(release: int) -> Iterator[Hosts]:
    """Three hosts, five OSDs."""
    with hosts_started(release) as rig:
        yield rig


@pytest.fixture
def rig(hosts: Hosts) -> Iterator[Hosts]:
    """All is as before after each test, also after one that failed."""
    hosts.by_hand.clear()
    yield hosts
    hosts.cluster.ceph("osd", "unset", "noout")
    hosts.cluster.ceph("config", "rm", "mon", ENTRY_BYTES_MAX)
    hosts.wcache("freeze", thaw=True)
    for osd_id in set(hosts.osd_ids) - hosts.cluster.osds_up():
        hosts.cluster.start_osd(osd_id)
    for probe in hosts.probes.values():
        if probe.process is None or probe.process.poll() is not None:
            probe.start()
    hosts.all_back()
    for osd_id in hosts.changed():
        hosts.switch(osd_id, BACK)
    hosts.cluster.wait_healthy(180)


# ---- states: each begins a rollout, brings it there, and returns its plan


def of_all(rig: Hosts) -> str:
    """A plan, once no host of the case before is silent and none of its OSDs ill."""
    scope = f"class:{CLASS}"
    rig.wcache.wait(
        "all drives to be well",
        lambda: len(rig.wcache("plan", scope=scope, dry_run=True)["changes"]) == DRIVES, 120,
    )
    return rig.plan(scope=scope)


@contextmanager
def stopped(rig: Hosts, hostname: str) -> Iterator[None]:
    """The host's probe takes no step meanwhile; what the test kills needs no more than that."""
    process = rig.probes[hostname].process
    assert process is not None
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGCONT)


@contextmanager
def held(rig: Hosts) -> Iterator[str]:
    """Waiting for preconditions: an admin works on a host."""
    plan_id = rig.begin(of_all(rig))
    rig.cluster.ceph("osd", "set", "noout")
    rig.wait_phase(plan_id, "held")
    yield plan_id
    rig.wait_phase(plan_id, "held")  # a mgr that takes over looks first
    rig.cluster.ceph("osd", "unset", "noout")


@contextmanager
def looking(rig: Hosts) -> Iterator[str]:
    """The canary's probe has been asked what is there, and does not answer."""
    plan_id = of_all(rig)
    with stopped(rig, rig.changes(plan_id)[0]["hostname"]):
        rig.begin(plan_id)
        rig.wait_phase(plan_id, "looking")
        yield plan_id


@contextmanager
def settling(rig: Hosts) -> Iterator[str]:
    """The canary is changed and is watched."""
    plan_id = rig.begin(of_all(rig))
    rig.wait_phase(plan_id, "waiting")
    yield plan_id


@contextmanager
def settling_later(rig: Hosts) -> Iterator[str]:
    """The first host is done, and a drive of the next one is changed."""
    plan_id = rig.begin(of_all(rig))
    rig.wait_phase(plan_id, "waiting", applied=AFTER_HOST_1)
    yield plan_id


@contextmanager
def paused(rig: Hosts) -> Iterator[str]:
    """By an admin, once the canary is judged; resumed afterwards, where it still waits."""
    with settling(rig) as plan_id:
        rig.wcache("rollout pause", plan_id=plan_id)
        rig.end(plan_id)
        yield plan_id
        # a mgr that was lost before that was stored pauses it once more
        if rig.end(plan_id)["status"] == "paused":
            rig.wcache("rollout resume", plan_id=plan_id)


@contextmanager
def rolling_back(rig: Hosts) -> Iterator[str]:
    """An admin takes it back, and the probe of the first host does not answer."""
    with settling_later(rig) as plan_id, stopped(rig, "h1"):
        rig.wcache("rollback", plan_id=plan_id)
        rig.wait_phase(plan_id, "back")
        yield plan_id


@contextmanager
def watched(rig: Hosts, phase: str) -> Iterator[str]:
    """One drive, judged by blocks of clients' load beside the other four."""
    with rig.options(gate_by_load=True), rig.clients(DEPTH):
        plan_id = rig.begin(rig.plan(scope="osd.0"))
        rig.wait_phase(plan_id, phase)
        yield plan_id
        rig.end(plan_id)
    rig.wcache.option("gate_by_load", HOST_OPTIONS["gate_by_load"])


def blocks_before(rig: Hosts) -> Any:
    """Blocks are taken, and nothing is changed yet."""
    return watched(rig, "blocks before")


def blocks_after(rig: Hosts) -> Any:
    """The drive is changed, and is being judged."""
    return watched(rig, "blocks after")


# ---- faults


def probe_killed(rig: Hosts, plan_id: str) -> None:
    """kill -9 of the probe on the host of the change under way, and a new one."""
    under_way = [c for c in rig.changes(plan_id) if c["status"] in ("applying", "rolling back")]
    probe = rig.probes[(under_way or rig.changes(plan_id))[0]["hostname"]]
    probe.kill()
    probe.start()


def probe_lost(rig: Hosts, plan_id: str) -> None:
    """The probe is gone for so long that the rollout says that it waits for it."""
    hostname = rig.changes(plan_id)[0]["hostname"]
    rig.probes[hostname].kill()
    rig.wcache.wait(
        "the rollout to miss the probe",
        lambda: hostname in str(rig.shown(plan_id)["waiting_for"])
        or "probes" in str(rig.shown(plan_id)["waiting_for"]), 120,
    )
    rig.probes[hostname].start()


def mgr_failover(rig: Hosts, plan_id: str) -> None:
    """The standby takes over."""
    rig.cluster.fail_mgr()
    rig.wcache.wait("the other mgr", lambda: rig.wcache("status"))


def mgr_killed(rig: Hosts, plan_id: str) -> None:
    """kill -9 of the mgr."""
    rig.cluster.restart_mgr(kill=True)
    rig.wcache.wait("the other mgr", lambda: rig.wcache("status"))


def host_reset(rig: Hosts, plan_id: str) -> None:
    """Of the host of the change under way."""
    (under_way,) = [c for c in rig.changes(plan_id) if c["status"] == "applying"]
    rig.reset(under_way["hostname"])


def osd_killed(rig: Hosts, plan_id: str) -> None:
    """kill -9 of the OSD whose drive is changed."""
    (under_way,) = [c for c in rig.changes(plan_id) if c["status"] == "applying"]
    rig.cluster.stop_osd(under_way["osd_id"], kill=True)
    rig.end(plan_id)
    rig.cluster.start_osd(under_way["osd_id"])


def control_leaves(rig: Hosts, plan_id: str) -> None:
    """kill -9 of one of the OSDs beside which the drive is judged.

    Of so few OSDs all miss a copy then: the step is judged once they are well.
    """
    controls = rig.shown(plan_id)["step"]["controls"]
    assert len(controls) == len(rig.osd_ids) - 1
    rig.cluster.stop_osd(controls[-1], kill=True)
    rig.wait_phase(plan_id, "held")
    assert rig.shown(plan_id)["applied"] == 0
    rig.cluster.start_osd(controls[-1])


def two_admins(rig: Hosts, plan_id: str) -> None:
    """Each applies a plan of the same drives, at once; one of them also pauses and resumes."""
    other = rig.plan(scope=f"class:{CLASS}")
    said: Dict[str, Tuple[int, str]] = {}

    def run(*words: str) -> None:
        done = rig.cluster.ceph("wcache", *words, check=False)
        said[" ".join(words)] = (done.rc, done.stderr)

    commands = [
        ("apply", plan_id), ("apply", other), ("rollout", "pause", plan_id),
        ("rollout", "resume", plan_id),
    ]
    threads = [Thread(target=run, args=words) for words in commands]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    refused, why = said[f"apply {other}"]
    assert refused != 0
    assert f"plan {plan_id} is under way" in why
    if rig.shown(plan_id)["status"] == "running":  # a pause comes once the canary is judged
        rig.end(plan_id)
    if rig.shown(plan_id)["status"] == "paused":
        rig.wcache("rollout resume", plan_id=plan_id)
    assert {change["status"] for change in rig.changes(other)} == {"planned"}


def abort_and_rollback(rig: Hosts, plan_id: str) -> None:
    """Two admins who both want it away, in their own ways."""
    threads = [
        Thread(target=rig.cluster.ceph, args=("wcache", *words, plan_id))
        for words in (("rollout", "abort"), ("rollback",))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def gone_stale(rig: Hosts, plan_id: str) -> None:
    """Somebody changes a drive that is planned: it is named and nothing goes on before it is back.
    """
    (last,) = [c for c in rig.changes(plan_id) if c["hostname"] == "h3"]
    def by_hand(mode: str) -> None:
        rig.switch(last["osd_id"], mode)
        # it reports at its start; else the mgr would know within ten minutes, or at the step
        rig.probes["h3"].stop()
        rig.probes["h3"].start()

    def refusal() -> str:
        try:
            rig.wcache("rollout resume", plan_id=plan_id, dry_run=True)
        except CommandError as error:
            return str(error)
        return ""

    by_hand(THROUGH)
    said = rig.wcache.wait("a refusal", refusal)
    assert f"{plan_id} no longer fits: h3" in said
    assert "is in write through now, and was in write back" in said
    with pytest.raises(CommandError, match="no longer fits"):
        rig.wcache("rollout resume", plan_id=plan_id)
    assert rig.shown(plan_id)["status"] == "paused"
    by_hand(BACK)
    rig.wcache.wait("the plan to fit again", lambda: not refusal())


def store_refuses(rig: Hosts, plan_id: str) -> None:
    """The mons take nothing: what was begun goes back."""
    before = rig.changed()
    rig.cluster.ceph("config", "set", "mon", ENTRY_BYTES_MAX, "20")
    rig.wcache.wait(
        "a health error", lambda: "WCACHE_STORE_FAILED" in rig.cluster.health_checks()
    )
    # what was refused first may be a line of the log: the rollout has to meet it too
    rig.wcache.wait("the rollout to give up", lambda: rig.shown(plan_id)["status"] != "running")
    assert rig.changed() <= before
    rig.cluster.ceph("config", "rm", "mon", ENTRY_BYTES_MAX)


def frozen(rig: Hosts, plan_id: str) -> None:
    """An admin stops everything."""
    assert rig.wcache("freeze")["frozen"] is True
    rig.end(plan_id)
    # what stays applied may be taken back all the same
    assert rig.wcache("rollback", plan_id=plan_id, dry_run=True)["would_restore"]
    assert rig.wcache("freeze", thaw=True)["frozen"] is False


# ---- the table


@dataclass(frozen=True)
class Case:
    """`ends`: how the rollout stands in the end, and how many changes of it are applied then."""

    state: Callable[[Hosts], Any]
    fault: Callable[[Hosts, str], None]
    ends: str
    applied: int

    @property
    def name(self) -> str:
        """For pytest."""
        return f"{self.state.__name__}-{self.fault.__name__}"


CASES: List[Case] = [
    Case(held, mgr_failover, "done", 5),
    Case(held, probe_killed, "done", 5),
    Case(looking, probe_killed, "done", 5),
    Case(looking, probe_lost, "done", 5),
    Case(settling, probe_killed, "done", 5),
    Case(settling, mgr_failover, "done", 5),
    Case(settling, two_admins, "done", 5),
    Case(settling, store_refuses, "rolled back", 0),
    Case(settling, osd_killed, "rolled back", 0),
    Case(settling_later, host_reset, "stopped", AFTER_HOST_1),
    Case(settling_later, abort_and_rollback, "rolled back", 0),
    Case(blocks_before, mgr_failover, "done", 1),
    Case(blocks_after, mgr_killed, "done", 1),
    Case(blocks_after, control_leaves, "done", 1),
    Case(paused, mgr_killed, "done", 5),
    Case(paused, gone_stale, "done", 5),
    Case(paused, frozen, "stopped", 1),
    Case(rolling_back, probe_killed, "rolled back", 0),
    Case(rolling_back, mgr_failover, "rolled back", 0),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.name))
def test_a_fault_in_a_rollout_ends_well_and_all_goes_back(rig: Hosts, case: Case):
    assert rig.changed() == set()
    witness, unjudged = Witness(rig), Unjudged(rig)
    with witness.looking():
        with case.state(rig) as plan_id:
            case.fault(rig, plan_id)
        shown = rig.end(plan_id, meanwhile=lambda: unjudged.look(plan_id))
        told = f"{shown['status']}: {shown['reason']}", rig.changes(plan_id)
        assert shown["status"] == case.ends, told
        assert shown["applied"] == case.applied, told
        rig.as_recorded(plan_id)
        rig.wcache("rollback", plan_id=plan_id)
        rig.end(plan_id)
    assert rig.changed() == set(), rig.changes(plan_id)
    assert {c["status"] for c in rig.changes(plan_id)} <= {"planned", "rolled back", "failed"}
    unjudged.one_host_at_a_time(witness.made)
    assert plan_id in rig.wcache.history_text()
