"""Which value verdicts speak for, and what becomes of those about options of OSDs."""

from dataclasses import replace
from types import MappingProxyType

import pytest
from mgr_fakes import builders as make
from rollout_world import plan_of
from wcache.core.change.change import ChangeStatus
from wcache.core.change.rollout_state import Worse
from wcache.core.config_database import Config, Entry
from wcache.core.errors import Refusal, RefusalKind
from wcache.core.hardware import BcacheState, OptionValue
from wcache.core.host_report import HostReport
from wcache.core.model import DriveModel, LoadPoint, Verdict
from wcache.core.options.entries import OptionTrial
from wcache.core.verdict.option_choice import OptionVerdict, choose
from wcache.knobs.knob import Asked
from wcache.knobs.options.osds import TIMES_MAX, Refusals, drifted, make_changes
from wcache.knobs.options.plan import by_admin, by_verdicts

A, B = Verdict.A, Verdict.B
SAME, OPEN, TORN = Verdict.NO_DIFFERENCE, Verdict.INSUFFICIENT, Verdict.CONFLICTING
FIRST, SECOND = (0.7, 0.8), (1.25, 1.43)  # intervals of which the whole is better for one value
MODEL = DriveModel("ACME", "HD1", "1.0")
DEFERRED = "bluestore_prefer_deferred_size_hdd"


def verdict(
    values, says, within=(0.7, 1.43), name="nr_requests", load=LoadPoint.OSD_BENCH_BATCH
):
    first, second = values.split(",")
    return OptionVerdict(
        OptionTrial(name, first, second), "hdd", str(MODEL), load, False, says,
        "too few pairs" if says is OPEN else "", 3, 0.75, *within,
        "99% of the mean of 3 drives", (),
    )


@pytest.mark.parametrize(
    ("now", "verdicts", "value"),
    [
        ("64", [("64,256", B)], "256"), ("256", [("64,256", B)], ""),
        ("64", [("256,64", A)], "256"), ("64", [("64,256", SAME)], ""),
        ("64", [("64,128", B), ("128,256", B)], "256"),
        ("64", [("64,128", B), ("64,256", B), ("128,256", A)], "128"),
        ("64", [("64,256", B), ("64,256", SAME)], "256"),
        ("64", [("64,256", B), ("64,256", OPEN)], "256"),
        ("64", [("64,256", B), ("64,256", OPEN, SECOND), ("256,64", OPEN, FIRST)], "256"),
        ("64", [("64,256", B), ("128,256", TORN), ("64,512", OPEN, FIRST)], "256"),
    ],
)
def test_a_value_is_left_for_one_that_was_better_than_it(now, verdicts, value):
    found = choose(now, [verdict(*one) for one in verdicts])
    assert (found.value, found.why_not) == (value, "")
    assert bool(found.verdicts) is bool(value)


@pytest.mark.parametrize(
    ("now", "verdicts", "why"),
    [
        ("32", [("64,256", B)], "32 was not compared: `ceph wcache ab nr_requests=32,64`"),
        ("64", [("64,256", OPEN)], "nr_requests=64,256: insufficient data, too few pairs"),
        ("64", [("64,128", B), ("64,256", B)], "which of 128 and 256 is best is not known"),
        ("64", [("64,256", B), ("64,256", A)], "256 against 64 is better at one load, or"),
        ("64", [("64,128", B), ("128,64", B), ("128,256", B), ("64,256", A)], "64"),
        ("1", [("1,2", B), ("2,3", B), ("3,1", B)], "which of"),
        ("64", [("64,256", TORN)], "nr_requests=64,256: conflicting"),
        ("64", [("64,256", TORN), ("128,256", B)], "nr_requests=64,256: conflicting"),
        ("64", [("64,256", B), ("64,256", TORN)], "worse at another (batch: conflicting)"),
        ("64", [("64,256", B), ("64,256", OPEN, FIRST)],
         "worse at another (batch: insufficient data, too few pairs)"),
        ("64", [("64,256", B), ("256,64", OPEN, SECOND)], "worse at another (batch: insuff"),
        ("256", [("64,256", A), ("64,256", OPEN, SECOND)], "worse at another (batch: insuff"),
        ("64", [("64,128", B), ("128,256", B), ("64,256", TORN)], "256 against 64 is better"),
        ("64", [("64,128", B), ("128,256", B), ("64,256", OPEN, FIRST)], "256 against 64 is"),
    ],
)
def test_what_verdicts_do_not_say_is_not_guessed(now, verdicts, why):
    found = choose(now, [verdict(*one) for one in verdicts])
    assert found.value == ""
    assert why in found.why_not


