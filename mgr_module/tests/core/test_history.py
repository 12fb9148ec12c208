"""The history: who changed what, when, from what to what, why, and what came of it."""

import errno
import json
from dataclasses import replace

import pytest
from gate_world import begun
from module_world import WB, WT, a_mgr, applied, measured, ok, said
from rollout_world import change, plan_of
from wcache.core.change.change import Change, ChangeStatus
from wcache.core.change.history import line, standing
from wcache.core.change.rollout_state import RolloutStatus
from wcache.core.config_database import ConfigEdit
from wcache.core.history import About, Filter, HistoryEntry, parse_since
from wcache.core.protocol import ApplyRequest, FailureOutcome
from wcache.core.setting.config_setting import ConfigSetting
from wcache.engine.storing.audit_log import CHANGES_MAX


def changes(mgr, **filters):
    rows = said(mgr, "history", limit=1000, **filters)["history"]
    return [row for row in rows if row["kind"] == "change"]


@pytest.mark.slow
def test_each_change_of_a_step_is_told_once_beside_the_judgement_of_the_step():
    mgr = begun()
    mgr.end()
    rows = said(mgr, "history", what="p1", limit=1000)["history"]
    told = [row["text"] for row in rows if row["kind"] == "change"]
    assert len(told) == len({text.partition(":")[0] for text in told}) == 10
    others = [row["text"] for row in rows if row["kind"] != "change"]
    judged = [text for text in others if text.startswith("step judged ")]
    assert [text for text in others if text not in judged] == [
        "planned 10 changes", "apply requested", "done",
    ]


@pytest.mark.slow
def test_a_wave_that_goes_back_says_of_each_change_why():
    mgr = begun(before=lambda mgr: setattr(mgr, "factor", 2.0))
    assert mgr.end() == "rolled back"
    (row,) = changes(mgr)
    assert row["outcome"].startswith("rolled back: worse: commit latency changed by +1")
    assert row["evidence"].startswith("worse: commit latency changed by +1")
    assert row["evidence"] in row["text"]


def test_a_drive_that_refuses_has_one_line():
    mgr = measured()
    plan_id = said(mgr, "plan", scope="osd.0")["plan_id"]
    refuses = FailureOutcome("the drive aborted it", refused=True, restored=True, by_drive=True)
    mgr.probes["h1"].fails = lambda task: (
        refuses if isinstance(task.request, ApplyRequest) else None
    )
    ok(mgr.command("apply", plan_id=plan_id))
    mgr.settle()
    rows = said(mgr, "history", what=plan_id)["history"]
    assert len([row for row in rows if "aborted" in row["text"]]) == 1


@pytest.mark.slow
def test_a_change_that_went_back_for_its_latency_tells_it_once():
    mgr = measured()
    plan_id = said(mgr, "plan")["plan_id"]
    for probe in mgr.probes.values():
        probe.latency_ns = {WB: 20_000_000, WT: 40_000_000}
    ok(mgr.command("apply", plan_id=plan_id))
    mgr.settle()
    (row,) = changes(mgr)
    assert row["outcome"].startswith("rolled back: ")
    assert row["outcome"].count("latency") == 1
    assert row["outcome"].count("20.00 ms -> 40.00 ms (+100%)") == 1


@pytest.mark.parametrize(("status", "words"), [
    (ChangeStatus.APPLIED,
     "osd/class:hdd a: unset -> 301; osd.0 b: 5 -> unset, applied; only read back"),
    (ChangeStatus.ROLLED_BACK, "osd/class:hdd a: 301 -> unset; osd.0 b: unset -> 5, rolled back"),
])
def test_a_line_of_settings_names_each_setting_once_with_both_values(status, words):
    edits = (ConfigEdit("osd/class:hdd", "a", "301", None), ConfigEdit("osd.0", "b", None, "5"))
    one = Change("a1", ConfigSetting("mclock", edits), "hdd", "", "class hdd", status=status)
    plan = plan_of(one, status=RolloutStatus.DONE)
    assert line(plan, one, 5.0).text == f"mclock of class hdd: {words}"
    six = tuple(ConfigEdit(f"osd.{n}", "a", "1", None) for n in range(6))
    many = replace(one, setting=ConfigSetting("mclock", six))
    assert " and 2 more, " in line(plan, many, 5.0).text


