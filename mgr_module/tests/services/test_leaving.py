"""`ceph wcache leave` takes back or keeps what was changed, and leaves nothing of wcache behind."""

import errno
from dataclasses import replace

import memory_world
import pytest
from mgr_fakes.store import MemoryStore
from module_world import (
    WB,
    WT,
    a_mgr,
    all_modes,
    applied,
    change_osd,
    fine,
    measured,
    ok,
    refused,
    said,
    settled,
    start,
    taken_over,
)
from wcache.core.change.change import ChangeStatus
from wcache.core.host_report import JournalNote
from wcache.core.setting.domain_settings import OptionSetting
from wcache.deployment.places import NAMES_CHARS_MAX, RemovedHosts

HOSTS = ["h1", "h2"]


def leave(mgr, *, dry_run=False, gone=None, **way):
    return said(mgr, "leave", dry_run=dry_run, host_is_gone=gone, **way)


def with_keys(mgr):
    for name in HOSTS:
        ok(mgr.command("agent add", hostname=name, run_by="systemd"))
    return mgr


def gone_back(mgr):
    """Ask until everything has gone back; returns what was waited for."""
    told = []
    for _ in range(20):
        code, out, error = mgr.command("leave", back=True)
        if code == 0:
            return told, out
        assert code == -errno.EAGAIN
        told.append(error)
        settled(mgr)
    raise AssertionError(told)


@pytest.mark.parametrize("way", [{}, {"back": True, "keep": True}])
def test_it_must_be_said_what_becomes_of_what_was_changed(way):
    assert "--back takes it back" in refused(a_mgr(), "leave", errno.EINVAL, **way)


def test_back_takes_back_all_plans_and_leaves_nothing():
    mgr = with_keys(applied())
    assert all_modes(mgr) == {WT}
    dropped = []
    mgr.service.leaving._drop_options = lambda: dropped.append(1)
    told, out = gone_back(mgr)
    assert [line for line in told if "plan p1 goes back" in line]
    assert all_modes(mgr) == {WB}
    assert mgr.store.kept == {} == mgr.keys.held
    assert dropped == [1]
    assert "wcache-probe unprepare" in out
    assert "# next: ceph mgr module disable wcache" in out
    fine(mgr)


def test_plans_go_back_the_newest_first():
    mgr = with_keys(measured())
    for number, name in enumerate(HOSTS, 1):
        ok(mgr.command("plan", scope=f"host:{name}"))
        ok(mgr.command("apply", plan_id=f"p{number}"))
        settled(mgr)
    told, _ = gone_back(mgr)
    assert ["p2" in told[0], "p1" in told[1], len(told)] == [True, True, 2]
    assert all_modes(mgr) == {WB}


def test_nothing_is_written_and_nothing_answered_after_that():
    mgr = with_keys(a_mgr())
    assert leave(mgr, back=True)["left"]
    for probe in mgr.probes.values():
        probe.turn()
    mgr.steps(5)
    assert mgr.store.kept == {}
    assert "`ceph mgr module disable wcache`" in refused(mgr, "status", errno.EPERM)
    ends = with_ends(mgr)
    assert leave(mgr, back=True)["left"]  # the mons may have refused to disable it
    assert (mgr.store.kept, len(ends)) == ({}, 1)


def with_ends(mgr):
    """What is stored and which keys are there whenever the module has itself disabled."""
    ends = []
    mgr.service.leaving._disable_soon = lambda: ends.append(
        (dict(mgr.store.kept), {*mgr.keys.held})
    )
    return ends


def test_it_disables_itself_once_it_has_left_and_never_while_anything_is_owed():
    mgr = with_keys(applied())
    ends = with_ends(mgr)
    leave(mgr, back=True, dry_run=True)
    assert "p1 goes back" in refused(mgr, "leave", errno.EAGAIN, back=True)
    settled(mgr)
    mgr.now_s += 120
    mgr.probes["h2"].turn()
    assert leave(mgr, back=True)["waits"]
    assert "not called" in refused(mgr, "leave", errno.EAGAIN, back=True)
    mgr.store.fails = lambda key: key == "version"
    assert not leave(mgr, back=True, gone="h1")["left"]
    assert ends == []
    mgr.store.fails = lambda key: False
    out = ok(mgr.command("leave", back=True))
    assert "the module is disabled in a moment" in out
    assert ends == [({}, set())]


