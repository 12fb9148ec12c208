"""wcache beside what is always wrong somewhere: an OSD is down, data moves, one has an alert.

Class `hot` is in order, and is worked on.  Of class `cold` one OSD is dead, so that the others
miss copies, and data moves between them.
"""

from __future__ import annotations

import itertools
import re
import threading
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Sequence

import pytest
from harness import ClusterPlan, CommandError, OsdLayout, start_cluster
from probes import MODULE
from rollouts.hosts import THROUGH, Hosts, Layout, Witness
from rollouts.rig import OPTIONS

pytestmark = [pytest.mark.cluster, pytest.mark.one_release]

HOT, COLD, MOVING = "hot", "cold", "moving"
THREES: Layout = {"h1": (0, 1, 2), "h2": (3, 4, 5), "h3": (6, 7, 8)}
ONES: Layout = {"h1": (0,), "h2": (1,), "h3": (2,)}
ALERT = "BLUESTORE_SLOW_OP_ALERT"
WORK = {**OPTIONS, "gate_by_load": False, "latency_limit_ms": 60_000}
HOT_PGS, COLD_PGS = 32, 4
UPMAP_EACH_S = 45.0
SLOW_IOPS = 200  # of drives, as mClock is told: it lets backfill have a part of them
CAPACITY = "osd_mclock_max_capacity_iops_ssd"
PATIENCE_S = 1500.0
BENCH = ("-b", "4096", "-t", "16", "--no-cleanup")


class Living(Hosts):
    """The cluster; of `cold` the first OSD is to die, and the others then miss copies."""

    def __init__(self, cluster: Any, hosts: Layout, cold: Sequence[int]) -> None:
        super().__init__(cluster, hosts)
        self.dead, *self.ill = cold
        self.hot = [osd_id for osd_id in self.osd_ids if osd_id not in cold]

    def neighbour(self, osd_id: int) -> int:
        """The other OSD of `hot` on a host."""
        (found,) = [
            other for other in self.hosts[self.host_of(osd_id)]
            if other in self.hot and other != osd_id
        ]
        return found

    def pool(self, name: str, device_class: str, size: int, pgs: int) -> None:
        """A pool of one device class, with something in it."""
        ceph = self.cluster.ceph
        ceph("osd", "pool", "create", name, str(pgs), str(pgs), "replicated", device_class)
        ceph("osd", "pool", "set", name, "size", str(size), "--yes-i-really-mean-it")
        ceph("osd", "pool", "set", name, "min_size", "1")
        ceph("osd", "pool", "application", "enable", name, "test")
        self.cluster.wait_clean()
        self.write(name, 1)

    def write(self, pool: str, seconds: int) -> None:
        """Objects in a pool."""
        self.cluster.run_inside(["rados", "-p", pool, "bench", str(seconds), "write", *BENCH])

    def kill(self) -> None:
        """The OSD that is down from now on; others miss its copies."""
        self.cluster.stop_osd(self.dead, kill=True)
        self.wcache.wait("missing copies", lambda: (
            {"OSD_DOWN", "PG_DEGRADED"} <= self.cluster.health_checks()
        ), 60)

    def alert(self, osd_id: int, pool: str) -> None:
        """Have an operation of an OSD be slow, by a threshold that is as it was afterwards."""
        who = f"osd.{osd_id}"
        self.cluster.command("config set", who=who, name="bluestore_log_op_age", value="0.00001")
        self.write(pool, 2)
        self.wcache.wait("the alert", lambda: ALERT in self.cluster.health_checks(), 60)
        self.cluster.command("config rm", who=who, name="bluestore_log_op_age")


