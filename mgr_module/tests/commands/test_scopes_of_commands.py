"""Each command that can be narrowed reads the same scopes, and refuses them in the same words."""

import errno
from types import SimpleNamespace

import pytest
from mgr_fakes import builders as make
from module_world import a_mgr, said
from wcache.commands.recommend import recommended_in
from wcache.core.model import DriveModel
from wcache.core.scope import parse_scope

OF_CLASS = "use cluster or class:NAME"
OF_HOST = (
    "use cluster, class:NAME or host:NAME, or several of them with commas between, where all must "
    "fit"
)


@pytest.mark.parametrize(("scope", "osds"), [
    ("osd.1", {1}), ("model:hd1,host:h2", {2}), ("class:hdd", {0, 1, 2}), ("host:h1", {0, 1}),
])
def test_drives_are_listed_by_scope(scope, osds):
    rows = said(a_mgr(), "drive ls", scope=scope)["drives"]
    assert {osd_id for row in rows for osd_id in row["osds"]} == osds


@pytest.mark.parametrize(("prefix", "scope", "number", "error"), [
    ("auto", "host:h1", errno.EINVAL, f"scope 'host:h1' is not known here: {OF_CLASS}"),
    ("mclock show", "osd.0", errno.EINVAL, f"scope 'osd.0' is not known here: {OF_CLASS}"),
    ("memory recommend", "osd.0", errno.EINVAL, f"scope 'osd.0' is not known here: {OF_HOST}"),
    ("memory trial start", "cluster", errno.EINVAL,
     "scope 'cluster' is not known here: use class:NAME"),
    ("memory trial start", "host:h1", errno.EINVAL,
     "scope 'host:h1' is not known here: use class:NAME"),
    ("memory status", "host:h9", errno.ENOENT,
     "no OSD is in scope host:h9: see `ceph osd tree`"),
    ("recommend", "osd.99", errno.ENOENT, "there is no osd.99: see `ceph osd ls`"),
    ("plan", "osd.99", errno.ENOENT, "there is no osd.99: see `ceph osd ls`"),
    ("plan", "host:nope", errno.ENOENT, "there is no host 'nope': use one of h1, h2"),
    ("plan", "model:nope", errno.ENOENT,
     "there is no drive model with 'nope' in its name: use a part of one of ACME HD1 1.0"),
    ("drive ls", "model:HD9", errno.ENOENT,
     "no drive is in scope model:HD9: see `ceph wcache drive ls`"),
])
def test_a_scope_that_does_not_fit_is_refused(prefix, scope, number, error):
    more = {"mode": "recommend"} if prefix == "auto" else {}
    assert a_mgr().command(prefix, scope=scope, **more) == (-number, "", error)


@pytest.mark.parametrize("prefix", ["plan", "try", "history", "drive ls", "drive reload"])
def test_an_empty_scope_is_not_the_whole_cluster(prefix):
    code, _, error = a_mgr().command(prefix, scope="")
    assert code == -errno.EINVAL
    assert error.startswith("scope '' is not known here: use cluster, class:NAME, ")


@pytest.mark.parametrize(("scope", "names"), [
    ("cluster", "here gone other"), ("host:h1", "here gone"), ("host:h2", "here"),
    ("osd.77", "gone"), ("osd.7", "here"), ("class:ssd", "other"), ("model:lost", "gone"),
    ("host:h1,model:HD1", "here"),
])
def test_a_recommendation_is_in_a_scope_by_its_drives_or_by_those_that_were_measured(scope, names):
    reports, cluster = make.fleet()

    def item(name, device_class, model, *record_ids):
        return SimpleNamespace(
            name=name, device_class=device_class, drive_model=model, record_ids=record_ids
        )

    world = SimpleNamespace(
        recommendations=[
            item("here", "hdd", make.MODEL), item("gone", "hdd", DriveModel("", "LOST", ""), "r1"),
            item("other", "ssd", make.MODEL),
        ],
        cluster=cluster, reports={report.hostname: report for report in reports},
        results={"r1": SimpleNamespace(hostname="h1", osd_id=77)},
    )
    assert " ".join(one.name for one in recommended_in(world, parse_scope(scope))) == names