def test_where_the_mons_take_long_it_disables_itself_when_they_are_done(monkeypatch):
    mgr = with_keys(a_mgr())
    ends, late = with_ends(mgr), []
    monkeypatch.setattr("wcache.services.leaving.STORE_WAIT_S", 0.0)
    archive = mgr.engine.ports.archive
    end = archive.end
    monkeypatch.setattr(archive, "end", late.append)
    assert leave(mgr, back=True)["waits"] == ["the mons remove what was stored"]
    assert ends == []
    end(late[0])
    assert ends == [({}, set())]


def test_enabled_anew_it_begins_with_nothing_and_stores_nothing_by_itself():
    mgr = with_keys(measured())
    assert leave(mgr, back=True)["left"]
    mgr.store = MemoryStore()
    mgr.probes.clear()
    mgr.restart()
    mgr.steps(5)
    assert said(mgr, "campaign ls")["campaigns"] == []
    assert mgr.store.kept == {}


def test_what_is_under_way_ends_first():
    mgr = with_keys(a_mgr())
    start(mgr)
    mgr.steps(6)
    assert "is ended and taken back first" in refused(mgr, "leave", errno.EAGAIN, back=True)
    assert mgr.inside.frozen
    settled(mgr)
    assert leave(mgr, back=True)["left"]
    assert all_modes(mgr) == {WB}


def test_keep_lists_what_stays_with_what_keeps_it_and_how_to_undo_it():
    mgr = with_keys(applied())
    told = leave(mgr, keep=True)
    assert told["left"]
    assert told["waits"] == []
    assert {row["hostname"] for row in told["keeps"]} == set(HOSTS)
    for row in told["keeps"]:
        assert row["plan_id"] == "p1"
        assert row["kept_by"].startswith("nothing: a power cycle")
        assert "sdparm --set=WCE" in row["undo"]
        assert "write through" in row["what"]
    assert all_modes(mgr) == {WT}
    assert mgr.store.kept == {} == mgr.keys.held


def test_a_host_that_is_silent_is_waited_for_and_the_others_go():
    mgr = with_keys(a_mgr())
    mgr.now_s += 120
    mgr.probes["h2"].turn()
    told = leave(mgr, back=True)
    assert told["hosts"] == ["h2"]
    assert not told["left"]
    assert "h1: the probe of h1 has not called" in told["waits"][0]
    assert set(mgr.keys.held) == {"client.wcache.h1"}
    assert "not called" in refused(mgr, "leave", errno.EAGAIN, back=True)
    assert leave(mgr, back=True, gone="h1")["left"]
    assert mgr.store.kept == {} == mgr.keys.held


def persisted():
    mgr = with_keys(measured())
    ok(mgr.command("plan", persist=True))
    ok(mgr.command("apply", plan_id="p1", persist=True))
    mgr.settle()
    mgr.report_all()
    return mgr


@pytest.mark.parametrize("removed_before", [False, True])
def test_a_plan_goes_back_on_the_other_hosts_of_one_that_is_gone(removed_before):
    mgr = with_keys(applied())
    mgr.now_s += 120
    mgr.probes["h2"].turn()
    way = {"back": True, "gone": "h1"}
    if removed_before:
        ok(mgr.command("agent rm", hostname="h1", host_is_gone=True))
        assert "p1 goes back" in refused(mgr, "leave", errno.EAGAIN, back=True)
    else:
        assert leave(mgr, dry_run=True, **way)["would"][1] == (
            "roll back plan p1 (1 change); 2 changes on hosts that are gone would stay"
        )
        told = leave(mgr, **way)
        assert (told["hosts"], told["keeps"], told["left"]) == (["h1"], [], False)
        assert told["next"] == "ceph wcache leave --back --host-is-gone=h1"
    del mgr.probes["h1"]
    mgr.settle()
    mgr.report_all()
    told = leave(mgr, **way)
    assert told["left"]
    assert all_modes(mgr) == {WB}
    assert {(row["name"], row["what"]) for row in told["keeps"]} == {
        (f"h1 {name}", "may be write through (rollback failed)") for name in ("sda", "sdb")
    }


