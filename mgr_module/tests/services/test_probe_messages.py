"""What probes send: whose it is, what is refused, and what changes nothing."""

import errno
import json
from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from mgr_fakes.probe import FakeProbe
from module_world import a_mgr, findings_of, fine, ok, said, start
from wcache.core import codec
from wcache.core.cluster import IN_WORK
from wcache.core.host_report import Waiting
from wcache.core.model import Finding, FindingCode, Severity
from wcache.core.protocol import (
    PROTOCOL_VERSION,
    FailureOutcome,
    Notice,
    ReportOutcome,
    ReportRequest,
    SetModeRequest,
    StateOutcome,
)


def test_two_probes_cannot_claim_one_host_and_the_second_is_named():
    mgr = a_mgr()
    rival = FakeProbe(mgr.send, "h1", (make.drive("sda", 0),), probe_id="rival")
    assert rival.turn() is None
    assert "probe-h1 speaks for h1" in rival.error
    (finding,) = said(mgr, "status")["findings"]
    assert finding["code"] == "WCACHE_AGENT_CONFLICT"
    assert "rival" in finding["detail"]


@pytest.mark.parametrize(
    ("version", "todo"), [
        (PROTOCOL_VERSION - 1, "upgrade the probe on"),
        (PROTOCOL_VERSION + 1, "upgrade the module on the mgrs"),
    ]
)
@pytest.mark.parametrize("host", ["h1", "new"])
def test_a_probe_of_another_version_is_named_with_what_to_upgrade(version, todo, host):
    mgr = a_mgr()
    hello = json.dumps(
        {"version": version, "probe_id": f"probe-{host}", "words": "of another version"}
    )
    for _ in range(3):
        mgr.now_s += 60.0
        code, out, _ = mgr.send("wcache agent poll", host, hello)
        assert (code, json.loads(out)["across"]) == (0, "nothing")
        for name in {"h1", "h2"} - {host}:
            mgr.probes[name].turn()
        mgr.engine.tick()
    (finding,) = said(mgr, "status")["findings"]
    assert (finding["code"], finding["subject"]) == ("WCACHE_AGENT_VERSION", host)
    assert f"protocol {version}, the module {PROTOCOL_VERSION}: {todo}" in finding["detail"]
    (refused,) = said(mgr, "agent ls")["refused"]
    assert (refused["hostname"], refused["protocol"]) == (host, version)
    assert f"{host}: refused, its probe speaks protocol {version}" in ok(mgr.command("agent ls"))
    mgr.probes[host] = FakeProbe(mgr.send, host, (make.drive("sda", 0),), probe_id=f"probe-{host}")
    mgr.report_all()
    assert said(mgr, "status")["findings"] == []
    assert said(mgr, "agent ls")["refused"] == []


def test_a_probe_that_calls_and_hangs_ends_its_run_as_a_silent_one_does_and_says_why():
    mgr = a_mgr()
    campaign_id = start(mgr)
    mgr.steps(5)
    since_s, probe = mgr.now_s, mgr.probes["h1"]
    what = "set_mode of d1: fsync of /var/lib/wcache/journal"
    probe.waiting = lambda: Waiting(what, mgr.now_s - since_s)
    mgr.steps(2, 10.0)
    assert f"h1: the probe calls, and has waited for 20 s: {what}" in ok(mgr.command("agent ls"))
    assert said(mgr, "status")["findings"] == []
    mgr.steps(2, 10.0)
    (finding,) = said(mgr, "status")["findings"]
    assert finding["code"] == "WCACHE_AGENT_SILENT"
    mgr.steps(6, 10.0)
    run = said(mgr, "campaign show", campaign_id=campaign_id)["run_list"][0]
    assert (run["status"], run["restored"]) == ("aborted", False)
    assert f"the probe on h1 has not responded for 90 s, and waits: {what}" in run["reason"]
    silent = findings_of(mgr, "WCACHE_AGENT_SILENT")
    assert [(one["subject"], what in one["detail"]) for one in silent] == [("h1", True)]
    probe.waiting = None
    mgr.step(10.0)
    mgr.step(10.0)
    assert what not in ok(mgr.command("agent ls"))
    assert said(mgr, "status")["findings"] == []


@pytest.mark.parametrize(("in_work", "up", "begun", "severity"), [
    (True, False, False, "info"), (True, True, False, "warning"), (False, False, False, "warning"),
    (True, False, True, "warning"),
])
def test_a_probe_that_is_silent_since_its_host_is_in_maintenance_is_no_alarm(
    in_work, up, begun, severity
):
    mgr = a_mgr()
    if begun:
        start(mgr)
        mgr.steps(5)
    seen = mgr.view.state
    mine = {i: osd for i, osd in seen.osds.items() if osd.hostname == "h1"}
    osds = {**seen.osds, **{i: replace(osd, up=up) for i, osd in mine.items()}}
    ill = dict.fromkeys(mine, IN_WORK) if in_work else {}
    mgr.view.state = replace(seen, osds=osds, ill=ill)
    del mgr.probes["h1"]
    mgr.steps(10, 10.0)
    (found,) = findings_of(mgr, "WCACHE_AGENT_SILENT")
    assert (found["subject"], found["severity"]) == ("h1", severity)


