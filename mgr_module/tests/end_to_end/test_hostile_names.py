"""Names that OSDs, CRUSH maps and drives bring along pass through every surface as mere text."""

import json
from dataclasses import replace
from io import StringIO

import pytest
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import WB, WT, apply_plan, said, settled, start
from test_ceph_view import Maps, bucket
from test_goldens import LOOKS, LOOKS_NOW_AND_THEN
from test_metrics import LINE
from wcache.ceph.health import health_checks
from wcache.ceph.surroundings import CephSurroundings
from wcache.ceph.view import CephView
from wcache.core.cluster import IMAGE_CHARS_MAX, NAME_CHARS_MAX
from wcache.core.errors import NotFoundError
from wcache.core.model import DEV_NAME_CHARS_MAX, DRIVE_MODEL_CHARS_MAX, DriveModel
from wcache.web.app import metrics_text
from wcache_cli.evidence import gather
from wcache_cli.report_page import render
from wcache_cli.watch import follow
from wcache_probe.textfile import metrics_text as textfile
from web_world import HOSTILE, PLACES, Site

OSDS = 4
LONG = max(HOSTILE, key=len)
ALL_IN_TWO = ("".join(name for name in HOSTILE if name != LONG), LONG)
MORE_LOOKS = (
    ("explain", {"scope": "osd.0"}), ("explain", {"scope": "osd.3"}),
    ("campaign show", {"campaign_id": "c1"}), ("plan show", {"plan_id": "p1"}),
    ("rollout show", {"plan_id": "p1"}), ("agent add", {"all": True}),
)


def maps_of(name):
    """Maps in which every name of OSD and bucket is this one; hosts of 0 and 1 have probes."""
    maps = Maps([bucket(-1, name, "host", *range(OSDS)), bucket(-2, name, name, -1)], (), ())
    maps.maps["osd_map"]["osds"] = [
        {"osd": i, "uuid": f"u{i}", "up": 1, "in": 1} for i in range(OSDS)
    ]
    told = {
        "default_device_class": name, "ceph_version_short": name, "container_image": name,
        "pod_namespace": name, "device_ids": name, "devices": name,
        "bluestore_min_alloc_size": name,
    }
    maps.maps["osd_metadata"] = {
        str(i): {"hostname": f"h{i}" if i < 2 else name, **told} for i in range(OSDS)
    }
    maps.maps["osd_map_crush"]["devices"] = [{"id": 0, "class": name}]
    return maps


def a_cluster(name):
    """The module over such maps, with drives whose names are as bad as a report may be."""
    printable = "".join(char for char in name if char.isprintable())[:DRIVE_MODEL_CHARS_MAX]
    model = DriveModel(printable, printable, printable)
    drives = [replace(make.drive(f"sd{i}", i), drive_model=model) for i in range(2)]
    unsafe = make.drive(
        "sdz", 2, state=make.unsafe_drive().state, drive_model=model,
        dev_name=printable[:DEV_NAME_CHARS_MAX],
    )
    mgr = FakeMgr(("h0", (drives[0],)), ("h1", (drives[1], unsafe)))
    mgr.view.state = replace(
        CephView(maps_of(name), bench_empties_caches=False).cluster(), fsid=make.CLUSTER_ID
    )
    for probe in mgr.probes.values():
        probe.latency_ns = {WB: 20_000_000, WT: 4_000_000}
    mgr.report_all()
    start(mgr)
    settled(mgr)
    apply_plan(mgr)
    settled(mgr)
    return mgr


class Asked:
    """The cli's port over the module."""

    WORDS = (
        (("campaign", "show"), "campaign_id"), (("campaign", "record"), "record_id"),
        (("plan", "show"), "plan_id"), (("rollout", "show"), "plan_id"), (("history",), "limit"),
    )

    def __init__(self, mgr):
        self.mgr = mgr

    def ask(self, *words):
        for prefix, named in self.WORDS:
            if words[: len(prefix)] == prefix and len(words) == len(prefix) + 1:
                value = int(words[-1]) if named == "limit" else words[-1]
                return self._said(" ".join(prefix), **{named: value})
        return self._said(" ".join(words))

    def _said(self, prefix, **arguments):
        code, out, error = self.mgr.command(prefix, format="json", **arguments)
        if code:
            raise NotFoundError(error)
        return json.loads(out)