def test_what_a_plan_that_goes_back_waits_for_is_said():
    mgr = with_keys(applied())
    del mgr.probes["h1"]
    refused(mgr, "leave", errno.EAGAIN, back=True)
    for _ in range(300):
        mgr.step(1.0)
    error = refused(mgr, "leave", errno.EAGAIN, back=True)
    assert "p1 is ended and taken back first, and waits for the probe on h1" in error


def test_why_a_plan_does_not_go_back_is_said():
    mgr = with_keys(applied())
    plan = mgr.inside.rollouts["p1"]
    plan.rollout = replace(plan.rollout, changes=tuple(
        replace(one, status=ChangeStatus.ROLLBACK_FAILED, detail="the drive hangs")
        for one in plan.rollout.changes
    ))
    error = refused(mgr, "leave", errno.EAGAIN, back=True)
    assert "plan p1 goes back, once more: h1 sda: the drive hangs" in error


def test_what_keeps_a_drive_whose_host_reports_no_more_is_not_guessed():
    mgr = persisted()
    mgr.now_s += 120
    mgr.probes["h1"].turn()
    told = {row["hostname"]: row["kept_by"] for row in leave(mgr, keep=True)["keeps"]}
    assert told == dict.fromkeys(HOSTS, "the drive's saved page")
    told = leave(mgr, keep=True, gone="h2")
    assert told["left"]
    assert {row["kept_by"] for row in told["keeps"] if row["hostname"] == "h1"} == {
        "a udev rule or the drive's saved page: its host no longer reports which"
    }


def test_a_drive_that_a_rule_keeps_goes_back_with_its_rule():
    mgr = persisted()
    report = mgr.inside.hosts.reports["h1"]
    drives = tuple(
        replace(one, state=replace(one.state, page=replace(one.state.page, by_rule=True)))
        for one in report.drives
    )
    mgr.inside.hosts.reports["h1"] = replace(report, drives=drives)
    for row in leave(mgr, keep=True, dry_run=True)["keeps"]:
        by_rule = row["hostname"] == "h1"
        assert row["kept_by"].startswith("a udev rule, which runs wcache-probe") is by_rule
        assert row["undo"].startswith("wcache-probe restore --action p1.") is by_rule


def test_the_undo_of_a_change_is_all_of_it_and_has_the_kernel_flush_first():
    mgr = with_keys(applied())
    plan = mgr.inside.rollouts["p1"]
    first = plan.rollout.changes[0]
    lines = (*first.setting.manual, "sdparm --set=WCE /dev/sdq  # undo it")
    both = replace(first, setting=replace(first.setting, manual=lines))
    plan.rollout = replace(plan.rollout, changes=(both, *plan.rollout.changes[1:]))
    row = leave(mgr, keep=True, dry_run=True)["keeps"][0]
    pin, _, undo = row["undo"].partition("; done && ")
    assert 'echo "temporary write back"' in pin
    assert undo == "sdparm --set=WCE /dev/sda && sdparm --set=WCE /dev/sdq"
    shown = ok(mgr.command("leave", keep=True, dry_run=True)).splitlines()
    assert f"  {row['undo']}" in shown, "it is pasted, so it stands alone and whole"


def test_a_mode_of_bcache_outlives_wcache_by_itself():
    mgr = with_keys(applied())
    plan = mgr.inside.rollouts["p1"]
    first = plan.rollout.changes[0]
    setting = OptionSetting(first.setting.domain, "cache_mode", "writeback", "writethrough")
    plan.rollout = replace(plan.rollout, changes=(replace(first, setting=setting),))
    (row,) = leave(mgr, keep=True, dry_run=True)["keeps"]
    assert row["kept_by"] == "the drive: bcache saves it there"


def test_where_the_mons_do_not_remove_it_all_of_it_goes_on_to_work_and_again_it_goes():
    mgr = with_keys(a_mgr())
    mgr.store.fails = lambda key: key == "version"
    told = leave(mgr, back=True)
    assert not told["left"]
    assert "version is not stored" in told["waits"][0]
    assert said(mgr, "status")["frozen"]
    mgr.store.fails = lambda key: False
    assert leave(mgr, back=True)["left"]
    assert mgr.store.kept == {}


