"""An admin's word for a drive model's power-loss protection: what it lifts, and how it goes."""

import pytest
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import WB, WT, ok, refused, said, settled, taken_over, unwrapped
from wcache.core.model import PlpHint

FAST = {"code": "WCACHE_FLUSH_TOO_FAST", "detail": "0.01 ms for a disk"}
REASON = "data sheet, page 3"


def a_mgr():
    """One drive, faster in write back, whose flushes look too fast."""
    hint = PlpHint(True, "VPD page 86h: NV_SUP")
    mgr = FakeMgr(("h1", (make.drive("sda", 0, plp_hints=(hint,)),)))
    mgr.probes["h1"].latency_ns = {WB: 500_000, WT: 5_000_000}
    mgr.report_all()
    return mgr


def measured():
    mgr = a_mgr()
    mgr.analysis.findings = [FAST]
    said(mgr, "campaign start", loads="depth1", accept_cost=True)
    settled(mgr)
    return mgr


def model(mgr):
    (row,) = said(mgr, "drive-model ls")["drive_models"]
    return row["drive_model"]


def advice(mgr):
    (row,) = said(mgr, "recommend")["recommendations"]
    return row


def test_trust_is_audited_and_outlasts_a_failover():
    mgr = measured()
    name = model(mgr)
    said(mgr, "drive-model trust", drive_model=name, reason=REASON)
    taken_over(mgr)
    assert advice(mgr)["verdict"] == "write back"
    (row,) = said(mgr, "drive-model ls")["drive_models"]
    assert row["plp_trusted"]["reason"] == REASON
    said(mgr, "drive-model trust", take_back=True, drive_model=name)
    taken_over(mgr)
    assert advice(mgr)["verdict"] == "insufficient data"
    lines = [h["text"] for h in said(mgr, "history")["history"] if h["who"] == "admin"]
    assert f"power-loss protection trusted: {REASON}" in lines
    assert "power-loss protection no longer trusted" in lines


def test_trust_that_the_mons_refuse_says_so_and_is_stored_later():
    mgr = a_mgr()
    mgr.store.fails = lambda key: True
    answer = said(mgr, "drive-model trust", drive_model=model(mgr), reason=REASON)
    assert answer["stored"] is False
    mgr.store.fails = lambda key: False
    mgr.now_s += 20.0
    mgr.engine.tick()
    mgr.engine.tick()
    taken_over(mgr)
    (row,) = said(mgr, "drive-model ls")["drive_models"]
    assert row["plp_trusted"] is not None


def test_trust_is_for_one_known_drive_model_with_a_reason():
    mgr = a_mgr()
    name = model(mgr)
    for words, model_name, reason in (
        ("there is no drive model 'other'", "other", REASON), ("drive model ''", "", REASON),
        ("a reason is missing", name, "   "), ("longer than 200", name, "x" * 201),
        ("printable", name, "a\nb"), ("reason is missing", name, ""),
    ):
        assert words in refused(
            mgr, "drive-model trust", drive_model=model_name, reason=reason
        )


def test_the_column_says_where_the_hint_comes_from():
    mgr = a_mgr()
    (drive,) = said(mgr, "drive ls")["drives"]
    assert drive["plp"] == "hinted: VPD page 86h: NV_SUP"
    assert "PLP" in ok(mgr.command("drive ls")).splitlines()[0]
    assert "hinted: VPD page 86h: NV_SUP" in ok(mgr.command("drive-model ls"))
    said(mgr, "drive-model trust", drive_model=model(mgr), reason=REASON)
    (drive,) = said(mgr, "drive ls")["drives"]
    assert drive["plp"] == "trusted"
    text = unwrapped(ok(mgr.command("drive-model ls")))
    assert REASON in text
    assert "and hinted: VPD page 86h: NV_SUP" in text


def test_a_drive_without_a_hint_is_unknown_and_not_unprotected():
    mgr = FakeMgr(("h1", (make.drive("sda", 0),)))
    mgr.report_all()
    (row,) = said(mgr, "drive-model ls")["drive_models"]
    assert (row["plp"], row["plp_hints"], row["plp_trusted"]) == ("unknown", [], None)


@pytest.mark.parametrize("command", ["drive-model ls", "drive ls"])
def test_the_views_work_before_any_probe_was_heard(command):
    assert "no probe has reported" in ok(FakeMgr().command(command))