def test_a_probe_that_takes_over_a_host_is_not_given_the_lease_of_the_one_before():
    mgr = a_mgr(lease_ttl_s=600.0)
    campaign_id = start(mgr)
    mgr.steps(5)
    mgr.now_s += 100.0
    rival = FakeProbe(mgr.send, "h1", (make.drive("sda", 0),), probe_id="rival")
    reply = rival.turn(0)
    assert reply.lease is None
    run = said(mgr, "campaign show", campaign_id=campaign_id)["run_list"][0]
    assert (run["status"], run["restored"]) == ("aborted", False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "number"),
    [
        (lambda text: text[: len(text) // 2], errno.EINVAL),
        (lambda text: text + " " * 1_000_001, errno.EINVAL),
        (lambda text: text.replace('"h1"', '"h2"'), errno.EPERM),
        (lambda text: text.replace('"task_id"', '"tusk_id"'), errno.EINVAL),
        (lambda text: "[" * 100_000, errno.EINVAL),
        (lambda text: "", errno.EINVAL),
        (lambda text: "null", errno.EINVAL),
        (lambda text: text.replace("probe-h1", "probe\\nh1"), errno.EINVAL),
    ],
    ids=["truncated", "oversized", "host", "field", "deep", "empty", "null", "newline"],
)
def test_a_post_that_is_not_right_is_refused_with_one_line_and_changes_nothing(change, number):
    mgr = a_mgr()
    start(mgr)
    mgr.steps(4)
    probe = mgr.probes["h1"]
    probe.post("nothing", None)
    before = dict(mgr.store.kept)
    code, out, error = mgr.send("wcache agent post", "h1", change(probe.last_post))
    assert (code, out) == (-number, "")
    assert error
    assert "\n" not in error
    assert mgr.store.kept == before
    assert mgr.exceptions == []
    mgr.settle()
    fine(mgr)


@pytest.mark.slow
def test_a_replayed_post_changes_nothing():
    mgr = a_mgr()
    start(mgr)
    posts = []
    for _ in range(6):
        mgr.step()
        posts.append(mgr.probes["h1"].last_post)
    before = dict(mgr.store.kept)
    for text in posts:
        assert mgr.send("wcache agent post", "h1", text)[0] == 0
    assert mgr.store.kept == before
    mgr.settle()
    fine(mgr)


def test_an_old_report_does_not_replace_a_newer_one():
    mgr = a_mgr()
    old = mgr.probes["h1"].last_post
    assert '"report"' in old
    mgr.probes["h1"].drives.pop("domain-sdb")
    mgr.now_s += 700.0
    mgr.report_all()
    assert said(mgr, "status")["drives"] == 2
    assert mgr.send("wcache agent post", "h1", old)[0] == 0
    assert said(mgr, "status")["drives"] == 2


def test_a_report_in_the_name_of_another_host_is_refused_and_changes_nothing():
    mgr = a_mgr()
    mgr.now_s += 700.0
    probe = mgr.probes["h1"]
    task = probe.turn(0).task
    assert isinstance(task.request, ReportRequest)
    before = dict(mgr.store.kept)
    theirs = replace(probe.report(), hostname="h2", drives=())
    assert probe.post(task.task_id, ReportOutcome(theirs)) is None
    assert "h1 sent a report in the name of h2" in probe.error
    assert mgr.store.kept == before
    assert said(mgr, "status")["drives"] == 3
    probe.post(task.task_id, ReportOutcome(probe.report()))
    assert probe.error == ""


def test_the_outcome_of_another_task_answers_none_also_where_its_post_has_news():
    mgr = a_mgr()
    start(mgr)
    while not mgr.probes["h1"].leased:
        mgr.step()
    probe, tasks = mgr.probes["h1"], mgr.inside.hosts.tasks
    task = probe.turn(0).task
    drive = probe.drives["domain-sda"]
    other = StateOutcome((drive.state,), (drive.state,), (), True, (drive.drive_id,))
    news = (Notice("n1", "something by itself"),)
    assert probe.post("another", other, notices=news).task == task
    assert tasks["h1"].task == task
    assert probe.post(task.task_id, probe.do(task)).task != task
    mgr.settle()
    fine(mgr)


def test_a_simulated_probe_is_refused_where_data_matters():
    mgr = a_mgr()
    probe = FakeProbe(mgr.send, "h9", (make.drive("sda", 9),), simulated=True)
    assert probe.turn() is None
    assert "throwaway_cluster" in probe.error


def test_hostile_words_of_a_probe_break_no_table():
    mgr = a_mgr()
    probe = mgr.probes["h1"]
    drive = probe.drives["domain-sda"]
    shout = Finding(FindingCode.SHARED_DRIVE, Severity.WARNING, "x" * 1000, "ü" * 1000)
    plain = codec.to_plain(probe.report())
    plain["drives"][0]["findings"] = [codec.to_plain(shout)]
    plain["drives"][0]["dev_name"] = "sd\nERROR everything is lost"
    mgr.now_s += 700.0
    task = probe.turn(0).task
    body = codec.to_plain(ReportOutcome(probe.report()))
    body["report"] = plain
    post = json.loads(probe.last_post)
    post.update(task_id=task.task_id, outcome=body)
    code, _, error = mgr.send("wcache agent post", "h1", json.dumps(post))
    assert code == -errno.EINVAL
    assert "cannot be printed" in error
    plain["drives"][0]["dev_name"] = drive.dev_name
    assert mgr.send("wcache agent post", "h1", json.dumps(post))[0] == 0
    assert "WARNING WCACHE_SHARED_DRIVE" in ok(mgr.command("status"))
    lines = ok(mgr.command("drive ls")).splitlines()
    assert len(lines) == 6  # the last two tell how old they are, and what follows


def test_a_task_failure_that_says_much_is_shown_as_one_line():
    mgr = a_mgr()
    campaign_id = start(mgr)
    mgr.probes["h1"].fails = lambda task: (
        FailureOutcome("no " * 300, "really " * 140) if isinstance(task.request, SetModeRequest)
        else None
    )
    mgr.settle()
    mgr.restart()
    shown = said(mgr, "campaign show", campaign_id=campaign_id)
    assert {run["status"] for run in shown["run_list"]} == {"aborted", "done"}
    assert mgr.inside.archive.unreadable == {}
