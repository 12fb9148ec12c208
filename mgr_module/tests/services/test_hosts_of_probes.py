"""No OSD decides onto which host a probe is brought, from which image, or in which namespace."""

import errno
from dataclasses import replace

import pytest
from module_world import a_mgr, change_osd, ok, refused, said, with_osds_on
from wcache.deployment.places import OsdPlace

IMAGE = "quay.io/ceph/ceph:v20.2.4"
EVIL = "evil.example/x:1"
CONTAINERS = ("cephadm", "rook")
EVERY = {"all": True, "hosts_read": True}


def unread(mgr, **arguments):
    """The refusal of `agent add` where the hosts' names were not read; no line of it runs."""
    code, out, error = mgr.command("agent add", **arguments)
    assert (code, mgr.keys.held) == (-errno.EPERM, {})
    lines = out.splitlines()
    assert all(line.startswith("# ") for line in lines)
    if "hosts_read" in arguments:  # no word helps
        assert lines == []
    else:
        assert lines[-1].startswith("# next: ")
        assert lines[-1].endswith(" --hosts-read")
    return error


def contained(**told):
    """Two hosts with three OSDs; the mgr runs in a container, the OSDs tell what a test says."""
    mgr = a_mgr()
    mgr.surroundings.own_image = IMAGE
    mgr.surroundings.told_by_osd = {
        osd_id: OsdPlace(**told) for osd_id in mgr.view.state.osds
    }
    return mgr


@pytest.mark.parametrize("form", CONTAINERS)
def test_the_image_is_the_mgrs_own_whatever_osds_tell(form):
    mgr = contained(image=EVIL)
    for arguments in (EVERY, {"hostname": "h1"}):
        script = ok(mgr.command("agent add", run_by=form, **arguments))
        assert IMAGE in script
        assert "evil" not in script
    assert {item.image for item in mgr.inside.hosts.deployments.values()} == {IMAGE}


def test_no_osd_makes_a_cluster_one_of_rook_or_names_its_namespace():
    mgr = contained(namespace="evil")
    assert said(mgr, "agent add", hostname="h1")["form"] == "systemd"
    assert "evil" not in ok(mgr.command("agent add", hostname="h1", run_by="rook"))
    mgr.surroundings.own_namespace = "storage"
    script = ok(mgr.command("agent add", hostname="h1"))
    assert 'namespace: "storage"' in script
    assert "evil" not in script
    assert "kubectl -n storage delete" in ok(mgr.command("agent rm", hostname="h2"))


def test_with_an_orchestrator_only_its_hosts_get_probes():
    mgr = with_osds_on(contained(), "evil")
    mgr.surroundings.backend, mgr.surroundings.listed = "cephadm", ("h1", "h2", "mon1")
    for arguments in ({"all": True}, EVERY, {"all": True, "run_by": "systemd"}):
        data = said(mgr, "agent add", **arguments)
        assert [row["hostname"] for row in data["hosts"]] == ["h1", "h2"]
        assert "evil" not in data["script"]
        assert data["left_out"] == ["evil: `ceph orch host ls` does not have it"]
    assert "ceph orch host ls" in refused(mgr, "agent add", errno.ENOENT, hostname="evil")
    assert set(mgr.keys.held) == {"client.wcache.h1", "client.wcache.h2"}


def test_an_orchestrator_that_does_not_answer_is_waited_for_and_one_host_goes_by_ssh():
    mgr = contained()
    mgr.surroundings.backend, mgr.surroundings.silent = "cephadm", "cephadm is not loaded"
    for arguments in (EVERY, {"hostname": "h1"}):
        assert "not loaded" in refused(mgr, "agent add", errno.EAGAIN, **arguments)
    ok(mgr.command("agent add", hostname="h1", run_by="systemd"))


@pytest.mark.parametrize("form", [*CONTAINERS, "systemd"])
def test_without_an_orchestrator_all_hosts_need_the_word_that_they_were_read(form):
    mgr = with_osds_on(contained(), "evil")
    error = unread(mgr, all=True, run_by=form)
    assert "evil, h1, h2" in error
    assert "--hosts-read" in error
    assert mgr.keys.held == {}
    script = ok(mgr.command("agent add", run_by=form, **EVERY))
    top = script[: script.index("failed=")]
    for line in ("  evil: osd.3", "  h1: osd.0, osd.1", "  h2: osd.2"):
        assert line in top


def test_a_host_that_an_admin_has_named_needs_no_such_word():
    assert "the OSDs name these hosts" not in ok(contained().command("agent add", hostname="h1"))


@pytest.mark.parametrize(("told", "word"), [
    ({"image": EVIL}, "image"), ({"image": ""}, "image"), ({"namespace": "evil"}, "namespace"),
])
def test_osds_of_a_host_that_differ_in_what_they_tell_are_named_and_refused(told, word):
    mgr = contained(image=IMAGE)
    mgr.surroundings.told_by_osd[1] = replace(mgr.surroundings.told_by_osd[1], **told)
    for arguments in (EVERY, {"hostname": "h1"}):
        error = unread(mgr, **arguments)
        assert f"the OSDs of h1 differ in their {word}: osd.0 says" in error
        assert "osd.1 says" in error
    assert mgr.keys.held == {}
    ok(mgr.command("agent add", hostname="h2"))
    ok(mgr.command("agent add", hostname="h1", hosts_read=True))
    # an OSD that is down has told it long ago, and none that is up contradicts another then
    change_osd(mgr, 1, up=False)
    ok(mgr.command("agent add", **EVERY))


@pytest.mark.parametrize("moved", [{"hostname": "h2"}, {"failure_domain": "h2"}])
def test_an_osd_whose_metadata_and_crush_differ_is_named_and_refused(moved):
    mgr = contained()
    change_osd(mgr, 1, **moved)
    for arguments in (EVERY, {"hostname": "h2"}):
        error = unread(mgr, **arguments)
        assert "differ in the host that they run on" in error
        assert "osd.1 says" in error
    assert mgr.keys.held == {}


def test_crush_hosts_may_have_other_names_and_be_several_on_one_machine():
    mgr = contained()
    change_osd(mgr, 0, failure_domain="h1-ssd")
    change_osd(mgr, 1, failure_domain="h1-hdd")
    change_osd(mgr, 2, failure_domain="")
    assert len(said(mgr, "agent add", **EVERY)["hosts"]) == 2