def test_the_load_that_decided_proves_the_change_and_clients_own_comes_first():
    both = [verdict("64,256", B), verdict("64,256", B, load=LoadPoint.OSD_TRAFFIC)]
    assert choose("64", both).proof is LoadPoint.OSD_TRAFFIC
    assert choose("64", both[:1]).proof is LoadPoint.OSD_BENCH_BATCH


# ---- options of drives, and what keeps them as they are

NOTHING = MappingProxyType({})


def of_drives(disputed=NOTHING, up=True, refusals=(), **more):
    """What verdicts plan for sda of h0, of osd.0 and osd.1."""
    drive = make.drive("sda", 0, 1, drive_model=MODEL, refusals=refusals, **more)
    state = replace(drive.state, options=(OptionValue("nr_requests", "64"),))
    report = make.report("h0", replace(drive, state=state))
    cluster = make.cluster([make.osd(0, "h0"), make.osd(1, "h0", up=up)])
    return by_verdicts(
        Asked("p1", "n", without=disputed), [verdict("64,256", B)], [report], cluster,
        Refusals(False),
    )


def of_bcache(disputed=NOTHING, up=True, refusals=(), value="writearound", **more):
    """What an admin's word plans for the same drive, behind a bcache device."""
    drive = make.drive(
        "sda", 0, 1, drive_model=MODEL, refusals=refusals,
        bcache=(BcacheState("bcache0", False, "writeback"),), **more,
    )
    state = replace(drive.state, options=(OptionValue("cache_mode", "writeback"),))
    report = make.report("h0", replace(drive, state=state))
    cluster = make.cluster([make.osd(0, "h0"), make.osd(1, "h0", up=up)])
    asked = Asked("p1", "n", option=f"cache_mode={value}", without=disputed)
    return by_admin(asked, [report], cluster)


@pytest.mark.parametrize("plan", [of_drives, of_bcache])
@pytest.mark.parametrize(("kept", "why"), [
    ({"disputed": {("h0", "domain-sda"): "its journal is of another cluster"}},
     "its journal is of another cluster"),
    ({"foreign_uses": ("swap",)}, "sda: it is shared with swap, which is not an OSD"),
    ({"up": False}, "osd.1 is not up"),
], ids=["in dispute", "others use it", "an OSD is down"])
def test_no_plan_names_a_drive_that_is_to_be_left_alone(plan, kept, why):
    assert len(plan().changes) == 1
    wanted = plan(**kept)
    assert wanted.changes == ()
    assert why in wanted.left_alone[0]


def test_where_the_journal_is_in_ram_no_plan_names_what_outlives_a_reboot():
    lost = (Refusal(RefusalKind.JOURNAL_LOST, "its folder is on tmpfs"),)
    assert of_bcache(refusals=lost).left_alone == ("h0 sda: sda: its folder is on tmpfs",)
    assert len(of_drives(refusals=lost).changes) == 1  # a reboot takes it away too
    pin = (Refusal(RefusalKind.NOT_PREPARED, "the boot rule does not name it"),)
    assert len(of_bcache(refusals=pin).changes) == 1  # no cache of the drive is touched


# ---- options of OSDs