def test_a_host_whose_journal_is_not_empty_keeps_its_key():
    mgr = with_keys(a_mgr())
    report = mgr.inside.hosts.reports["h1"]
    note = JournalNote("action/p9.0", "domain-sda")
    mgr.inside.hosts.reports["h1"] = replace(report, journal=(note,))
    for way in ("back", "keep"):
        told = mgr.command("leave", **{way: True})
        assert "h1: h1 domain-sda: journal entry action/p9.0" in f"{told[1]}{told[2]}"
        assert set(mgr.keys.held) == {"client.wcache.h1"}


def test_a_plan_that_cannot_be_read_is_not_taken_for_one_that_went_back():
    mgr = with_keys(applied())
    mgr.store.kept["rollout/p1"] = "damaged"
    taken_over(mgr)
    assert "rollout/p1" in refused(mgr, "leave", errno.EPERM, back=True)
    assert mgr.store.kept["rollout/p1"] == "damaged"
    (kept,) = said(mgr, "leave", keep=True, dry_run=True)["keeps"]
    assert (kept["plan_id"], kept["what"]) == ("p1", "and that cannot be read")


@pytest.mark.parametrize("way", ["back", "keep"])
def test_it_waits_for_a_larger_target_of_an_osd_that_is_down_and_may_run_on(way):
    mgr = memory_world.raised(memory_world.begun(memory_world.a_mgr()))
    down = min(memory_world.leased(mgr))
    mgr.osd_memory.osds[down].up = False
    change_osd(mgr, down, up=False)
    refused(mgr, "leave", errno.EAGAIN, **{way: True})
    settled(mgr)
    error = refused(mgr, "leave", errno.EAGAIN, **{way: True})
    assert f"trial t1 is ended and taken back first, and waits for osd.{down}, whose" in error
    assert memory_world.leased(mgr).keys() == {down}
    mgr.osd_memory.osds[down].up = True  # it was cut off, and not restarted
    change_osd(mgr, down, up=True)
    mgr.steps(5, 10.0)
    assert leave(mgr, **{way: True})["left"]
    assert memory_world.leased(mgr) == {}


def test_it_waits_for_no_target_of_an_osd_on_a_host_that_is_gone():
    mgr = memory_world.raised(memory_world.begun(memory_world.a_mgr()))
    mgr.osd_memory.osds[0].up = False
    change_osd(mgr, 0, up=False)
    refused(mgr, "leave", errno.EAGAIN, back=True)
    settled(mgr)
    mgr.now_s += 600
    mgr.probes["h1"].turn()
    assert leave(mgr, back=True, gone="h0")["hosts"]


def test_a_name_that_is_none_is_refused_before_anything_ends():
    mgr = with_keys(a_mgr())
    refused(mgr, "leave", errno.EINVAL, back=True, host_is_gone="h1,$(id)")
    assert not mgr.inside.frozen


def test_a_removed_host_stays_removed_over_a_restart_until_it_is_added():
    mgr = with_keys(a_mgr())
    ok(mgr.command("agent rm", hostname="h2"))
    for come in (mgr.report_all, lambda: taken_over(mgr)):
        come()
        assert [row["hostname"] for row in said(mgr, "agent ls")["agents"]] == ["h1"]
    ok(mgr.command("agent add", hostname="h2", run_by="systemd"))
    mgr.report_all()
    assert [row["hostname"] for row in said(mgr, "agent ls")["agents"]] == HOSTS


def test_names_of_removed_hosts_stay_within_their_bound():
    removed = RemovedHosts()
    for number in range(500):
        removed = removed.and_too(f"host-{number:04}", "i1")
    assert len("".join(removed.items)) <= NAMES_CHARS_MAX
    assert removed.has("host-0499", "i1")
    assert not removed.has("host-0499", "i2"), "it has shown a key that is there"
    assert removed.and_too("host-0499", "i1").items == removed.items
    assert not removed.but("host-0499").has("host-0499", "i1")