@contextmanager
def living(release: int, hosts: Layout, cold: Sequence[int], copies: int) -> Iterator[Living]:
    """Hosts with OSDs of both classes, whose pools are each of one class; all is well yet."""
    osds = [
        OsdLayout(device_class=COLD if osd_id in cold else HOT, hostname=name)
        for name, osd_ids in hosts.items() for osd_id in osd_ids
    ]
    conf = {
        "mon allow pool size one": "true", "osd pool default size": str(copies),
        # what is down stays in, so that its copies are missed to the end
        "mon osd down out interval": "86400",
        # as in PGs of years: a new copy is made of all objects, not of the log's
        "osd min pg log entries": "10", "osd max pg log entries": "10",
        "osd pg log trim min": "10",
    }
    with start_cluster(ClusterPlan(release=release, osds=osds, conf=conf)) as cluster:
        for name in (HOT, COLD):
            cluster.ceph("osd", "crush", "rule", "create-replicated", name, "default", "host", name)
        for pool in cluster.ceph("osd", "pool", "ls").stdout.split():
            cluster.ceph("osd", "pool", "set", pool, "crush_rule", HOT)
        cluster.ceph("balancer", "off")
        cluster.install_module(MODULE)
        cluster.enable_module("wcache")
        rig = Living(cluster, hosts, cold)
        for option, value in WORK.items():
            rig.wcache.option(option, value)
        rig.wcache.wait("the module", lambda: rig.wcache("status"), 60)
        for probe in rig.probes.values():
            probe.start()
        rig.pool(HOT, HOT, copies, HOT_PGS)
        rig.pool(COLD, COLD, 2, COLD_PGS)
        rig.wcache.wait("the reports", lambda: (
            {row["hostname"] for row in rig.wcache("drive ls")["drives"]} == set(hosts)
        ), 60)
        cluster.wait_healthy(120)
        try:
            yield rig
        finally:
            for probe in rig.probes.values():
                probe.kill()


def made_by(witness: Witness) -> List[int]:
    """The OSDs whose drives were put into write through, by when each was for the last time."""
    last = {osd_id: at_s for at_s, osd_id in witness.made}
    return sorted(last, key=last.__getitem__)


def carried_out(rig: Living) -> Dict[str, Any]:
    """Plan what is recommended for `hot` and apply it, to the end."""
    shown = rig.end(rig.begin(rig.plan(scope=f"class:{HOT}")), PATIENCE_S)
    assert shown["status"] == "done", shown
    assert rig.changed() == set(rig.hot)
    return shown


def verdicts(shown: Dict[str, Any]) -> Dict[int, str]:
    """By OSD what a campaign has decided of its drive."""
    return {result["osd_id"]: result["verdict"] for result in shown["results"]}


@pytest.fixture
def three(release: int) -> Iterator[Living]:
    """An OSD of class `hot`, and two of class `cold`, each on a host of its own."""
    with living(release, ONES, cold=(2, 1), copies=1) as rig:
        yield rig


def test_a_class_in_order_is_measured_and_changed_beside_one_that_misses_copies(three: Living):
    rig, wcache = three, three.wcache
    (ill,) = rig.ill
    witness = Witness(rig)
    with witness.looking():
        rig.kill()
        shown = wcache.decide(HOT, scope="cluster", loads="depth1", seed=7)
        assert set(verdicts(shown)) == set(rig.hot)
        # those that are passed over are named, with the reason
        for osd_id in (ill, rig.dead):
            assert any(re.search(rf"\bosd\.{osd_id}\b", line) for line in shown["skipped"]), shown
        with pytest.raises(CommandError, match=rf"osd\.{ill}\b"):
            wcache("campaign start", scope=f"osd.{ill}", loads="depth1", accept_cost=True)
        carried_out(rig)
    assert made_by(witness) == rig.hot
    assert {"OSD_DOWN", "PG_DEGRADED"} <= rig.cluster.health_checks()