def texts(mgr):
    return [row["text"] for row in said(mgr, "history", limit=1000)["history"]]


def test_a_mgr_that_ends_once_a_change_is_stored_has_lost_no_line_of_it():
    mgr = measured()
    plan_id = said(mgr, "plan")["plan_id"]
    mgr.store.busy = True
    ok(mgr.command("apply", plan_id=plan_id))
    mgr.settle()
    before = texts(mgr)
    assert (plan_id, "done") in [
        (row["what"], row["text"]) for row in said(mgr, "history", limit=1000)["history"]
    ]
    assert said(mgr, "plan show", plan_id=plan_id)["status"] == "done"
    mgr.restart()
    mgr.store.busy = False
    assert texts(mgr) == before
    assert len(changes(mgr)) == 3


def test_a_line_that_the_mons_refuse_is_stored_once_they_take_it():
    mgr = measured()
    mgr.store.fails = lambda key: key.startswith("audit/")
    ok(mgr.command("freeze"))
    mgr.store.fails = lambda key: False
    mgr.store.answer()
    mgr.restart()
    assert "frozen" in texts(mgr)


def test_lines_of_a_probe_wait_so_that_no_host_can_hold_up_what_others_do():
    mgr = measured()
    mgr.store.busy = True
    mgr.probes["h1"].crash()
    mgr.step()
    told = [key for key in mgr.store.kept if key.startswith("history/")]
    mgr.store.busy = False
    mgr.store.answer()
    now = [key for key in mgr.store.kept if key.startswith("history/")]
    assert set(told) < set(now)


@pytest.mark.slow
def test_filters_choose_by_host_osd_drive_time_and_what():
    mgr = applied()
    assert {row["hostname"] for row in changes(mgr, scope="host:h2")} == {"h2"}
    assert [row["osd_ids"] for row in changes(mgr, scope="osd.1")] == [[1]]
    assert len(changes(mgr, scope="class:hdd,model:HD1")) == 3
    assert [row["osd_ids"] for row in changes(mgr, scope="host:h1,model:HD1,osd.1")] == [[1]]
    assert [row["drive"] for row in changes(mgr, drive="sdb")] == ["domain-sdb"]
    for name in ("domain-sdb", "h1:sdb", "wwn-sdb"):
        assert len(changes(mgr, drive=name)) == 1
    of_drive = said(mgr, "history", drive="sda")["history"]
    assert {row["what"].partition(".")[0] for row in of_drive} == {"c1", "p1"}
    assert len(changes(mgr, what="change")) == 3
    assert len(changes(mgr, what="p1")) == 3
    assert changes(mgr, what="c1") == []
    runs = said(mgr, "history", what="c1")["history"]
    assert {row["what"].partition(".")[0] for row in runs} == {"c1"}
    assert {row["hostname"] for row in runs if "started on" in row["text"]} == {"h1", "h2"}
    kinds = said(mgr, "history", what="command", limit=1000)["history"]
    assert {row["who"] for row in kinds} == {"admin"}
    assert len(changes(mgr, since="1h")) == 3
    mgr.now_s += 7200
    assert changes(mgr, since="1h") == []


@pytest.mark.parametrize("arguments", [
    {"limit": 0}, {"limit": 10_001}, {"scope": "three"}, {"scope": "osd.-1"},
    {"since": "yesterday"},
])
def test_a_filter_that_makes_no_sense_is_refused_with_what_is_allowed(arguments):
    code, out, error = a_mgr().command("history", **arguments)
    assert (code, out) == (-errno.EINVAL, "")
    assert len(error.splitlines()) == 1


