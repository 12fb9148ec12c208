"""A report speaks for the OSDs of one host of the map, whatever its key and they are called."""

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_world import GIB, watch
from memory_world import a_mgr as a_mgr_with_memory
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from mgr_fakes.probe import FakeProbe
from module_world import a_mgr, change_osd, ok, report_of, said, start
from wcache.core import codec
from wcache.core.fleet.claims import Age, believed, host_names_of, speaking_for, words
from wcache.core.hardware import HostMemory
from wcache.core.scope import Scope
from wcache.services.guards import unseen


def test_a_host_speaks_for_no_osd_of_a_host_that_speaks_for_itself():
    mgr = a_mgr()
    assert report_of(mgr, "h2", make.drive("sdc", 2), make.drive("sdx", 0)) == ""
    forecast = said(mgr, "campaign start", dry_run=True, loads="depth1")["forecast"]
    assert forecast["osds_emptied"] == []
    start(mgr)
    assert {(m.spec.hostname, m.spec.domain_id) for m in mgr.inside.runs.values()} == {
        ("h1", "domain-sda"), ("h1", "domain-sdb"), ("h2", "domain-sdc"),
    }


def uses_believed(cluster, *reports):
    """By host: the OSDs for which its report counts."""
    return {
        report.hostname: sorted(use.osd_id for drive in report.drives for use in drive.uses)
        for report in believed(reports, cluster)
    }


def test_a_report_speaks_for_the_osds_of_one_host_of_the_map():
    cluster = make.cluster([
        make.osd(0, "h1"), make.osd(1, "h2"), make.osd(2, "h3"), make.osd(3, "h3"),
        make.osd(4, ""),
    ])

    def counts(hostname, *osd_ids):
        drives = [make.drive(f"sd{osd_id}", osd_id) for osd_id in osd_ids]
        h2 = make.report("h2", make.drive("sda", 1))
        return uses_believed(cluster, make.report(hostname, *drives), h2)[hostname]

    assert counts("h1", 0, 1, 2, 3) == [0]
    assert counts("h1", 2, 3) == []
    # an OSD of which the map does not say yet, or not any more, where it runs
    assert counts("h1", 0, 4, 99) == [0, 4, 99]
    # a key whose name has the domain beside
    assert counts("h3.example", 2, 3) == [2, 3]
    assert counts("h3.example", 0, 1, 2, 3) == [2, 3]
    # whatever it reports
    assert counts("drained", 2, 3) == []
    (refused,) = [
        drive.toggle_refusal for report in believed(
            [make.report("h1", make.drive("sda", 0), make.drive("sdx", 2))], cluster
        ) for drive in report.drives if drive.toggle_refusal
    ]
    assert refused == "osd.2 runs on h3, and this report speaks for h1 alone"


HOSTS = st.lists(st.sampled_from(["h1", "h2", "h1.a", "h1.b", "h2.a", "H1"]), unique=True)


KEYS = st.lists(
    st.sampled_from(["h1", "h2", "h1.a", "h1.b", "h2.a", "x", "h1.a.b"]), unique=True
)


@given(HOSTS, KEYS, st.dictionaries(st.sampled_from(["x", "h1"]), st.sampled_from(["h2", "z"])))
def test_every_host_of_the_map_has_one_key_at_most_and_its_own_comes_first(hosts, keys, names):
    cluster = replace(
        make.cluster([make.osd(i, name) for i, name in enumerate(hosts)]), host_names=names
    )
    found = speaking_for(keys, cluster)
    assert set(found) == set(keys)
    spoken_for = [host for host in found.values() if host]
    assert len(spoken_for) == len(set(spoken_for))
    assert set(spoken_for) <= set(hosts)
    for key, host in found.items():
        assert host == key or key not in hosts
        plain = host.partition(".")[0].lower() == key.partition(".")[0].lower()
        assert not host or plain or names[key] == host


@pytest.mark.parametrize(("hosts", "keys", "speaks_for"), [
    (["n1.example.org"], ["n1"], ["n1.example.org"]),
    (["n1"], ["n1.example.org"], ["n1"]),
    (["node-1-example-org"], ["node.1.example.org"], [""]),
    (["n1.a", "n1.b"], ["n1"], [""]),  # which of the two?
    (["n1"], ["n1.a", "n1.b"], ["", ""]),
    (["n1.a"], ["n1.b"], [""]),
    (["n1", "n1.a"], ["n1.a"], ["n1.a"]),
    (["n1"], ["n1", "n1.a"], ["n1", ""]),
    (["n10"], ["n1"], [""]),
    ([""], ["n1", ""], ["", ""]),
])
def test_a_domain_is_the_only_difference_that_needs_no_admins_word(hosts, keys, speaks_for):
    cluster = make.cluster([make.osd(i, name) for i, name in enumerate(hosts)])
    assert speaking_for(keys, cluster) == dict(zip(keys, speaks_for))


@pytest.mark.parametrize("keys", [["h7"], [f"h{i}.example.org" for i in range(5000)]])
def test_the_names_of_a_large_fleet_are_compared_in_a_moment(keys):
    """Each look at what there is does it; most hosts have no probe yet, or another name."""
    cluster = make.cluster([make.osd(i, f"h{i}") for i in range(5000)])
    began_s = time.thread_time()
    found = speaking_for(keys, cluster)
    assert time.thread_time() - began_s < 1.0  # each with each: 40 s
    assert found == {key: key.partition(".")[0] for key in keys}


