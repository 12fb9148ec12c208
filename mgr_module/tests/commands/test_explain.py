"""`explain` goes from a verdict's words down to the raw pairs, and never takes two for one."""

from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import a_mgr, measured, ok, said, start
from wcache.commands import explain_view
from wcache.core.model import DriveModel
from wcache.engine.storing.archive import RECORD


@pytest.mark.slow
def test_a_drive_model_of_several_words_needs_no_quotes_and_shows_all_its_drives():
    mgr = measured()
    for scope, osd_ids in (
        (["model:ACME", "HD1", "1.0"], {0, 1, 2}), ("model:acme hd1 1.0", {0, 1, 2}),
        ("model:HD1", {0, 1, 2}), ("cluster", {0, 1, 2}), ("host:h2,class:hdd", {2}),
    ):
        (row,) = said(mgr, "explain", scope=scope)["explained"]
        assert {result["osd_id"] for result in row["measured"]} == osd_ids


def test_an_osd_is_explained_by_its_drive_model_where_it_was_not_measured_itself():
    mgr = a_mgr()
    start(mgr, scope="osd.0")
    mgr.settle()
    (row,) = said(mgr, "explain", scope="osd.1")["explained"]
    assert row["measured"] == []
    assert row["drive_model"]["model"] == "HD1"


def test_what_is_not_measured_says_how_to_measure_it_and_what_is_not_known_what_is():
    mgr = FakeMgr(("h1", (make.drive("sda", 0), replace(
        make.drive("sdb", 1), drive_model=DriveModel("", "B 2", "")
    ))))
    mgr.report_all()
    for scope in ("osd.1", "model:B 2"):
        assert mgr.command("explain", scope=scope)[2] == (
            f"nothing is measured of {scope} yet: measure it: `ceph wcache try`"
        )
    assert "drive models are: ACME HD1 1.0, B 2" in mgr.command("explain", scope="model:Z")[2]


@pytest.mark.slow
def test_samples_that_are_gone_are_said_to_be_gone():
    mgr = measured()
    for record_id in mgr.inside.archive.names(RECORD):
        mgr.inside.archive.drop(RECORD, record_id)
    assert "its raw pairs are not kept" in ok(mgr.command("explain", scope="osd.0"))


@pytest.mark.slow
def test_an_open_verdict_names_what_would_settle_it_and_recommend_follows_it():
    mgr = a_mgr()
    mgr.probes["h1"].latency_ns = mgr.probes["h2"].latency_ns
    start(mgr, loads="timer")
    mgr.settle()
    (row,) = said(mgr, "recommend")["recommendations"]
    (step,) = row["settled_by"]
    assert step["command"] == "ceph wcache campaign start --scope=class:hdd --loads=depth1"
    assert ok(mgr.command("recommend")).endswith(f"next: {step['command']} --dry-run")
    assert ok(mgr.command("explain", scope="class:hdd")).endswith(
        f"next: {step['command']} --dry-run"
    )


@pytest.mark.slow
def test_a_scope_of_too_many_drive_models_is_to_be_narrowed(monkeypatch):
    mgr = measured()
    monkeypatch.setattr(explain_view, "EXPLAINED_MAX", 0)
    assert mgr.command("explain", scope="class:hdd")[2] == (
        "scope class:hdd has 1 drive models, 0 are the most: narrow the scope, as model:PART or "
        "osd.N"
    )
