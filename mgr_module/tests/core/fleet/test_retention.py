"""The store stays small whatever happens, and nothing is forgotten that is still needed."""

import json
import random
from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from mgr_fakes.store import MonLikeKv, PromptQueue
from rollout_world import DOMAIN, mode_change, plan_of
from test_repeated import measured
from wcache.core.change.change import ChangeStatus
from wcache.core.change.rollout_state import Rollout, RolloutStatus, Worse
from wcache.core.experiment.campaign import Campaign, CampaignOptions
from wcache.core.experiment.run_state import RunState, RunStatus
from wcache.core.fleet.agents import Agent
from wcache.core.fleet.retention import Bounds
from wcache.core.fleet.retention import surplus as beyond
from wcache.core.history import About, HistoryEntry
from wcache.core.model import (
    DriveModel,
    Finding,
    FindingCode,
    LoadPoint,
    Role,
    Severity,
    Transport,
    Verdict,
)
from wcache.core.options.entries import OptionTrial
from wcache.core.verdict.load_profile import HOURS_MAX, HourLoad, LoadProfile
from wcache.core.verdict.recommend import recommend
from wcache.core.verdict.repeated import WEIGHED_MAX, standing
from wcache.core.verdict.result import ArmSummary, PoolTerm, Result
from wcache.engine.load_watch import OSDS_MAX
from wcache.engine.persistence import RECOVERED
from wcache.engine.storing.archive import AGENT, PROFILE, RECORD, REPORT, RESULT, RUN, Archive
from wcache.engine.storing.audit_log import (
    ADMINS_LOG,
    CHANGES_LOG,
    CHANGES_MAX,
    LINES_MAX,
    OTHERS_LOG,
)
from wcache.knobs.mclock.capacity import Known, Knowns
from wcache.knobs.mclock.mgr.room import KNOWN

OPTIONS = CampaignOptions("cluster", (LoadPoint.OSD_BENCH_DEPTH1,), 20, 6, 0.4, 2.0, 2e3, 9e2, 9)
STORE_BYTES_MAX = 5_000_000
BOUNDS = Bounds()


def surplus(campaigns, runs, results, plans):
    return beyond(campaigns, runs, results, plans, BOUNDS)


def campaign(number, runs=1):
    name = f"c{number}"
    ids = tuple(f"{name}.{i}" for i in range(runs))
    return Campaign(name, OPTIONS, float(number), 1, ids)


def run(name, status=RunStatus.DONE, restored=True):
    spec = replace(
        make.run_spec(make.setup()), run_id=name, campaign_id=name.partition(".")[0],
        lease_id=f"lease.{name}",
    )
    return RunState(spec, status, restored=restored)


def result(number, drive=0, **changes):
    summary = ArmSummary(100, *((1234 + i) * (1 + number / 7e3) for i in range(8)))
    found = Result(
        f"r{number}", "c1", f"h{drive}", drive, "hdd", f"domain-{drive}", f"wwn-{drive}",
        make.MODEL, LoadPoint.OSD_BENCH_DEPTH1, Verdict.B, 12, 12.3, 4096, "decided",
        4.9, 4.8, 5.0, "medians", summary, summary, ended_at_s=float(number),
        pool_term=PoolTerm(1.0 + number / 7e4, 0.05, Transport.SCSI, Role.BLOCK, "20.2.4", 1, True),
    )
    return replace(found, **changes)


def plan(number, *touched, status=RolloutStatus.DONE, change_status=ChangeStatus.APPLIED):
    changes = tuple(
        mode_change(
            f"p{number}.{i}", replace(DOMAIN, hostname="h1", domain_id=domain),
            status=change_status,
        )
        for i, domain in enumerate(touched)
    )
    return plan_of(*changes, plan_id=f"p{number}", created_at_s=float(number), status=status)


def named(*items):
    keys = {Campaign: "campaign_id", Rollout: "plan_id", Result: "record_id"}
    return {getattr(item, keys[type(item)]): item for item in items}


# ---- what goes


def test_old_campaigns_go_with_their_runs_and_the_newest_never_does():
    many = named(*(campaign(n) for n in range(BOUNDS.campaigns + 5)))
    runs = {f"c{n}.0": run(f"c{n}.0") for n in range(BOUNDS.campaigns + 5)}
    gone = surplus(many, runs, {}, {})
    assert gone.campaign_ids == ("c0", "c1", "c2", "c3", "c4")
    assert gone.run_ids == ("c0.0", "c1.0", "c2.0", "c3.0", "c4.0")
    huge = {f"c9.{i}": run(f"c9.{i}") for i in range(BOUNDS.runs + 1)}
    assert surplus(named(campaign(9)), huge, {}, {}).campaign_ids == ()
    assert surplus(named(campaign(9), campaign(8)), {**huge, "c8.0": run("c8.0")}, {}, {}
                   ).campaign_ids == ("c8",)


