"""A rollout goes wave by wave, judged by clients beside unchanged OSDs, by the real engine."""

import errno
from dataclasses import replace

import pytest
from gate_world import COMMIT_US, HOSTS, a_gate_mgr, begun, shown
from mgr_fakes import builders as make
from module_world import WB, fine, ok, refused, said, taken_over
from wcache.core.change.change import Change, ChangeStatus
from wcache.core.change.gate.gate_state import GateStep
from wcache.core.change.gate.judge import BLOCKS_AGAIN, BLOCKS_BEFORE, LOOKS, LOOKS_BEFORE
from wcache.core.change.rollout_base import Phase
from wcache.core.config_database import ConfigEdit
from wcache.core.record import Precondition
from wcache.core.setting.config_setting import ConfigSetting

pytestmark = pytest.mark.slow


def test_a_rollout_that_helps_changes_all_and_judges_each_step_beside_unchanged_osds():
    mgr = begun()
    assert mgr.end() == "done"
    assert mgr.changed == set(range(2 * HOSTS))
    before, *steps = mgr.blocks.requests
    assert [len(r.treated) for r in (before, *steps)] == [1, 1, 1, 2, 2, 2, 2]
    assert all(not set(r.treated) & set(r.controls) for r in steps)
    # beside unchanged OSDs, of which the last ones are changed as well: only they are left
    assert [len(r.controls) for r in steps] == [9, 8, 6, 4, 2, 0]
    log = [entry["text"] for entry in said(mgr, "history", limit=200)["history"]]
    judged = [text for text in log if text.startswith("step judged")]
    assert all("better" in text for text in judged)
    assert any("beside 9 unchanged OSDs" in text for text in judged)
    # nobody of its kind is left at the end, and that is said
    assert "compared with itself before the change" in judged[-1]
    assert mgr.plan.changes[0].before_us == pytest.approx(COMMIT_US, rel=0.1)
    fine(mgr)


EIGHT_DRIVES_EACH = tuple(
    (f"h{h}", tuple(make.drive(f"sd{'abcdefgh'[n]}", 8 * h + n) for n in range(8)))
    for h in range(3)
)


def test_what_is_measured_while_steps_are_judged_is_the_before_of_later_ones():
    mgr = begun(hosts=EIGHT_DRIVES_EACH)
    befores = []
    mgr.go(lambda: mgr.plan.status.value == "done" or befores.append(
        (mgr.plan.step.treated, len(mgr.plan.step.before), mgr.plan.step.controls)))
    seen = {treated: (count, controls) for treated, count, controls in befores if count}
    first, *others = (count for count, _ in seen.values())
    assert first == BLOCKS_BEFORE
    assert set(others) == {BLOCKS_BEFORE}
    # only the canary's blocks were taken by themselves; those that are changed last stand by
    assert sum(r.blocks == LOOKS_BEFORE[-1] for r in mgr.blocks.requests) == 1
    controls = [each[:6] for _, each in seen.values()]
    assert controls[:3] == [(23, 15, 7, 22, 14, 6)] * 3


def test_what_reaches_other_osds_than_it_is_judged_on_leaves_no_before_for_later_steps():
    mgr = begun(hosts=EIGHT_DRIVES_EACH)
    mgr.go(lambda: sum(item.drives for item in mgr.plan.evidence) == 3)
    machine = mgr.inside.rollouts["p1"]
    assert len(machine._seen) == BLOCKS_BEFORE
    machine._watch_after()
    assert len(machine._seen) == BLOCKS_BEFORE
    edit = ConfigEdit("osd", "osd_memory_target", "", "4294967296")
    wide = Change("a", ConfigSetting("memory", (edit,)), "hdd", "", osd_id=5, judged_on=(5,))
    changes = (wide, *mgr.plan.changes[1:])
    machine.rollout = replace(mgr.plan, changes=changes, step=GateStep((0,), (5,)))
    machine._watch_after()
    assert machine._seen == []


def test_what_was_measured_before_a_wait_is_not_the_before_of_a_step_after_it():
    mgr = begun(hosts=EIGHT_DRIVES_EACH)
    mgr.go(lambda: sum(item.drives for item in mgr.plan.evidence) == 3)
    mgr.view.state = replace(mgr.view.state, missed=(Precondition.CLUSTER_HEALTHY,))
    mgr.go(lambda: mgr.plan.missed)
    mgr.view.state = replace(mgr.view.state, missed=())
    mgr.go(lambda: not mgr.plan.missed and mgr.inside.rollouts["p1"].phase is Phase.BLOCKS_BEFORE)
    assert shown(mgr)["step"]["blocks_max"] == BLOCKS_AGAIN
    assert not mgr.plan.step.before
    mgr.go(lambda: len(mgr.plan.step.before) > 0)
    # its kind has been judged well: what that has shown counts as well
    assert len(mgr.plan.step.before) == BLOCKS_AGAIN
    # the canary's blocks may be long, and have little noise then
    assert replace(mgr.plan.gate, canary_block_s=60.0).before_max(True, 0) == BLOCKS_BEFORE
    mgr.end()
    assert mgr.plan.status.value == "done"