def texts(plain):
    """Every text in an answer, keys too."""
    if isinstance(plain, dict):
        yield from plain
        plain = list(plain.values())
    if isinstance(plain, list):
        for item in plain:
            yield from texts(item)
    if isinstance(plain, str):
        yield plain


def surfaces(mgr):
    """(surface, its text) of everything that shows names."""
    for prefix, arguments in (*LOOKS, *LOOKS_NOW_AND_THEN, *MORE_LOOKS):
        for form in ("plain", "json-pretty", "yaml"):
            code, out, error = mgr.command(prefix, format=form, **arguments)
            yield f"{prefix} {form}", out + error
        if code == 0:
            answer = said(mgr, prefix, **arguments)
            yield f"{prefix} as a program reads it", "\n".join(texts(answer))
    checks = health_checks(mgr.views.findings(), mgr.views.headlines())
    yield "health", "\n".join(texts(checks))
    yield "metrics", metrics_text(
        said(mgr, "status"), said(mgr, "campaign ls"), said(mgr, "plan ls")
    )
    yield "textfile", textfile([
        drive for probe in mgr.probes.values() for drive in probe.report().drives
    ])
    yield "report", render(gather(Asked(mgr)), now_s=1.7e9)
    site = Site(mgr)
    for path in (*PLACES, "/campaigns/c1", "/experiments/c1.0.0", "/rollouts/p1"):
        yield f"page {path}", site.page(path)
    for name in ("c1", "p1"):
        out = StringIO()
        follow(Asked(mgr), name, out, interval_s=1.0, pause=lambda seconds: None)
        yield f"watch {name}", out.getvalue()
    yield "log", "\n".join(line for _, line in mgr.log_lines)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL_IN_TWO, ids=range(len(ALL_IN_TWO)))
def test_a_hostile_name_is_text_on_every_surface(name):
    mgr = a_cluster(name)
    told = dict(surfaces(mgr))
    assert mgr.exceptions == []
    for surface, text in told.items():
        assert text, surface
        bad = {char for char in text if not char.isprintable() and char != "\n"}
        assert not bad, (surface, bad)
        assert len(text) < 100_000, (surface, len(text))
        assert max(map(len, text.splitlines())) < 4000 or surface.startswith("report"), surface
        if surface.startswith(("page", "report")):
            assert "<script>alert" not in text, surface
            assert "<img" not in text, surface
        if surface in ("metrics", "textfile"):
            lines = [line for line in text.splitlines() if not line.startswith("# ")]
            assert all(LINE.fullmatch(line) for line in lines), surface
    shown = said(mgr, "recommend")["recommendations"][0]
    assert shown["device_class"][:8] == name[:8]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_what_osds_tell_is_bounded_where_it_comes_in(name):
    state = CephView(maps_of(name), bench_empties_caches=False).cluster()
    for osd in state.osds.values():
        places = [text for level in osd.location for text in level]
        for text in (osd.hostname, osd.device_class, osd.ceph_version, *places):
            assert text.isprintable()
            assert 0 < len(text) <= NAME_CHARS_MAX
        assert osd.min_alloc_bytes == 0
    for place in CephSurroundings(maps_of(name)).told().values():
        assert (place.image + place.namespace).isprintable()
        assert len(place.image) <= IMAGE_CHARS_MAX


def test_a_name_with_something_hidden_is_not_that_of_an_honest_host():
    hidden = CephView(maps_of("h1\u202e\n"), bench_empties_caches=False).cluster()
    assert hidden.osds[2].hostname == "h1??"
    long = CephView(maps_of("h" * 300), bench_empties_caches=False).cluster()
    assert long.osds[2].hostname == "h" * 252 + "?"
    assert hidden.osds[1].hostname == "h1"


@pytest.mark.parametrize("odd", [None, 7, ["h1"], {"h": 1}])
def test_what_is_no_text_is_no_name(odd):
    maps = maps_of("h")
    maps.maps["osd_metadata"]["2"]["hostname"] = odd
    assert CephView(maps, bench_empties_caches=False).cluster().osds[2].hostname == ""


def test_a_drive_model_longer_than_any_drive_has_is_refused():
    model = DriveModel("x" * (DRIVE_MODEL_CHARS_MAX + 1), "", "")
    mgr = FakeMgr(("h0", (replace(make.drive("sda", 0), drive_model=model),)))
    mgr.report_all()
    assert said(mgr, "drive ls")["drives"] == []
    assert any("is longer than 128 characters" in line for _, line in mgr.log_lines)