@pytest.mark.parametrize("state", [
    run("c0.0", RunStatus.RUNNING), run("c0.0", RunStatus.WAITING),
    run("c0.0", RunStatus.RELEASING), run("c0.0", RunStatus.ABORTED, restored=False),
])
def test_a_campaign_with_a_run_that_is_open_or_not_known_to_be_restored_stays(state):
    many = named(*(campaign(n) for n in range(BOUNDS.campaigns + 5)))
    assert "c0" not in surplus(many, {"c0.0": state}, {}, {}).campaign_ids


def test_results_that_recommendations_stand_on_go_last_and_never_all_of_a_model():
    rare = [
        result(n, drive=5000 + n, drive_model=DriveModel("ACME", "RARE", "1"))
        for n in range(BOUNDS.standing_min)
    ]
    common = [result(100 + n, drive=n) for n in range(BOUNDS.standing + 50)]
    results = named(*rare, *common)
    gone = set(surplus({}, {}, results, {}).result_ids)
    assert len(results) - len(gone) == BOUNDS.standing
    assert not gone & {item.record_id for item in rare}
    kept = [item for item in results.values() if item.record_id not in gone]
    before, after = recommend(list(results.values())), recommend(kept)
    assert [(r.drive_model, r.verdict) for r in before] == [
        (r.drive_model, r.verdict) for r in after]


def test_results_about_options_are_bounded_however_many_values_are_compared():
    modes = [result(n, drive=5000 + n) for n in range(BOUNDS.standing_min)]
    values = [
        result(100 + n, option=OptionTrial("nr_requests", "64", str(n)))
        for n in range(BOUNDS.standing + 50)
    ]
    gone = surplus({}, {}, named(*modes, *values), {}).result_ids
    # the oldest go, and no cache mode's for them
    assert sorted(gone) == sorted(item.record_id for item in values[:len(gone)])
    assert len(values) - len(gone) in range(BOUNDS.standing - len(modes), BOUNDS.standing + 1)


def test_results_that_newer_ones_replaced_go_beyond_a_bound():
    same_drive = named(*(result(n) for n in range(BOUNDS.others + 10)))
    gone = surplus({}, {}, same_drive, {}).result_ids
    assert len(gone) == 10 - WEIGHED_MAX
    assert "r0" in gone
    assert f"r{BOUNDS.others + 9}" not in gone
    fast = Finding(FindingCode.FLUSH_TOO_FAST, Severity.WARNING, "h0", "0.1 ms")
    same_drive["r0"] = result(0, findings=(fast,))  # what keeps write back from its drive model
    assert "r0" not in surplus({}, {}, same_drive, {}).result_ids
    # nor one without flushes, however many were too fast since
    all_fast = {name: replace(one, findings=(fast,)) for name, one in same_drive.items()}
    unsent = replace(fast, code=FindingCode.FLUSH_MISSING)
    all_fast["r0"] = result(0, findings=(unsent,))
    assert "r0" not in surplus({}, {}, all_fast, {}).result_ids
    drives = named(*(result(n, drive=n) for n in range(BOUNDS.standing + 10)))
    assert "r0" in surplus({}, {}, drives, {}).result_ids
    drives["r0"] = replace(drives["r0"], findings=(unsent,))
    assert "r0" not in surplus({}, {}, drives, {}).result_ids


