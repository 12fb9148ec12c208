"""Verdicts that travel: out without names, in as foreign, confirmed sooner, never decisive."""

import errno
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import measured, ok, refused, said
from test_repeated import measured as drive
from wcache.core import codec
from wcache.core.errors import WcacheError
from wcache.core.verdict.foreign import BYTES_MAX, Evidence, checksum, export, parse
from wcache.core.verdict.recommend import recommend

ELSEWHERE = "11111111-2222-4333-8444-555555555555"
NOW_S = 2_000_000.0


def exported(**changes):
    """A file of another cluster that has measured the same drive model."""
    mgr = measured()
    file = codec.loads(
        Evidence, ok(mgr.command("evidence export")), bytes_max=BYTES_MAX, what="file"
    )
    return signed(replace(file, cluster=ELSEWHERE, **changes))


def signed(file):
    return replace(file, sha256=checksum(file))


FILE = exported()


def fresh():
    mgr = FakeMgr(("h1", (make.drive("sda", 0), make.drive("sdb", 1))),
                  ("h2", (make.drive("sdc", 2), make.drive("sdd", 3))))
    mgr.report_all()
    return mgr


def imported(file=FILE):
    mgr = fresh()
    answer = json.loads(ok(mgr.command("evidence import", codec.dumps(file), format="json")))
    assert answer["changed"] is True
    return mgr


@pytest.mark.slow
def test_an_export_names_no_host_no_osd_and_no_drive():
    text = ok(measured().command("evidence export"))
    for name in ('"h1', ' h1', "h2", "wwn-", "domain-", "osd."):
        assert name not in text
    assert json.loads(text)["verdicts"][0]["verdict"] == "write through"


@pytest.mark.slow
def test_what_was_exported_is_read_again_in_whatever_layout():
    text = ok(measured().command("evidence export"))
    assert parse(text, NOW_S) == parse(json.dumps(json.loads(text), sort_keys=True), NOW_S)


@pytest.mark.parametrize("others", [
    # one of two is decided, the other may be like it
    [drive("c1.1", 1, 1.25, pairs=8, sd=0.3, drive_id="d2", hostname="h2")],
    # three so far apart that the mean may be anything
    [drive(f"c1.{n}", 1, ratio, pairs=8, drive_id=f"d{n}", hostname="h2")
     for n, ratio in ((1, 1.0), (2, 3000.0))],
])
def test_whatever_was_decided_by_drives_that_differ_is_read_again(others):
    found = [drive("c1.0", 1, 1.5, drive_id="d1"), *others]
    file = export(ELSEWHERE, recommend(found), found, NOW_S)
    assert parse(codec.dumps(file), NOW_S) == file


def test_an_imported_verdict_is_shown_as_foreign_and_nothing_is_planned_by_it():
    mgr = imported()
    answer = said(mgr, "recommend")
    assert answer["recommendations"] == []
    (row,) = answer["foreign"]
    assert (row["verdict"], row["cluster"]) == ("write through", ELSEWHERE)
    assert not row["measured_here"]
    assert "foreign (decides nothing)" in ok(mgr.command("recommend"))
    assert "nothing was measured yet" in refused(mgr, "plan", errno.EAGAIN)
    of_class = refused(mgr, "plan", errno.EAGAIN, scope="class:hdd")
    assert "`ceph wcache campaign start --scope=class:hdd`" in of_class
    assert "not authenticated" in ok(mgr.command("evidence ls"))


def test_confirming_an_imported_verdict_costs_less_and_decides_by_its_own_data():
    mgr = imported()
    whole = said(mgr, "campaign start", dry_run=True, loads="depth1,batch")["forecast"]
    brief = said(
        mgr, "campaign start", dry_run=True, loads="depth1,batch", recheck=True
    )["forecast"]
    assert brief["drive_seconds"] < whole["drive_seconds"] / 2
    assert (brief["drives"], whole["drives"]) == (2, 4)
    ok(mgr.command("campaign start", loads="depth1,batch", recheck=True, accept_cost=True))
    mgr.settle()
    (row,) = said(mgr, "recommend")["recommendations"]
    assert row["mode"] == "write through"
    assert len(row["record_ids"]) == 2


def test_a_foreign_verdict_that_is_wrong_here_loses_against_what_is_measured_here():
    mgr = imported()
    for probe in mgr.probes.values():
        probe.latency_ns = {mode: 5_000_000 for mode in probe.latency_ns}
    ok(mgr.command("campaign start", loads="depth1", recheck=True, accept_cost=True))
    mgr.settle()
    (row,) = said(mgr, "recommend")["recommendations"]
    assert row["verdict"] == "no material difference"
    assert said(mgr, "plan")["changes"] == []