@pytest.mark.slow
def test_what_is_still_applied_is_shown_after_its_line_is_gone_from_the_log():
    mgr = applied()
    for number in range(CHANGES_MAX + 1):
        mgr.inside.audit.add(HistoryEntry(
            mgr.now_s + number, "admin", "p9", "x", About("h9", outcome="rolled back")
        ))
    for _ in range(2):
        rows = changes(mgr, what="p1")
        assert [(row["hostname"], row["after"]) for row in rows] == [
            ("h1", "write through"), ("h1", "write through"), ("h2", "write through"),
        ]
        assert all(row["at_s"] <= mgr.now_s for row in rows)
        mgr.restart()


def test_what_is_no_longer_applied_is_not_made_up_from_its_plan():
    plan = plan_of(
        change(0, status=ChangeStatus.ROLLED_BACK), change(1, status=ChangeStatus.APPLIED),
        status=RolloutStatus.DONE,
    )
    assert [line.about.hostname for line in standing([plan], [])] == ["h1"]
    told = standing([plan], [])
    assert standing([plan], told) == []


def test_each_setting_that_stands_has_a_line_of_its_own():
    steps = [
        Change(
            f"a{n}", ConfigSetting("memory", (ConfigEdit(f"osd.{n}", "a", "301", None),)), "hdd",
            "", "host h1", status=ChangeStatus.APPLIED,
        ) for n in range(2)
    ]
    plan = plan_of(*steps, status=RolloutStatus.DONE)
    told = standing([plan], [])
    assert len(told) == 2
    assert len(standing([plan], told[:1])) == 1
    assert standing([plan], told) == []


@pytest.mark.parametrize("unknown", [
    {"scope": "host:h9"}, {"scope": "osd.9"}, {"scope": "class:ssd"}, {"scope": "model:HD2"},
    {"drive": "sdz"}, {"what": "p9"}, {"what": "changes"},
])
def test_a_filter_that_nobody_knows_is_no_empty_history(unknown):
    mgr = a_mgr()
    code, out, error = mgr.command("history", **unknown)
    assert (code, out) == (-errno.ENOENT, "")
    assert next(iter(unknown.values())).rpartition(":")[2] in error


def test_what_is_known_and_has_no_line_yet_or_is_gone_and_has_one_is_no_unknown_name():
    mgr = a_mgr()
    for known in (
        {"scope": "osd.0"}, {"scope": "class:hdd"}, {"drive": "sda"}, {"what": "change"},
    ):
        assert said(mgr, "history", **known)["history"] == []
    gone = About("h9", (77,), "domain-gone", ("sdx",))
    mgr.inside.audit.add(HistoryEntry(mgr.now_s, "mgr", "c7.0", "done", gone))
    for named in (
        {"scope": "host:h9"}, {"scope": "osd.77"}, {"drive": "sdx"}, {"what": "c7"},
    ):
        assert len(said(mgr, "history", **named)["history"]) == 1


def test_a_probe_that_restores_is_told_with_host_and_drive():
    mgr = a_mgr()
    with mgr.engine.orders() as orders:
        orders.note("probe h1", "domain-sda", "restored: the lease ran out")
    (row,) = said(mgr, "history", what="probe", scope="osd.0")["history"]
    assert (row["hostname"], row["drive"], row["osd_ids"]) == ("h1", "domain-sda", [0])


@pytest.mark.parametrize(("text", "at_s"), [
    ("90s", 1e6 - 90), ("15m", 1e6 - 900), ("12h", 1e6 - 43200), ("3d", 1e6 - 259200),
    ("1970-01-02", 86400.0), ("1970-01-02 01:00", 90000.0),
])
def test_a_time_can_be_given_as_how_long_ago_or_as_a_date_in_utc(text, at_s):
    assert parse_since(text, 1e6) == at_s


def test_lines_that_name_no_drive_are_shown_without_a_drive():
    old = json.loads('{"at_s": 1.0, "who": "admin", "what": "p1", "text": "apply"}')
    entry = HistoryEntry(**old)
    assert Filter(what="p1").takes(entry)
    assert not Filter(osd_ids={0}).takes(entry)