def test_steps_grow_with_what_is_proven_inside_one_failure_domain_and_within_ok_to_stop():
    mgr = begun(hosts=EIGHT_DRIVES_EACH)
    assert mgr.end() == "done"
    made = [r.treated for r in mgr.blocks.requests if r.blocks == LOOKS[-1]]
    # what one host has proven counts on the next for as much as that host has proven itself
    assert [len(each) for each in made] == [1, 2, 3, 2, 2, 4, 2, 8]
    assert all(len({osd_id // 8 for osd_id in each}) == 1 for each in made)
    assert [len(groups) for groups in mgr.stops.asked if len(groups) > 4][:1] == [8]
    pooled = mgr.plan.evidence
    assert [(item.steps, item.drives) for item in pooled] == [(8, 24)]
    few = begun(hosts=EIGHT_DRIVES_EACH)
    few.stops.most = 3
    assert few.end() == "done"
    made = [r.treated for r in few.blocks.requests if r.blocks == LOOKS[-1]]
    assert max(map(len, made)) == 3


def test_a_kind_that_was_never_judged_begins_small_again():
    mgr = begun(hosts=EIGHT_DRIVES_EACH)
    mgr.go(lambda: sum(item.drives for item in mgr.plan.evidence) == 16)
    machine = mgr.inside.rollouts["p1"]
    other = tuple(
        replace(item, device_class="ssd") if index >= 20 else item
        for index, item in enumerate(mgr.plan.changes)
    )
    machine.rollout = replace(mgr.plan, changes=other, step=GateStep())
    assert machine._candidates() == (16, 17, 18, 19)
    machine.rollout = replace(mgr.plan, changes=other[:16] + other[20:], step=GateStep())
    assert machine._candidates() == (16, 17)


def test_a_mgr_that_takes_over_knows_what_is_proven_and_how_often_it_has_looked():
    mgr = begun(hosts=EIGHT_DRIVES_EACH)
    mgr.go(lambda: sum(item.drives for item in mgr.plan.evidence) == 3)
    evidence, looks = mgr.plan.evidence, mgr.plan.looks
    taken_over(mgr)
    assert (mgr.plan.evidence, mgr.plan.looks) == (evidence, looks)
    mgr.go(lambda: len(mgr.plan.step.indices) == 3)


def test_a_canary_that_is_worse_goes_back_alone_and_recommend_shows_what_would_settle_it():
    mgr = begun()
    mgr.factor = 1.5
    seen = set()
    mgr.go(lambda: seen.update(mgr.changed) or mgr.plan.status.value == "rolled back")
    assert (seen, mgr.changed) == ({0}, set())
    mgr.report_all()
    (row,) = said(mgr, "recommend")["recommendations"]
    assert (row["mode"], row["to_change"]) == ("write through", 2 * HOSTS)
    mark = row["went_back"]
    assert (mark["plan_id"], mark["mode"], mark["why"]) == ("p1", "write through", mgr.plan.reason)
    assert mark["why"].startswith("worse: commit latency changed by +")
    text = ok(mgr.command("recommend"))
    assert "went back: plan p1 put drives of this model into write through" in text
    by_traffic = "ceph wcache campaign start --loads=traffic --dry-run  # while clients write"
    assert text.splitlines()[-1] == f"next: {by_traffic}"
    taken_over(mgr)
    assert said(mgr, "recommend")["recommendations"][0]["went_back"] == mark
    # a later plan that stays answers it
    mgr.factor = 0.5
    assert said(mgr, "plan", scope="osd.3")["plan_id"] == "p2"
    ok(mgr.command("apply", plan_id="p2"))
    mgr.go(lambda: mgr.inside.rollouts["p2"].rollout.status.value == "done")
    mgr.report_all()
    assert said(mgr, "recommend")["recommendations"][0]["went_back"] is None
    assert "to change these drives: `ceph wcache plan`" in ok(mgr.command("recommend"))


def test_what_an_admin_takes_back_is_no_mark_of_its_drive_model():
    mgr = begun(plan={"scope": "osd.0"})
    assert mgr.end() == "done"
    ok(mgr.command("rollback", plan_id="p1"))
    assert mgr.end() == "rolled back"
    mgr.report_all()
    assert said(mgr, "recommend")["recommendations"][0]["went_back"] is None


def test_no_load_pauses_before_anything_is_changed_and_says_what_would_settle_it():
    mgr = a_gate_mgr()
    said(mgr, "plan")
    mgr.busy = False
    ok(mgr.command("apply", plan_id="p1"))
    assert mgr.end() == "paused"
    assert mgr.changed == set()
    assert "clients write too little to osd.0" in mgr.plan.reason
    assert "--override=client_load" in shown(mgr)["reason"]
    assert refused(mgr, "apply", errno.EBUSY, plan_id="p1").endswith(
        "`ceph wcache rollout resume p1`")
    assert said(mgr, "rollout resume", plan_id="p1")["status"] == "running"
    assert mgr.end() == "paused"
    ok(mgr.command("rollout resume", plan_id="p1", override="client_load"))
    assert mgr.end() == "done"  # by benches before and after
    assert mgr.changed == set(range(2 * HOSTS))


def with_an_idle_drive_each(hosts=5):
    """Hosts of four drives: no client writes to the second one."""
    names = "abcd"
    mgr = a_gate_mgr(tuple(
        (f"h{h}", tuple(make.drive(f"sd{name}", 4 * h + n) for n, name in enumerate(names)))
        for h in range(hosts)
    ))
    idle, us = {4 * h + 1 for h in range(hosts)}, mgr.blocks.latency_us
    mgr.blocks.latency_us = lambda osd_id: 0.0 if osd_id in idle else us(osd_id)
    said(mgr, "plan")
    ok(mgr.command("apply", plan_id="p1", persist=True))
    return mgr, idle


def test_drives_that_nothing_judges_are_put_off_and_neither_proven_nor_changed():
    mgr, idle = with_an_idle_drive_each()
    assert mgr.end() == "paused"
    assert "clients write too little to osd.1 to judge by" in mgr.plan.reason
    every = {change.osd_id for change in mgr.plan.changes}
    assert mgr.changed == every - idle
    left = {c.osd_id for c in mgr.plan.changes if c.status is ChangeStatus.PLANNED}
    assert left == idle
    assert not any(change.lasts for change in mgr.plan.changes if change.osd_id in idle)
    (known,) = mgr.plan.evidence
    assert known.drives == len(every - idle)
    # they are looked at anew, and are changed where clients write by then
    idle.clear()
    ok(mgr.command("rollout resume", plan_id="p1"))
    assert mgr.end() == "done"
    assert mgr.changed == every
    fine(mgr)


def test_an_idle_drive_alone_in_its_step_is_put_off_and_keeps_none_of_the_others_back():
    mgr = a_gate_mgr()
    us = mgr.blocks.latency_us
    mgr.blocks.latency_us = lambda osd_id: us(osd_id) if osd_id else 0.0
    said(mgr, "plan")
    ok(mgr.command("apply", plan_id="p1"))
    mgr.go(lambda: mgr.changed)
    assert mgr.changed == {1}
    assert len(mgr.plan.step.before) >= BLOCKS_BEFORE  # it is the canary by now
    assert mgr.end() == "paused"
    assert "clients write too little to osd.0" in mgr.plan.reason
    assert mgr.changed == set(range(1, 2 * HOSTS))
    assert mgr.plan.changes[0].status is ChangeStatus.PLANNED
    fine(mgr)


def test_undecided_pauses_keeps_what_is_made_and_persists_nothing():
    mgr = begun(apply={"persist": True})
    mgr.factor, mgr.noise = 1.0, 1.0
    assert mgr.end() == "paused"
    assert mgr.changed == {0}
    assert mgr.plan.changes[0].status is ChangeStatus.MADE
    assert not mgr.plan.changes[0].lasts
    assert "it would be settled by" in mgr.plan.reason
    assert "undecided" in ok(mgr.command("rollout show", plan_id="p1"))
    mgr.steps(50, 60.0)
    assert mgr.changed == {0}
    ok(mgr.command("rollout resume", plan_id="p1", override="gate_decided"))
    mgr.go(lambda: mgr.plan.changes[0].status is ChangeStatus.APPLIED)
    assert mgr.plan.changes[0].lasts
    assert Precondition.GATE_DECIDED in mgr.plan.forced


def test_what_is_judged_well_is_persisted_only_then_and_only_with_consent():
    mgr = begun(apply={"persist": True})
    mgr.go(lambda: mgr.plan.changes[0].status is ChangeStatus.MADE)
    assert not mgr.plan.changes[0].lasts
    assert mgr.end() == "done"
    assert all(change.lasts for change in mgr.plan.changes)
    ok(mgr.command("rollback", plan_id="p1"))
    assert mgr.end() == "rolled back"
    assert mgr.changed == set()


@pytest.mark.parametrize(("silent", "worse"), [(False, (0,)), (True, ())])
def test_an_osd_past_the_limit_ends_its_step_and_one_that_is_silent_says_nothing_of_its_model(
    silent, worse
):
    mgr = begun()
    mgr.go(lambda: mgr.plan.changes[0].status is ChangeStatus.MADE and mgr.blocks.waiting)
    if silent:
        ((token, (_, _, on_end)),) = mgr.blocks.waiting.items()
        mgr.blocks.cancel(token)
        on_end("osd.0 has not answered for 4000 ms", True, True)
    else:
        mgr.neighbour = lambda osd_id: 500.0 if osd_id == 0 else 1.0
    mgr.go(lambda: mgr.plan.status.value == "rolled back", steps=12)
    assert ("past the limit" in mgr.plan.reason) is not silent
    assert mgr.changed == set()
    assert mgr.plan.worse.indices == worse
    assert mgr.plan.undone is silent


def test_what_was_judged_and_is_not_there_any_more_goes_back_and_is_never_called_applied():
    mgr = begun()
    mgr.go(lambda: shown(mgr)["step"]["phase"] == "blocks after")
    drives = mgr.probes["h0"].drives
    for name, drive in drives.items():  # their host was reset: they are as their firmware has it
        drives[name] = replace(drive, state=make.state(WB))
    assert mgr.end() == "rolled back"
    assert "h0 sda: is no longer in write through" in mgr.plan.reason
    assert mgr.plan.changes[0].status is ChangeStatus.ROLLED_BACK
    assert mgr.changed == set()
    fine(mgr)


def test_a_rollout_pauses_when_its_budget_of_harm_is_spent_and_resume_allows_as_much_again():
    mgr = a_gate_mgr(hosts=EIGHT_DRIVES_EACH, rollout_harm_max_s=5.0)
    ok(mgr.command("plan"))
    would = ok(mgr.command("apply", plan_id="p1", dry_run=True))
    assert "at worst 5 s of extra wait, over all clients; then it pauses" in would
    mgr.factor, mgr.noise = 1.06, 0.01  # too little to be called worse
    ok(mgr.command("apply", plan_id="p1"))
    assert mgr.end() == "paused"
    assert "rollout_harm_max_s" in mgr.plan.reason
    assert 2.0 < mgr.plan.harm.spent_s <= 5.0
    assert f"extra wait of clients: {mgr.plan.harm.spent_s:.0f} s of 5 s" in ok(
        mgr.command("rollout show", plan_id="p1"))
    before = len(mgr.changed)
    ok(mgr.command("rollout resume", plan_id="p1"))
    mgr.go(lambda: len(mgr.changed) > before)


def test_a_pause_for_another_reason_gives_back_nothing_of_the_budget():
    mgr = a_gate_mgr(hosts=EIGHT_DRIVES_EACH)
    ok(mgr.command("plan"))
    mgr.factor, mgr.noise = 1.06, 0.01
    ok(mgr.command("apply", plan_id="p1"))
    mgr.go(lambda: mgr.plan.harm.spent_s > 0.0)
    ok(mgr.command("rollout pause", plan_id="p1"))
    assert mgr.end() == "paused"
    spent_s = mgr.plan.harm.spent_s
    ok(mgr.command("rollout resume", plan_id="p1"))
    assert mgr.plan.harm.spent_s == spent_s > 0.0


def test_show_says_when_it_ends_what_steps_say_together_and_why_the_next_is_so_large():
    mgr = begun(hosts=EIGHT_DRIVES_EACH)
    first = shown(mgr)
    assert first["next_step"] == {"size": 1, "why": "the canary is changed by itself"}
    mgr.go(lambda: mgr.plan.step.indices == (0,))
    assert shown(mgr)["next_step"] == {
        "size": 2, "why": "rollout_parallel_max (2), until more are proven"}
    mgr.go(lambda: mgr.plan.step.indices == (1, 2))
    assert shown(mgr)["next_step"] == {
        "size": 3, "why": "as many as are proven of their kind so far (3)"}
    mgr.go(lambda: mgr.plan.step.indices == (3, 4, 5))
    found = shown(mgr)
    assert found["next_step"] == {"size": 2, "why": "all that is left of host h0"}
    assert found["evidence"][0]["drives"] == 3
    assert found["evidence"][0]["high"] < 0.7
    assert mgr.now_s < found["ends_at_s"] < mgr.now_s + found["seconds_left_most"]
    text = " ".join(ok(mgr.command("rollout show", plan_id="p1")).split())
    for said_now in ("so far: ", "2 steps together, 3 changes proven", "next step: 2 changes, all",
                     "expected end: "):
        assert said_now in text
