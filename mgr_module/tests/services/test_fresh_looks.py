"""What is shown says how old it is, and is looked at again when it has changed or is old."""

import json

import pytest
from mgr_fakes import builders as make
from module_world import WB, a_mgr, applied, codes, measured, ok, said
from wcache.core import codec
from wcache.core.fleet.claims import OLD_S
from wcache.core.protocol import PROTOCOL_VERSION, Hello, PollReply
from wcache.engine.hosts import CHANGED_EVERY_S


def polled(mgr, changed):
    """What the mgr answers to h1's probe; nothing is done of it."""
    probe = mgr.probes["h1"]
    text = codec.dumps(Hello(PROTOCOL_VERSION, probe.probe_id, "i1", "", False, changed))
    code, out, error = mgr.send("wcache agent poll", "h1", text)
    assert code == 0, error
    return codec.decode(PollReply, json.loads(out), "reply")


def test_a_probe_that_saw_a_change_is_asked_for_a_report_at_once_and_not_all_the_time():
    mgr = a_mgr()
    mgr.now_s += CHANGED_EVERY_S - 1.0
    assert polled(mgr, True).task is None
    mgr.now_s += 1.1
    assert polled(mgr, False).task.request.KIND == "report"  # that it saw one stands until then
    mgr.report_all()
    mgr.now_s += CHANGED_EVERY_S + 0.1
    assert polled(mgr, False).task is None
    reply = polled(mgr, True)
    assert reply.task.request.KIND == "report"


def test_a_change_that_is_told_too_early_is_asked_for_soon():
    mgr = a_mgr()
    assert polled(mgr, False).next_poll_s == mgr.options.poll_idle_s
    assert polled(mgr, True).next_poll_s == CHANGED_EVERY_S


@pytest.mark.slow
def test_a_drive_that_was_switched_by_hand_is_drift_as_soon_as_the_probe_has_seen_it():
    mgr = applied()
    mgr.now_s += 30.0
    mgr.probes["h1"].switch("domain-sda", WB)
    mgr.probes["h1"].turn(2)
    assert "WCACHE_DRIFT" not in codes(mgr)  # nobody has looked
    polled(mgr, True)
    mgr.probes["h1"].turn(2)
    assert "WCACHE_DRIFT" in codes(mgr)


def test_tables_say_how_old_they_are():
    mgr = a_mgr()
    mgr.now_s += 20.0
    mgr.inside.hosts.look_wanted.add("h2")
    mgr.probes["h2"].turn(2)
    mgr.now_s += 3.0
    status = said(mgr, "status")
    assert status["reported"] == {
        "newest_s": 3.0, "oldest_s": 23.0, "oldest_of": "h1", "unknown": 0,
    }
    assert "drives:    3, reported 3 s to 23 s ago (h1)" in ok(mgr.command("status"))
    assert "\nreported 3 s to 23 s ago (h1)\n" in ok(mgr.command("drive ls"))
    assert "\nreported 3 s ago\n" in ok(mgr.command("drive ls", scope="host:h2"))
    assert {d["reported_s_ago"] for d in said(mgr, "drive ls")["drives"]} == {3.0, 23.0}
    mgr.restart()
    assert "1 host not" not in ok(mgr.command("status"))
    told = "drives:    3, reported before the last change or start (2 hosts)"
    assert told in ok(mgr.command("status"))


COMMANDS = [
    ("plan", {"dry_run": True}, "ceph wcache plan"),
    ("campaign start", {"loads": "timer", "dry_run": True}, "ceph wcache campaign start --dry-run"),
    ("campaign start", {"loads": "timer"}, "ceph wcache campaign start --dry-run"),
    ("try", {"dry_run": True}, "ceph wcache try"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("prefix", "arguments", "command"), COMMANDS)
def test_a_command_that_goes_by_old_reports_says_so_and_has_the_hosts_looked_at_again(
    prefix, arguments, command
):
    mgr = measured()
    mgr.inside.hosts.reported_at_s.clear()
    mgr.report_all()
    mgr.now_s += OLD_S - 10.0
    mgr.engine.tick()
    text = ok(mgr.command("plan", dry_run=True))
    assert "asked to look again" not in text
    assert polled(mgr, False).task is None
    mgr.now_s += 100.0
    mgr.engine.tick()
    text = " ".join(ok(mgr.command(prefix, **arguments)).split())
    assert "; the probes are asked to look again: in half a minute " in text
    assert f"`{command}` goes by what is there then" in text
    assert polled(mgr, False).task.request.KIND == "report"


@pytest.mark.slow
def test_a_plan_is_made_of_what_is_there_half_a_minute_after_it_was_asked_for():
    mgr = measured()
    mgr.now_s += 300.0
    mgr.engine.tick()
    probe = mgr.probes["h1"]
    lacking = make.refused("the boot rule lacks it")
    probe.drives["domain-sda"] = make.drive("sda", 0, refusals=lacking)
    assert len(said(mgr, "plan", dry_run=True)["changes"]) == 3
    for each in mgr.probes.values():
        each.turn(2)
    again = said(mgr, "plan", dry_run=True)
    assert len(again["changes"]) == 2
    assert any("the boot rule lacks it" in line for line in again["left_alone"])
