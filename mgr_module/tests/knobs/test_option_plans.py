"""Which value verdicts speak for, and what becomes of those about options of OSDs."""

from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from wcache.core.change.change_status import ChangeStatus
from wcache.core.change.rollout_state import Rollout, Worse
from wcache.core.config_database import Config, Entry
from wcache.core.host_report import HostReport
from wcache.core.model import DriveModel, LoadPoint, Verdict
from wcache.core.options.trial import OptionTrial
from wcache.core.verdict.of_options import OptionVerdict
from wcache.core.verdict.option_choice import choose
from wcache.knobs.knob import Asked
from wcache.knobs.options.drift import drifted
from wcache.knobs.options.osds import make_changes
from wcache.knobs.options.refusals import TIMES_MAX, Refusals

A, B = Verdict.WRITE_BACK, Verdict.WRITE_THROUGH
SAME, OPEN = Verdict.NO_DIFFERENCE, Verdict.INSUFFICIENT
MODEL = DriveModel("ACME", "HD1", "1.0")
DEFERRED = "bluestore_prefer_deferred_size_hdd"


def verdict(values, says, name="nr_requests", load=LoadPoint.OSD_BENCH_BATCH):
    first, second = values.split(",")
    return OptionVerdict(
        OptionTrial(name, first, second), "hdd", str(MODEL), load, False, says,
        "too few pairs" if says is OPEN else "", 3, 0.7, 0.8, "99% of the mean of 3 drives", (),
    )


@pytest.mark.parametrize(
    ("now", "verdicts", "value"),
    [
        ("64", [("64,256", B)], "256"), ("256", [("64,256", B)], ""),
        ("64", [("256,64", A)], "256"), ("64", [("64,256", SAME)], ""),
        ("64", [("64,128", B), ("128,256", B)], "256"),
        ("64", [("64,128", B), ("64,256", B), ("128,256", A)], "128"),
        ("64", [("64,256", B), ("64,256", SAME)], "256"),
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


# ---- options of OSDs


def planned(name=DEFERRED, values="65536,0", says=B, stored=(), by_itself=False, default="65536",
            plans=()):
    hosts = ("h0", "h1", "h2")
    reports = [
        HostReport(host, "p", "i", "v", (make.drive("sda", index, drive_model=MODEL),))
        for index, host in enumerate(hosts)
    ]
    cluster = make.cluster([make.osd(index, host) for index, host in enumerate(hosts)])
    return make_changes(
        Asked("p1", "n", by_itself=by_itself), [verdict(values, says, name)], reports, cluster,
        Config(stored), lambda _: default, Refusals(by_itself, plans),
    )


def test_osds_are_given_values_of_their_own_by_host_and_read_back():
    wanted = planned(stored=(Entry("osd.1", DEFERRED, "65536"),))
    edits = [edit for change in wanted.changes for edit in change.edits]
    assert [(e.who, e.value, e.prior) for e in edits] == [
        ("osd.0", "0", None), ("osd.1", "0", "65536"), ("osd.2", "0", None)]
    assert [len(change.edits) for change in wanted.changes] == [1, 1, 1]
    first = wanted.changes[0]
    assert (first.knob, first.failure_domain, first.judged_on) == ("options", "host h0", (0,))
    assert [(o.osd_id, o.value, o.prior) for o in first.expect] == [(0, "0", "65536")]
    assert first.manual == (f"ceph config set osd.0 {DEFERRED} 0",)


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
    worse = Rollout("p1", 1.0, made, worse=Worse((0,), "slower", 2.0))
    gone = [
        Rollout(f"p{n}", float(n), tuple(replace(c, status=ChangeStatus.APPLIED) for c in made))
        for n in range(TIMES_MAX)
    ]
    for plans, why in (([worse], "went back in plan p1"), (gone, "was gone again")):
        wanted = planned(by_itself=True, plans=plans)
        assert wanted.changes == ()
        assert why in wanted.left_alone[0]
        assert planned(plans=plans).changes == made
    assert planned(by_itself=True, plans=gone[1:]).changes == made


def test_a_stored_value_that_somebody_has_changed_since_is_a_finding():
    changes = tuple(replace(c, status=ChangeStatus.APPLIED) for c in planned().changes)
    plan = Rollout("p1", 1.0, changes)
    stored = [Entry(f"osd.{index}", DEFERRED, "0") for index in range(3)]
    assert drifted([plan], {}, Config(stored), frozenset()) == []
    (found,) = drifted([plan], {}, Config(stored[1:]), frozenset())
    assert (found.subject, found.detail) == (
        "osd.0", f"plan p1 set {DEFERRED} 0, and it is not set there")
    assert drifted([plan], {}, None, frozenset()) == []  # not read yet
