"""What Ceph 16, 18 and 20 have answered is understood, and no contract is there for nothing.

`qa/mgr_fakes/answers` is what `vstart-tests/test_contracts.py` has kept of real clusters.
"""

import errno
import json
import logging
import queue
from pathlib import Path

import mgr_fakes
import pytest
import test_ceph_view as view
import test_osd_option_answers as run_time
from mgr_fakes import watch
from mgr_fakes.contracts import CALLS, COMMANDS, METHODS_ONLY, REMOTE
from mgr_fakes.module import FakeMgr
from test_asking_the_orchestrator import interface  # noqa: F401  a fixture
from test_ceph_loads import answer_of
from wcache.ceph import compat
from wcache.ceph.blocks import CephBlocks
from wcache.ceph.command import CommandFailed, Osds
from wcache.ceph.config import CephConfig, disable_soon
from wcache.ceph.health import CephProgress
from wcache.ceph.loads import CephLoads
from wcache.ceph.store import CephKeys
from wcache.ceph.surroundings import CephKeyring, CephStops, CephSurroundings
from wcache.ceph.view import CephTraffic, CephView
from wcache.ceph.web_host import CephWebHost
from wcache.core.config_database import ConfigEdit
from wcache.core.events import LoadRequest
from wcache.core.loads import BlocksRequest, CapacityRecipe
from wcache.core.model import LoadPoint
from wcache.core.record import Precondition
from wcache.knobs.memory.mgr.osds import CephMemory
from wcache.knobs.memory.reading import MEMORY
from wcache.options import Options
from wcache.services.plans.planners import Parts, make_all

RELEASES = (16, 18, 20)
ANSWERS = Path(mgr_fakes.__file__).with_name("answers")


class Ceph:
    """A mgr of a release, by what it once answered."""

    module_name = "wcache"

    def __init__(self, release):
        path = ANSWERS / f"{release}.json"
        self.said = json.loads(path.read_text(encoding="utf-8"))
        self.version = f"ceph version {release}.2.1 (0) name (stable)"
        for name, releases in METHODS_ONLY.items():
            if release not in releases:
                setattr(self, name, None)

    def send_command(self, result, svc_type, svc_id, command, tag):
        assert svc_type in ("mon", "osd")
        said = self.said.get(watch.asked(svc_type, command)[1], "")
        edges = json.loads(command).get("var", "")
        if edges.startswith("bluestore_cache_age_bins_"):
            said = {edges: "1 2 6 24 120 720 0 0 0 0"}
        result.complete(0, said if isinstance(said, str) else json.dumps(said), "")

    def _call(self, name, *args):
        return self.said[" ".join([name, *args])]

    def get(self, data_name):
        return self._call("get", data_name)

    def list_servers(self):
        return self._call("list_servers")

    def get_counter(self, svc_type, svc_name, path):
        return self._points("get_counter", svc_type, svc_name, path)

    def get_unlabeled_counter(self, svc_type, svc_name, path):
        return self._points("get_unlabeled_counter", svc_type, svc_name, path)

    def _points(self, *asked):
        """What a young OSD has told once, twice."""
        points = self.said.get(" ".join(asked), {}).get(asked[-1], [])
        return {asked[-1]: [*points, *points]}

    def get_store(self, key):
        return self.get_store_prefix("").get(key)

    def get_store_prefix(self, key_prefix):
        return self._call("get_store_prefix", "")

    def get_mgr_id(self):
        return "x"

    def get_foreign_ceph_option(self, entity, key):
        return self._call("get_foreign_ceph_option", entity, key)

    def get_module_option_ex(self, module, key, default=None):
        return "cephadm"

    def remote(self, module_name, method_name, *args):
        raise ImportError(f"module {module_name} is off")


@pytest.fixture
def ceph(request, interface):  # noqa: F811
    return Ceph(request.param)


each_release = pytest.mark.parametrize("ceph", RELEASES, indirect=True)


def loads_of(ceph):
    return CephLoads(Osds(ceph), commits_min=lambda: 1, erasure_coded=lambda: True)


def measured(ceph, load, **more):
    request = LoadRequest(0, load, 1, 0.05, 1e6, **more)
    samples, error = answer_of(loads_of(ceph), request)
    assert error == ""
    return samples