def planned(name=DEFERRED, values="65536,0", says=B, stored=(), by_itself=False, default="65536",
            plans=(), without=NOTHING):
    hosts = ("h0", "h1", "h2")
    reports = [
        HostReport(host, "v", (make.drive("sda", index, drive_model=MODEL),))
        for index, host in enumerate(hosts)
    ]
    cluster = make.cluster([make.osd(index, host) for index, host in enumerate(hosts)])
    return make_changes(
        Asked("p1", "n", by_itself=by_itself, without=without), [verdict(values, says, name=name)],
        reports, cluster, Config(stored), lambda _: default, Refusals(by_itself, plans),
    )


def test_osds_are_given_values_of_their_own_by_host_and_read_back():
    wanted = planned(stored=(Entry("osd.1", DEFERRED, "65536"),))
    edits = [edit for change in wanted.changes for edit in change.edits]
    assert [(e.who, e.value, e.prior) for e in edits] == [
        ("osd.0", "0", None), ("osd.1", "0", "65536"), ("osd.2", "0", None)]
    assert [len(change.edits) for change in wanted.changes] == [1, 1, 1]
    first = wanted.changes[0]
    assert first.setting.knob == "options"
    assert (first.failure_domain, first.judged_on) == ("host h0", (0,))
    assert [(o.osd_id, o.value, o.prior) for o in first.setting.expect] == [(0, "0", "65536")]
    assert first.setting.manual == (f"ceph config set osd.0 {DEFERRED} 0",)


def test_an_osd_on_a_drive_that_an_admin_leaves_out_keeps_its_values_and_is_named():
    wanted = planned(without={("h1", "domain-sda"): "left out by --without=h1:sda"})
    assert [e.who for change in wanted.changes for e in change.edits] == ["osd.0", "osd.2"]
    assert wanted.left_alone == ("osd.1: left out by --without=h1:sda",)


def test_an_osd_that_has_the_better_value_or_one_that_was_not_compared_is_left():
    wanted = planned(stored=(Entry("osd.0", DEFERRED, "0"), Entry("osd.1", DEFERRED, "4096")))
    assert [edit.who for change in wanted.changes for edit in change.edits] == ["osd.2"]
    (line,) = wanted.left_alone
    assert "4096 was not compared" in line


def test_what_only_an_admin_may_follow_is_planned_for_him_alone():
    profile = {"name": "osd_mclock_profile", "values": "balanced,high_client_ops",
               "default": "balanced"}
    assert len(planned(**profile).changes) == 3
    wanted = planned(**profile, by_itself=True)
    assert wanted.changes == ()
    assert "only a plan that an admin asks for changes it" in wanted.left_alone[0]
    assert len(planned(by_itself=True).changes) == 3


def test_what_a_plan_took_back_or_what_others_set_again_and_again_is_left_to_an_admin():
    made = planned().changes
    worse = plan_of(*made, worse=Worse((0,), "slower", 2.0))
    applied = [replace(c, status=ChangeStatus.APPLIED) for c in made]
    gone = [
        plan_of(*applied, plan_id=f"p{n}", created_at_s=float(n)) for n in range(TIMES_MAX)
    ]
    for plans, why in (([worse], "went back in plan p1"), (gone, "was gone again")):
        wanted = planned(by_itself=True, plans=plans)
        assert wanted.changes == ()
        assert why in wanted.left_alone[0]
        assert planned(plans=plans).changes == made
    assert planned(by_itself=True, plans=gone[1:]).changes == made


def test_a_stored_value_that_somebody_has_changed_since_is_a_finding():
    plan = plan_of(*(replace(c, status=ChangeStatus.APPLIED) for c in planned().changes))
    stored = [Entry(f"osd.{index}", DEFERRED, "0") for index in range(3)]
    assert drifted([plan], {}, Config(stored), frozenset(), make.cluster(())) == []
    (found,) = drifted([plan], {}, Config(stored[1:]), frozenset(), make.cluster(()))
    assert (found.subject, found.detail) == (
        "osd.0", f"plan p1 set {DEFERRED} 0, and it is not set there")
    assert drifted([plan], {}, None, frozenset(), make.cluster(())) == []  # not read yet
