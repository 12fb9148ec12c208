"""A scope is read in one way, spelled in one way, and covers what all of its terms name."""

from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from wcache.core.errors import MalformedError
from wcache.core.experiment.campaign import candidates
from wcache.core.scope import Scope, parse_scope
from wcache.knobs.knob import Domain, within


@pytest.mark.parametrize(
    ("text", "drives", "osds"),
    [
        ("cluster", 20, 20), ("host:h1", 4, 4), ("osd.7", 1, 1), ("class:hdd", 20, 20),
        ("class:ssd", 0, 0), ("model:hd1", 20, 20), ("model:HD9", 0, 0), ("host:h9", 0, 0),
        ("host:h1,class:hdd", 4, 4), ("osd.7,host:h1", 1, 1), ("osd.7,host:h2", 0, 0),
        ("model:ACME HD1,host:h1,class:hdd", 4, 4), ("model:HD9,host:h1", 0, 0),
    ],
)
def test_it_covers_what_fits_all_of_its_terms(text, drives, osds):
    reports, cluster = make.fleet()
    scope = parse_scope(text)
    assert len(candidates(reports, cluster, scope)) == drives
    assert len(scope.osds(reports, cluster)) == osds
    # where no host has reported its drives
    assert len(scope.osds((), cluster)) == (0 if "model" in text else osds)


@pytest.mark.parametrize(("text", "covered"), [
    ("class:hdd", True), ("class:ssd", True), ("class:hdd,osd.1", True), ("class:ssd,osd.2", True),
    ("class:ssd,osd.1", False), ("osd.2", True), ("class:nvme", False),
])
def test_class_and_osd_are_of_the_same_osd_of_a_shared_drive(text, covered):
    cluster = make.cluster([make.osd(1, "h1"), make.osd(2, "h1", device_class="ssd")])
    drive = make.drive("sda", 1)
    shared = replace(drive, uses=(*drive.uses, replace(drive.uses[0], osd_id=2)))
    report, scope = make.report("h1", shared), parse_scope(text)
    assert scope.covers(report, shared, cluster) is covered
    assert within(Domain(("host h1",), report, (shared,)), scope, cluster) is covered


@pytest.mark.parametrize(
    ("text", "scope", "spelled"),
    [
        (None, Scope(), "cluster"), ("cluster", Scope(), "cluster"),
        ("osd.0", Scope(osd_id=0), "osd.0"),
        ("model:A, B,host:h1", Scope(hostname="h1", drive_model="A, B"), "host:h1,model:A, B"),
        ("osd.007,class:hdd", Scope("hdd", osd_id=7), "class:hdd,osd.7"),
    ],
)
def test_it_is_read_as_it_is_spelled_in_one_way(text, scope, spelled):
    assert parse_scope(text) == parse_scope(str(scope)) == scope
    assert str(scope) == spelled


@pytest.mark.parametrize("text", [
    "", "all", "host:", "osd.", "osd.-1", "osd:1", "class:\n", "osd.1x", "host:" + "h" * 254,
    "osd." + "1" * 20, "rack:1", "cluster,host:h1", "host:h1,host:h2", "osd.1,osd.2", "h1", "12",
])
def test_what_is_no_scope_is_refused_with_what_is_one(text):
    with pytest.raises(MalformedError) as caught:
        parse_scope(text)
    assert caught.value.line() == (
        f"scope {text[:60]!r} is not known here: use cluster, class:NAME, host:NAME, osd.N or "
        "model:PART, or several of them with commas between, where all must fit"
    )


@pytest.mark.parametrize(("takes", "use"), [
    (("cluster", "class"), "cluster or class:NAME"), (("class",), "class:NAME"),
])
@pytest.mark.parametrize("text", [
    "osd.1", "host:h1", "model:HD1", "class:hdd,host:h1", "cluster:x",
])
def test_a_command_names_the_terms_that_it_goes_by(text, takes, use):
    assert parse_scope("class:hdd", takes) == Scope("hdd")
    with pytest.raises(MalformedError) as caught:
        parse_scope(text, takes)
    assert caught.value.line() == f"scope {text!r} is not known here: use {use}"


def test_the_whole_cluster_is_a_scope_of_those_that_take_it():
    assert parse_scope("cluster") == parse_scope("cluster", ("cluster", "class")) == Scope()
    with pytest.raises(MalformedError):
        parse_scope("cluster", ("class",))