@each_release
def test_the_maps_are_understood(ceph):
    slow = json.loads(ceph.said["get health"]["json"])
    # any check's detail, in the name of the one whose detail is read
    check = slow["checks"]["BLUESTORE_SLOW_OP_ALERT"] = slow["checks"].pop("OSD_FLAGS")
    assert check["detail"][0]["message"]
    check["detail"][0]["message"] = "     osd.1 observed slow operation indications in BlueStore"
    ceph.said["get health"]["json"] = json.dumps(slow)
    view = CephView(ceph, bench_empties_caches=False)
    found = view.cluster()
    assert {osd.device_class for osd in found.osds.values()} == {"hdd", "ssd"}
    assert all(osd.up and osd.uuid and osd.location for osd in found.osds.values())
    assert found.failure_types == {"osd"}
    assert Precondition.NO_SLOW_BLUESTORE in found.beside((1,))
    assert {*found.illness(found.osds)} == {*found.osds}, "noout is set on their host"
    assert found.missed == ()
    assert set(view.latencies()) == set(found.osds)
    assert not view.erasure_coded()
    assert set(CephSurroundings(ceph, {}).told()) == set(found.osds)
    assert CephSurroundings(ceph, {}).image() == ""


@each_release
def test_an_osds_memory_is_understood_and_leased(ceph):
    memory = CephMemory(ceph, is_up=lambda osd_id: True)
    reading = memory.read(0, 5)
    assert (reading.target_bytes, reading.source) == (2**31, "override")
    counters = reading.counters
    assert None not in (counters.onode_hits, counters.onode_misses)
    assert None not in (counters.buffer_hit_bytes, counters.buffer_miss_bytes)
    assert reading.outside
    assert memory.leased(0) == 2**31
    assert memory.lease(0, 2**31) == ""
    assert "instead of none" in memory.lease(0, None)
    assert sum(kinds["osd"] for kinds in memory.daemons().values()) == 3


def test_an_osd_that_was_upgraded_is_asked_anew_whether_it_follows_a_target():
    """Debian's 16 is built without tcmalloc, and 18 with it."""
    ceph = Ceph(16)
    ceph.said["osd heap (heapcmd prefix)"] = "not using tcmalloc"
    memory = CephMemory(ceph, is_up=lambda osd_id: True)
    assert memory.read(0, 5).tunable is False
    ceph.said["osd heap (heapcmd prefix)"] = "osd.0 tcmalloc heap stats"
    assert memory.read(0, 5).tunable is False
    assert memory.read(0, 9).tunable is True


def test_what_all_osds_use_is_read_by_one_look_at_the_cluster():
    ceph, looks = Ceph(20), []
    mgr = FakeMgr()
    seen = CephView(ceph, bench_empties_caches=False)

    class Counting:
        def cluster(self):
            looks.append(1)
            return seen.cluster()

    parts = Parts(ceph, mgr.engine, None, Counting(), mgr.surroundings, mgr.log)
    memory = make_all(parts)[MEMORY.name].watch
    memory.read()
    assert {*memory.by_osd()} == {0, 1, 2}
    assert len(looks) == 1


@each_release
def test_what_an_osd_counts_and_benches_is_understood(ceph):
    loads = loads_of(ceph)
    assert loads.work(0).transactions > 0
    assert set(loads._dump(0)) >= {"kv_sync_lat", "txc_commit_lat", "op_w_process_latency"}
    assert measured(ceph, LoadPoint.OSD_BENCH_DEPTH1, beside=(1,)).bytes_written == 4096
    assert measured(ceph, LoadPoint.OSD_TRAFFIC).unusable
    capacity = CapacityRecipe(True, forced=True)
    assert measured(ceph, LoadPoint.OSD_BENCH_CAPACITY, recipe=capacity).capacity.iops > 0
    points = []

    def series(osd_id, name):
        found = compat.points(watch.Mgr(ceph), osd_id, name)
        points.extend(found)
        return found

    CephTraffic(series).commits_per_s(0)
    assert len(points[0]) == 3