@contextmanager
def data_moves(rig: Living) -> Iterator[None]:
    """All the time between two OSDs of `cold`, and a PG of `hot` now and then."""
    over = threading.Event()
    pools = {row["poolname"]: row["poolnum"] for row in rig.cluster.command("osd lspools")}

    def upmap(verb: str, pg: str, *osd_ids: int) -> None:
        # with a client of its own: the open connection is for one thread
        rig.cluster.ceph("osd", verb, pg, *map(str, osd_ids), check=False)

    def one_that_moves() -> None:
        pg = f"{pools[MOVING]}.0"
        while not over.wait(2.0):
            at = rig.cluster.ceph_json("pg", "map", pg)
            if at["up"] == at["acting"]:
                upmap("pg-upmap", pg, *set(rig.ill).difference(at["up"]))

    def a_balancer() -> None:
        for turn in itertools.count():
            pg = f"{pools[HOT]}.{turn // 2 % HOT_PGS:x}"
            if turn % 2:
                upmap("rm-pg-upmap-items", pg)
            else:
                source, *_ = rig.cluster.ceph_json("pg", "map", pg)["acting"]
                upmap("pg-upmap-items", pg, source, rig.neighbour(source))
            if over.wait(UPMAP_EACH_S):
                return

    threads = [threading.Thread(target=one) for one in (one_that_moves, a_balancer)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def tried(rig: Living) -> Dict[str, Any]:
    """`try`, as soon as it may begin; its answer."""
    wcache, refused = rig.wcache, ""

    def begun() -> Any:
        nonlocal refused
        try:
            return wcache("try", accept_cost=True)
        except CommandError as refusal:
            refused = str(refusal)
            if "preconditions not met" not in refused:
                raise
            return None

    try:
        wcache.wait("try to begin", begun, 180)
    except AssertionError:
        pytest.fail(refused)
    told: Dict[str, Any] = {}

    def answered() -> bool:
        told.update(wcache("try"))
        return bool(told["state"] == "answer")

    wcache.wait("the answer of try", answered, PATIENCE_S)
    return told


@pytest.fixture
def nine(release: int) -> Iterator[Living]:
    """Two OSDs of class `hot` and one of class `cold` on each of three hosts."""
    with living(release, THREES, cold=(2, 5, 8), copies=3) as rig:
        for osd_id in rig.ill:
            rig.cluster.command(
                "config set", who=f"osd.{osd_id}", name=CAPACITY, value=str(SLOW_IOPS)
            )
        rig.pool(MOVING, COLD, 1, 1)
        (number,) = [
            row["poolnum"] for row in rig.cluster.command("osd lspools")
            if row["poolname"] == MOVING
        ]
        rig.cluster.ceph("osd", "pg-upmap", f"{number}.0", str(rig.ill[0]))
        rig.cluster.wait_clean(120)
        rig.write(MOVING, 5)
        yield rig


@pytest.mark.long
def test_each_drive_is_decided_as_on_a_quiet_cluster_and_the_ill_ones_are_left_alone(
    nine: Living
):
    rig, wcache = nine, nine.wcache
    alerted = rig.hot[0]
    rig.alert(alerted, HOT)
    rig.kill()
    every = {"scope": f"class:{HOT}", "loads": "depth1", "drives_per_model": len(rig.hot)}
    witness = Witness(rig)
    with witness.looking(), data_moves(rig):
        answer = tried(rig)
        print("\n" + "\n".join(answer["lines"]))
        beside = wcache.wait_over(wcache.start_campaign(seed=7, **every), PATIENCE_S)
        print(beside["status"], verdicts(beside), beside["skipped"])
        carried_out(rig)
        moved = rig.cluster.command("pg stat")
    print(moved["pg_summary"]["num_pg_by_state"])
    made = made_by(witness)
    assert set(made) == set(rig.hot), "the ill ones and the dead one are untouched"
    assert made.index(alerted) > made.index(rig.neighbour(alerted)), "it comes last on its host"
    assert {ALERT, "OSD_DOWN", "PG_DEGRADED"} <= rig.cluster.health_checks()

    rig.all_back()
    rig.cluster.start_osd(rig.dead)
    for osd_id in rig.ill:
        rig.cluster.command("config rm", who=f"osd.{osd_id}", name=CAPACITY)
    rig.cluster.wait_clean(300)
    quiet = wcache.wait_over(wcache.start_campaign(seed=8, **every), PATIENCE_S)
    print(quiet["status"], verdicts(quiet))
    decided = {osd_id: what for osd_id, what in verdicts(quiet).items() if what == THROUGH}
    assert decided
    assert {osd_id: verdicts(beside).get(osd_id) for osd_id in decided} == decided