def test_a_drive_model_without_a_verdict_is_measured_whole_though_confirming_was_asked_for():
    mgr = fresh()
    whole, brief = (
        said(mgr, "campaign start", dry_run=True, loads="depth1", recheck=recheck)["forecast"]
        for recheck in (False, True)
    )
    assert brief == whole


def test_an_import_outlives_the_mgr_is_idempotent_and_can_be_dropped():
    mgr = imported()
    mgr.restart()
    again = {"inbuf": codec.dumps(FILE), "format": "json"}
    assert json.loads(ok(mgr.command("evidence import", dry_run=True, **again)))["would"] == []
    assert json.loads(ok(mgr.command("evidence import", **again)))["changed"] is False
    assert len(said(mgr, "evidence ls")["imported"]) == 1
    ok(mgr.command("evidence rm", cluster=ELSEWHERE))
    mgr.restart()
    assert said(mgr, "evidence ls")["imported"] == []
    assert mgr.command("evidence rm", cluster=ELSEWHERE)[0] == -errno.ENOENT


def test_a_file_of_this_very_cluster_is_refused():
    mgr = measured()
    text = ok(mgr.command("evidence export"))
    assert mgr.command("evidence import", text)[0] == -errno.EPERM


def with_load(**changes):
    verdict = FILE.verdicts[0]
    loads = (replace(verdict.loads[0], **changes), *verdict.loads[1:])
    return signed(replace(FILE, verdicts=(replace(verdict, loads=loads),)))


def with_verdict(**changes):
    return signed(replace(FILE, verdicts=(replace(FILE.verdicts[0], **changes),)))


HOSTILE = {
    "not JSON": "{",
    "not ours": "{}",
    "a list": "[]",
    "another version": codec.dumps(replace(FILE, version=2)),
    "a version of no number": json.dumps({**codec.to_plain(FILE), "version": "a\x1b[2J\n"}),
    "an edited verdict": codec.dumps(FILE).replace("write through", "write back", 1),
    "no checksum": codec.dumps(replace(FILE, sha256="")),
    "no cluster": codec.dumps(signed(replace(FILE, cluster="../../frozen"))),
    "from the future": codec.dumps(signed(replace(FILE, exported_at_s=9e9))),
    "measured after it was made": codec.dumps(with_verdict(measured_at_s=9e9)),
    "the same model twice": codec.dumps(signed(replace(FILE, verdicts=FILE.verdicts * 2))),
    "no model": codec.dumps(with_verdict(drive_model=replace(make.MODEL, model=""))),
    "no load that says it": codec.dumps(with_verdict(loads=())),
    "a ratio below none": codec.dumps(with_load(ratio=-1.0)),
    "an interval the wrong way round": codec.dumps(with_load(ratio_low=9.0, ratio_high=2.0)),
    "an interval that does not decide": codec.dumps(with_load(ratio_low=0.5, pooled=True)),
    "an interval of one drive that does not decide": codec.dumps(
        with_load(ratio_low=0.5, drives=1)),
    "an interval that says the other": codec.dumps(
        with_load(ratio=0.5, ratio_low=0.4, ratio_high=0.6, drives=2)),
    "an endless number": codec.dumps(FILE).replace("1000", "1" * 400, 1),
    "too long": " " * BYTES_MAX + codec.dumps(FILE),
    "too deep": "[" * 100_000,
    "an unknown field": codec.dumps(FILE)[:-1] + ',"run":"rm"}',
    "an endless ratio": codec.dumps(FILE).replace('"ratio":', '"ratio":Infinity,"x":', 1),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_in_one_line_and_changes_nothing(name):
    mgr = fresh()
    code, out, error = mgr.command("evidence import", HOSTILE[name])
    assert code < 0
    assert code != -errno.EIO
    assert out == ""
    assert 0 < len(error) < 400
    assert error.isprintable()
    assert said(mgr, "evidence ls")["imported"] == []
    assert mgr.exceptions == []


@given(st.data())
def test_a_file_with_any_of_its_bytes_changed_is_refused_or_says_the_same(data):
    text = codec.dumps(FILE)
    at = data.draw(st.integers(0, len(text) - 1))
    put = data.draw(st.characters(min_codepoint=32, max_codepoint=126))
    try:
        found = parse(text[:at] + put + text[at + 1:], NOW_S)
    except WcacheError:
        return
    assert found == FILE