@each_release
def test_a_block_has_the_writes_and_the_reads_that_an_osd_counted(ceph):
    """A dump of one logger has no other, so that reads need all of them."""
    heard = queue.Queue()
    dumps = [key for key in ceph.said if key.startswith("osd perf dump")]

    def count():
        for key in dumps:
            for section in ceph.said[key].values():
                for counter in section.values():
                    if isinstance(counter, dict):
                        counter["avgcount"] += 10
                        if "sum" in counter:
                            counter["sum"] += 0.04

    send = ceph.send_command

    def counting(*args):
        count()
        send(*args)

    ceph.send_command = counting
    CephBlocks(Osds(ceph), lambda: 1).watch(
        "t", BlocksRequest((0,), (), 0.01, 1, 1e6), heard.put, lambda *end: heard.put(end)
    )
    (osd,) = heard.get(timeout=60).osds
    assert osd.commits > 0
    assert osd.reads > 0
    assert osd.moved is any("l_osd_recovery_push_queue_latency" in ceph.said[key].get("osd", {})
                            for key in dumps), "16 does not tell who gets data"


@each_release
def test_the_mons_answers_are_understood(ceph):
    config = CephConfig(
        ceph, ("osd_max_scrubs",), osds=Osds(ceph), orchestrator=CephSurroundings(ceph)
    )
    entries = {(entry.who, entry.name, entry.value) for entry in config.read()}
    assert {("osd.0", "osd_max_scrubs", "2"), ("h/cephadm", "l", "label")} <= entries
    assert config.osd_value(0, "osd_memory_target")
    config.write(ConfigEdit("osd.0", "osd_max_scrubs", "2", None))
    config.write(ConfigEdit("osd.0", "osd_max_scrubs", None, "2"))
    keys = CephKeyring(ceph)
    assert not keys.make("client.contracts", {"mgr": "allow r"})
    assert keys.make("client.contracts", {"mgr": "allow *"})
    del ceph.said["mon auth get (entity prefix)"]
    ceph.send_command = _no_such_key(ceph.send_command)
    assert keys.make("client.contracts", {"mgr": "allow r"})
    keys.remove("client.contracts")
    CephKeys(ceph).put_key("a", "b")
    CephKeys(ceph).put_key("a", None)
    assert isinstance(CephKeys(ceph).get_store_prefix(""), dict)
    disable_soon(ceph, logging.getLogger(), 0.0).join(60)
    done = queue.Queue()
    CephStops(ceph).ask([[0]], lambda *answer: done.put(answer))
    assert done.get(timeout=60) == (1, True)


@each_release
def test_what_the_web_page_asks_is_understood(ceph):
    host = CephWebHost(ceph, Options)
    assert host.dashboard_uri() == ""
    ceph.said["get mgr_map"]["services"]["dashboard"] = "https://192.0.2.1:8443/"
    assert host.dashboard_uri() == "https://192.0.2.1:8443/"
    # whatever the key holds: here it is no certificate
    stored = ceph.said["mon config-key get (key prefix)"]
    assert [json.loads(text) for text in host.dashboard_certificates()] == [stored] * 2
    assert host.certificate().source == "mgr/dashboard/x/crt and .../key"
    assert host.key() is None
    host.put_key("00")
    host.put_key(None)


def _no_such_key(send):
    def refusing(result, svc_type, svc_id, command, tag):
        if json.loads(command)["prefix"] == "auth get":
            result.complete(-errno.ENOENT, "", "no such key")
        else:
            send(result, svc_type, svc_id, command, tag)

    return refusing


def test_other_modules_are_called_as_they_can_be(interface):  # noqa: F811
    """Whatever they answer: `watch` holds the arguments to the contracts."""
    ceph, over = Ceph(20), lambda event_id: ("over", "")
    CephProgress(ceph).show({"c1": ("measures", 0.5)}, over)
    progress = CephProgress(ceph)
    progress.show({"c1": ("measures", 0.5)}, over)
    progress.show({}, over)
    progress.show({"c2": ("measures", 0.5)}, over)
    progress.show({}, lambda event_id: ("over", "stopped by an admin"))
    for method, *args in (
        ("get_hosts",), ("add_host_label", "h", "l"), ("remove_host_label", "h", "l"),
    ):
        with pytest.raises(CommandFailed, match="is off"):
            CephSurroundings(ceph).ask(method, *args)