@pytest.mark.parametrize("mine", [
    # one that decided, and three that leave no room for it
    [measured("m1", 1, 1.3, 6, 0.02), *(measured(f"m{n}", n, 1.03, 24, 0.1) for n in (2, 3, 4))],
    # three that decided nothing alone
    [measured(f"m{n}", n, 1.3, 8, 0.11) for n in (1, 2, 3)],
])
def test_what_was_weighed_together_is_kept_together_however_often_others_are_measured(mine):
    others = [
        result(10 * n + again, drive=1000 + n)
        for n in range(BOUNDS.others + 1) for again in (1, 2)
    ]
    gone = set(surplus({}, {}, named(*mine, *others), {}).result_ids)
    assert not gone & {item.record_id for item in mine}
    # and goes together, so that what is left says nothing else
    model = DriveModel("ACME", "MANY", "1")
    many = [
        replace(item, record_id=f"{item.record_id}.{n}", drive_id=f"w{n}", hostname=f"h{n}",
                drive_model=model, ended_at_s=item.ended_at_s + 10 * n)
        for n in range(BOUNDS.standing // len(mine) + 5) for item in mine
    ]
    gone = set(surplus({}, {}, named(*many), {}).result_ids)
    assert len(many) - BOUNDS.standing <= len(gone) < len(many) - BOUNDS.standing + len(mine)
    before = {item.weighed_id: item.verdict for item in standing(many)}
    after = {
        item.weighed_id: item.verdict
        for item in standing([item for item in many if item.record_id not in gone])
    }
    assert after.items() <= before.items()


def test_plans_that_were_never_carried_out_go_and_those_a_drive_stands_on_never_do():
    idle = [plan(n, status=RolloutStatus.PLANNED) for n in range(BOUNDS.plans + 3)]
    stands = [plan(100 + n, f"domain-{n}") for n in range(3 * BOUNDS.plans)]
    gone = surplus({}, {}, {}, named(*idle, *stands)).plan_ids
    assert gone == ("p0", "p1", "p2")


@pytest.mark.parametrize("why", [{"worse": Worse((0,), "slower", 9.0)}, {"by_will": True}])
def test_the_newest_plan_that_says_why_a_mode_went_back_stays_however_many_are_looked_at(why):
    back = [replace(
        plan(n, "domain-a", status=RolloutStatus.ROLLED_BACK,
             change_status=ChangeStatus.ROLLED_BACK), **why,
    ) for n in range(3)]
    idle = [plan(10 + n, status=RolloutStatus.PLANNED) for n in range(BOUNDS.plans)]
    assert surplus({}, {}, {}, named(*back, *idle)).plan_ids == ("p0", "p1")


def test_a_plan_that_says_why_a_mode_went_back_stays_though_later_ones_changed_the_rest():
    made = plan(0, "domain-a", "domain-b")
    kept, back = made.changes
    back = replace(back, status=ChangeStatus.ROLLED_BACK)
    mixed = replace(made, changes=(kept, back), worse=Worse((1,), "slower", 9.0))
    again = [plan(n, "domain-a") for n in range(1, BOUNDS.plans + 5)]
    assert "p0" not in surplus({}, {}, {}, named(mixed, *again)).plan_ids


def test_a_plan_goes_once_later_ones_changed_all_that_it_changed():
    again = [plan(n, "domain-a") for n in range(2, BOUNDS.plans + 5)]
    partly, wholly = plan(0, "domain-a", "domain-b"), plan(1, "domain-a")
    gone = surplus({}, {}, {}, named(partly, wholly, *again)).plan_ids
    assert "p0" not in gone
    assert gone[0] == "p1"
    failed = plan(1, "domain-a", status=RolloutStatus.ROLLING_BACK)
    assert "p1" not in surplus({}, {}, {}, named(partly, failed, *again)).plan_ids


def test_of_large_plans_that_were_never_carried_out_few_are_kept_and_always_the_newest():
    def large(number, count):
        return plan(
            number, *(f"d{i}" for i in range(count)), status=RolloutStatus.PLANNED,
            change_status=ChangeStatus.PLANNED,
        )

    bounds = replace(BOUNDS, plan_changes=10)
    kept = named(large(1, 3), large(2, 6), large(3, 5))
    assert beyond({}, {}, {}, kept, bounds).plan_ids == ("p1", "p2")
    assert beyond({}, {}, {}, named(large(1, 20)), bounds).plan_ids == ()


# ---- the module


def nobody(error):
    """Nobody waits for this write."""
    assert error is None


def kept_bytes(kv):
    return sum(len(key) + len(text.encode()) for key, text in kv.kept.items())


@pytest.mark.slow
def test_many_campaigns_and_plans_leave_a_store_of_bounded_size_that_still_works():
    kv, bounds = MonLikeKv(), Bounds(campaigns=3, records=4, others=2, plans=2)
    hosts = [(f"h{i}", (make.drive("sda", i),)) for i in range(3)]
    mgr = FakeMgr(*hosts, store=PromptQueue(kv), bounds=bounds)
    mgr.report_all()
    counts = []
    for number in range(10):
        code, _, error = mgr.command("campaign start", loads="depth1", pairs=4, accept_cost=True)
        assert code == 0, error
        mgr.settle()
        mgr.command("plan")
        mgr.step()
        if number > 3:  # but the audit log, which has a bound of its own
            logs = ("history/", "audit/", "changes/")
            counts.append(sum(not key.startswith(logs) for key in kv.kept))
    assert len(set(counts)) == 1
    shown = json.loads(mgr.command("campaign ls", format="json")[1])["campaigns"]
    assert [c["campaign_id"] for c in shown] == ["c8", "c9", "c10"]
    before = mgr.command("recommend")[1]
    assert "write through" in before
    mgr.restart()
    assert mgr.command("recommend")[1] == before
    assert json.loads(mgr.command("campaign ls", format="json")[1])["campaigns"] == shown
    assert len(json.loads(mgr.command("plan ls", format="json")[1])["plans"]) == 2
    assert not [key for key in kv.kept if key.startswith("period/")]
    assert mgr.exceptions == []


@pytest.mark.slow
def test_the_bounds_at_ten_thousand_drives_fit_the_mons():
    """Every bound reached at once: reports, agents, runs, results, plans and known values."""
    kv = MonLikeKv()
    archive = Archive(PromptQueue(kv))
    for h in range(1000):
        names = [f"wwn-0x5000c500{h:04d}{i:04d}" for i in range(10)]
        archive.put_later(REPORT, make.report(f"host{h:04d}", *(
            make.drive(f"sd{chr(97 + i)}", 10 * h + i, drive_id=name, domain_id=name,
                       serial=f"ZA1{h:04d}{i:02d}", wwn=name) for i, name in enumerate(names))))
        archive.put_later(AGENT, Agent(f"host{h:04d}", f"{h:032x}", f"{h:032x}", 1e9))
    three = (make.setup(), make.setup(LoadPoint.OSD_TRAFFIC), make.setup(LoadPoint.OSD_BENCH_BATCH))
    for number in range(BOUNDS.campaigns):
        archive.put_campaign(campaign(number), (), nobody)
    for number in range(BOUNDS.runs):
        state = run(f"c{number % BOUNDS.campaigns}.{number}")
        archive.put(RUN, replace(state, spec=replace(state.spec, experiments=three)), nobody)
    for number in range(BOUNDS.standing + BOUNDS.others):
        archive.put_later(RESULT, result(number, drive=number, warnings=("a warning " * 8,) * 3))
    for number in range(2 * BOUNDS.plans):
        archive.plans.put(plan(number, *(f"domain-{number}-{i}" for i in range(250))), nobody)
    archive.put_later(KNOWN, Knowns(tuple(
        Known(f"osd.{i}", "osd_mclock_max_capacity_iops_hdd", f"{300 + i / 7:.6f}", "write back")
        for i in range(10_000)
    )))
    for number in range(LINES_MAX):
        text = f"started on host{number:04d} wwn-0x5000c500{number:08d}"
        for log in (ADMINS_LOG, OTHERS_LOG):
            drive = About(f"host{number:04d}", (number,), f"wwn-0x5000c500{number:08d}")
            of_run = drive if log == OTHERS_LOG else None
            entry = HistoryEntry(1e9 + number, "mgr", f"c{number}.0", text, of_run)
            archive.put_later(log, entry, f"{number:010d}")
        told = About(
            f"host{number:04d}", (number,), f"wwn-0x5000c500{number:08d}", ("sda",), "write back",
            "write through", "osd_bench_depth1 better in write through", "applied, " + "x" * 40,
        )
        if number < CHANGES_MAX:
            archive.put_later(
                CHANGES_LOG, replace(entry, about=told), f"{number:010d}"
            )
    rng = random.Random(1)
    for osd_id in range(OSDS_MAX):
        archive.put_later(PROFILE, LoadProfile(tuple(
            HourLoad(490_000 + hour, *(rng.randrange(10**size) for size in (7, 6, 7, 10, 5, 4)))
            for hour in range(HOURS_MAX))), str(osd_id))
    assert kept_bytes(kv) + BOUNDS.records_bytes < STORE_BYTES_MAX
    assert len(archive.all(REPORT)) == 1000


@pytest.mark.parametrize("lost", [False, True])
def test_a_record_that_could_not_be_stored_is_not_lost_though_its_run_is_stored(lost):
    mgr = FakeMgr(("h1", (make.drive("sda", 0),)))
    mgr.report_all()
    mgr.store.fails = lambda key: key.startswith("record/")
    mgr.command("campaign start", loads="depth1", accept_cost=True)
    mgr.settle()
    assert mgr.inside.archive.names(RECORD) == []
    assert "c1.0.0" in mgr.inside.runs["c1.0"].state.finished
    assert [key for key in mgr.store.kept if key.startswith("period/c1.0/0/")]
    assert "WCACHE_STORE_FAILED" in mgr.command("status")[1]
    mgr.store.fails = lambda key: False
    if lost:
        mgr.restart()
    mgr.step(11.0)
    mgr.step()
    record = mgr.inside.archive.get(RECORD, "c1.0.0")
    assert len(record.pairs) >= 4
    assert (record.ended == RECOVERED) is lost
    assert not [key for key in mgr.store.kept if key.startswith("period/")]
    assert mgr.inside.analyses.results["c1.0.0"].verdict is Verdict.B
    assert "WCACHE_STORE_FAILED" not in mgr.command("status")[1]


def test_a_run_that_could_not_be_stored_is_stored_later():
    mgr = FakeMgr(("h1", (make.drive("sda", 0),)))
    mgr.report_all()
    mgr.command("campaign start", loads="depth1", accept_cost=True)
    mgr.step()
    mgr.store.fails = lambda key: key.startswith("run/")
    mgr.settle()
    mgr.store.fails = lambda key: False
    mgr.step(11.0)
    mgr.restart()
    assert mgr.inside.runs["c1.0"].over
    assert not mgr.engine.is_active()