def test_an_admin_says_which_host_a_key_of_another_name_is_on_and_never_of_two():
    osds = [make.osd(0, "node.1"), make.osd(1, "h1")]
    names = host_names_of(" node-1 = node.1 , spare=node.1,h9=nowhere, nothing, =x, h1=node.1")
    cluster = replace(make.cluster(osds), host_names=names)
    found = speaking_for(["node-1", "spare", "h9", "h1"], cluster)
    assert found == {"node-1": "node.1", "spare": "", "h9": "", "h1": "h1"}
    report = make.report("node-1", make.drive("sda", 0), make.drive("sdb", 1))
    assert uses_believed(cluster, report)["node-1"] == [0]


def named_otherwise(names=""):
    """A host of which the probe's key has another name than Ceph's map."""
    mgr = FakeMgr(("probe-a", (make.drive("sda", 0),)), ("h2", (make.drive("sdb", 1),)))
    mgr.view.state = replace(
        make.cluster([make.osd(0, "node1.ex.org"), make.osd(1, "h2")]),
        host_names=host_names_of(names),
    )
    mgr.report_all()
    return mgr


@pytest.mark.parametrize(("names", "set_to"), [
    ("", "probe-a=node1.ex.org"), ("b=h9", "b=h9,probe-a=node1.ex.org"),
    ("probe-a=h8", "probe-a=node1.ex.org"),
])
def test_a_key_of_another_name_than_its_host_is_named_before_a_second_probe(names, set_to):
    mgr = named_otherwise(names)
    naming = f"`ceph config set mgr mgr/wcache/host_names {set_to}`"
    (line,) = [item for item in unseen(mgr.engine.world(), Scope()) if "node1" in item]
    assert line.startswith("node1.ex.org: no probe has reported it, and the key probe-a reports ")
    assert naming in line
    (row,) = said(mgr, "drive ls", scope="host:probe-a")["drives"]
    text = str(row)
    assert 0 < text.index(naming) < text.index("ceph wcache agent add node1.ex.org")
    assert unseen(named_otherwise(set_to).engine.world(), Scope()) == []


@pytest.mark.parametrize(("age", "told"), [
    (Age(), ""), (Age(unknown=2), "before the last change or start (2 hosts)"),
    (Age(5.0, 5.0, "h1"), "5 s ago"),
    (Age(5.0, 5.0, "h1", 1), "5 s ago; 1 host not since the last change or start"),
])
def test_when_drives_were_reported_is_said_so_that_it_goes_on_from_that_word(age, told):
    assert words(codec.to_plain(age)) == told


def test_a_long_list_of_names_is_not_printed_as_advice():
    mgr = named_otherwise(",".join(f"key-{i}=host-{i}" for i in range(50)))
    (line,) = unseen(mgr.engine.world(), Scope())
    assert line.endswith("add `probe-a=node1.ex.org` to mgr/wcache/host_names")


@pytest.mark.parametrize("up", [True, False])
def test_a_key_of_no_host_of_the_map_gives_no_memory_to_a_host_without_a_probe(up):
    mgr = a_mgr_with_memory(hosts=2, ram_bytes=int(7.8 * GIB), memory_floor=GIB)
    ok(mgr.command("agent rm", hostname="h1", host_is_gone=True))
    del mgr.probes["h1"]
    if not up:  # one that has told of no host since the mgr started
        change_osd(mgr, 2, up=False, hostname="", failure_domain="h1")
    claimed = (make.drive("sdx", 2), make.drive("sdy", 3))
    mgr.probes["drained"] = FakeProbe(mgr.send, "drained", claimed)
    mgr.probes["drained"].memory = HostMemory(4096 * GIB, 4000 * GIB)
    mgr.report_all()
    watch(mgr)
    known = {row["host"]: row["ram_bytes"] for row in said(mgr, "memory status")["hosts"]}
    assert known == {"h0": int(7.8 * GIB), "h1": None}
    rows = said(mgr, "drive ls", scope="host:drained")["drives"]
    assert [row for row in rows if "ceph wcache agent add h1" in str(row)]


@pytest.mark.parametrize("claims", [False, True])
def test_no_key_of_another_host_decides_the_memory_of_a_host_without_a_probe(claims):
    mgr = a_mgr_with_memory(hosts=2, ram_bytes=int(7.8 * GIB), memory_floor=3 * GIB)
    ok(mgr.command("agent rm", hostname="h1", host_is_gone=True))
    del mgr.probes["h1"]
    own = mgr.probes["h0"].drives.values()
    claimed = [make.drive("sdx", 2), make.drive("sdy", 3)] if claims else []
    assert report_of(mgr, "h0", *own, *claimed) == ""
    watch(mgr)
    known = {row["host"]: row["ram_bytes"] for row in said(mgr, "memory status")["hosts"]}
    assert known == {"h0": int(7.8 * GIB), "h1": None}
    plan = said(mgr, "plan", knob="memory")
    assert {e["who"].split("/")[1] for c in plan["changes"] for e in c["edits"]} == {"host:h0"}
    assert [line for line in plan["left_alone"] if "h1" in line and "no probe" in line]