def test_no_contract_is_there_that_nobody_needs(interface):  # noqa: F811
    """By what the tests above ask and read: one whose last user went goes too."""
    for release in RELEASES:
        for test in (
            test_the_maps_are_understood, test_an_osds_memory_is_understood_and_leased,
            test_what_an_osd_counts_and_benches_is_understood,
            test_a_block_has_the_writes_and_the_reads_that_an_osd_counted,
            test_the_mons_answers_are_understood, test_what_the_web_page_asks_is_understood,
        ):
            test(Ceph(release))
        for what in PARTS:
            test_what_real_clusters_say_of_single_osds_is_understood(release, what)
        test_slow_operations_and_pings_of_real_clusters_name_their_osds(release)
    view.test_pools_that_write_only_with_all_copies_are_named()
    view.test_an_osd_to_which_an_upmap_moves_a_pg_that_is_not_there_yet_gets_data([0, 5], 1, {1})
    run_time.test_what_an_osd_has_at_run_time_is_told_from_what_is_configured(
        {run_time.NAME: {"default": True, "override": True, "final": True}}, "true"
    )
    test_other_modules_are_called_as_they_can_be(None)
    wanted = {f"{owner}.{method}" for owner, methods in REMOTE.items() for method in methods}
    for name, args, paths in CALLS:
        key = " ".join([name, *args]) if name == "get" else name
        wanted |= {f"{key}/{path}" for path in paths if path} | {name}
    for whom, command, paths in COMMANDS:
        key = watch.asked(whom, json.dumps(command))[1]
        wanted |= {key, *(f"{key}/{path}" for path in paths)}
    wanted.remove("get_ceph_option")  # by module.py, which no unit test can import
    unused = sorted(wanted - watch.used)
    assert unused == [], "\n".join(unused)


def test_a_call_that_ceph_does_not_know_is_found():
    """What was once sent: MgrModule.send_command knows no service type `mgr`."""
    watch.asked("mgr", json.dumps({"prefix": "orch host label add", "hostname": "h", "label": "l"}))
    watch.asked("mon", json.dumps({"prefix": "config dump", "who": "osd.0"}))
    watch.Mgr(Ceph(20)).get("osd_map")["osds"][0].get("weights")
    with pytest.raises(AssertionError) as found:
        watch.check()
    assert str(found.value).partition(": ")[2].split("; ") == [
        f"{what}, which no contract has" for what in (
            "sends mgr orch host label add (hostname label prefix)",
            "sends mon config dump (prefix who)", "reads get osd_map/osds/[]/weights",
        )
    ]


EVERY = {0, 1, 2}
# By what was wrong on a real cluster, in vstart-tests/test_contracts.py: who is ill, and busy.
PARTS = {
    "OSD_FLAGS": (EVERY, set()),  # noout of the host, of a class and of one
    "OSD_NEARFULL": ({0}, set()),
    "OSD_BACKFILLFULL": ({0}, set()),
    "OSD_FULL": ({0}, set()),
    "an OSD is down": (EVERY, set()),  # the others hold what it held
    "a PG is backfilled": (set(), {0, 1}),
}


def recorded(release):
    """What the mgr of a release had of single OSDs, by what was wrong."""
    return json.loads((ANSWERS / f"parts-{release}.json").read_text(encoding="utf-8"))


def as_seen(part):
    there = view.Maps((view.bucket(-2, "vm", "host", 0, 1, 2),))
    there.maps["osd_map"].update(
        {key: part[key] for key in ("flags", "crush_node_flags", "device_class_flags")},
        osds=[{"uuid": "u", **row} for row in part["osds"]],
    )
    there.maps["health"] = {"json": json.dumps({"checks": part["checks"]})}
    there.maps["pg_summary"] = part["pg_summary"]
    return view.look(there)


@pytest.mark.parametrize("what", PARTS)
@pytest.mark.parametrize("release", RELEASES)
def test_what_real_clusters_say_of_single_osds_is_understood(release, what):
    found, (ill, busy) = as_seen(recorded(release)[what]), PARTS[what]
    assert set(found.illness(EVERY)) == ill
    assert found.busy == busy
    assert found.blocking == (), found.sick


@pytest.mark.parametrize("release", RELEASES)
def test_slow_operations_and_pings_of_real_clusters_name_their_osds(release):
    parts = recorded(release)
    slow = as_seen(parts["SLOW_OPS"])
    assert slow.slow_op_osds
    assert set(slow.illness(EVERY)) == slow.slow_op_osds
    for end in ("BACK", "FRONT"):
        assert set(as_seen(parts[f"OSD_SLOW_PING_TIME_{end}"]).illness(EVERY)) == EVERY
    alerted = as_seen(parts.get("BLUESTORE_SLOW_OP_ALERT", parts["SLOW_OPS"])).slow_osds
    assert [one.osd_id for one in alerted] == ([0] if release == 20 else [])
