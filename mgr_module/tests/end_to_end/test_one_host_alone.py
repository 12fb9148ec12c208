"""Whoever holds one host's key can harm that host and no other."""

import errno
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import (
    WB,
    WT,
    a_mgr,
    all_modes,
    apply_plan,
    fine,
    measured,
    ok,
    report_of,
    said,
    start,
)
from wcache.core import codec, versions
from wcache.core.drive.prior import PRIOR_BYTES_MAX, prior_from
from wcache.core.errors import MalformedError, StorageError
from wcache.core.host_report import HostReport
from wcache.core.model import Finding, FindingCode, Severity
from wcache.core.protocol import (
    DOMAIN_DRIVES_MAX,
    DrivesOutcome,
    FailureOutcome,
    LookRequest,
    Notice,
    StateOutcome,
)
from wcache.engine.storing.audit_log import PROBE_LINES_MAX
from wcache.services.probes import (
    BUCKETS_MAX,
    CALLS_BURST,
    DRIVE_BYTES_MAX,
    LINES_BURST,
    TokenBuckets,
    check_drives,
)

# ---- how often, how much


def calls_until_refused(mgr, hostname, body="x"):
    """How many calls in one moment are taken."""
    for number in range(10**5):
        code, _, error = mgr.send("wcache agent poll", hostname, body)
        if code == -errno.EAGAIN:
            assert "calls too often" in error
            return number
    raise AssertionError("never refused")


def test_a_host_that_calls_without_end_is_refused_in_one_line_and_the_others_are_heard():
    mgr = a_mgr()
    assert calls_until_refused(mgr, "h1") <= CALLS_BURST
    code, _, error = mgr.send("wcache agent poll", "h1", "x")
    assert (code, "\n" in error) == (-errno.EAGAIN, False)
    assert mgr.probes["h2"].turn() is not None


def test_what_is_long_counts_for_more_before_it_is_parsed():
    mgr = a_mgr()
    assert calls_until_refused(mgr, "h1", "[" * 900_000) < 10


def test_a_refused_host_is_heard_again_in_a_moment():
    mgr = a_mgr()
    calls_until_refused(mgr, "h1")
    mgr.now_s += 0.1
    assert mgr.probes["h1"].turn() is not None


@pytest.mark.slow
@pytest.mark.parametrize("poll_busy_s", [0.01, 0.05, 5.0])
def test_a_probe_that_polls_as_it_is_told_is_never_refused(poll_busy_s):
    mgr = a_mgr(poll_busy_s=poll_busy_s)
    start(mgr)
    probe = mgr.probes["h1"]
    for _ in range(3000):
        mgr.now_s += poll_busy_s
        for one in mgr.probes.values():
            one.turn(3)  # a post for each of three tasks
            assert one.error == ""
        mgr.loads.run()
        mgr.engine.tick()
    assert probe.set_count > 2
    mgr.settle()
    fine(mgr)


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0.1, 5)), max_size=60))
@settings(deadline=None)
def test_no_one_gets_more_than_a_burst_and_the_rate(calls):
    buckets, now_s, taken = TokenBuckets(10.0), 0.0, 0.0
    for after_s, cost in calls:
        now_s += after_s
        if buckets.take("h1", cost, 2.0, now_s):
            taken += cost
    assert taken <= 10.0 + 2.0 * now_s + 1e-6


@pytest.mark.slow
def test_names_without_end_are_not_remembered_for_ever():
    buckets = TokenBuckets(10.0)
    for number in range(2 * BUCKETS_MAX):
        assert buckets.take(f"h{number}", 1.0, 2.0, 0.0)
    assert len(buckets._buckets) <= BUCKETS_MAX


# ---- reports


def test_a_drive_that_says_too_much_is_refused_and_named():
    mgr = a_mgr()
    loud = Finding(FindingCode.DRIFT, Severity.WARNING, "sda", "x" * 900)
    error = report_of(mgr, "h1", make.drive("sda", 0, findings=(loud,) * 10))
    assert f"{DRIVE_BYTES_MAX} are the most" in error
    assert said(mgr, "status")["drives"] == 3, "what was known before"
    assert report_of(mgr, "h1", make.drive("sda", 0, findings=(loud,) * 7)) == ""


def test_a_drive_with_the_databases_of_sixty_osds_fits():
    mgr = a_mgr()
    layers = tuple(
        replace(make.drive("sda").state.layers[0], name=f"dm-{number}") for number in range(60)
    )
    drive = make.drive("sda", *range(60))
    big = replace(drive, state=replace(drive.state, layers=layers))
    assert report_of(mgr, "h1", big) == ""


# ---- the audit log


def shout(mgr, probe, rounds, start_at=0):
    for number in range(start_at, start_at + rounds):
        mgr.now_s += 1.0
        notices = tuple(Notice(f"n{number}.{i}", f"{number} {i}") for i in range(64))
        probe.post("", None, notices=notices)


@pytest.mark.slow
def test_notices_without_end_displace_nothing_of_admins_and_little_of_others():
    mgr = a_mgr()
    start(mgr)
    mgr.settle()
    before = [h for h in said(mgr, "history", limit=1000)["history"]]
    shout(mgr, mgr.probes["h1"], 1000)
    shown = said(mgr, "history", limit=1000)["history"]
    kept = [h for h in before if h["who"] != "probe h1"]
    assert [h for h in shown if h["who"] != "probe h1"] == kept
    lines = [h for h in shown if h["who"] == "probe h1"]
    assert len(lines) == PROBE_LINES_MAX
    assert "lines before it were too many" in lines[-1]["text"]


def test_a_probe_that_restores_sixty_drives_at_once_is_heard_in_full():
    mgr = a_mgr()
    notices = tuple(Notice(f"n{i}", f"drive {i} is back") for i in range(60))
    mgr.probes["h1"].post("", None, notices=notices)
    text = ok(mgr.command("history", limit=1000))
    assert all(f"drive {i} is back" in text for i in range(60))
    assert LINES_BURST > 60


def test_notices_of_one_host_do_not_make_those_of_another_be_told_twice():
    mgr = a_mgr()
    told = (Notice("n1", "the one and only", "domain-sdc"),)
    mgr.probes["h2"].post("", None, notices=told)
    shout(mgr, mgr.probes["h1"], 50)
    mgr.probes["h2"].post("", None, notices=told)
    assert ok(mgr.command("history", limit=1000)).count("the one and only") == 1


def test_a_host_that_changes_its_report_all_the_time_makes_the_mons_write_seldom():
    mgr = a_mgr()
    probe = mgr.probes["h1"]
    for number in range(20):
        drive = make.drive("sda", 0, size_bytes=number)
        assert report_of(mgr, "h1", drive) == ""
    assert versions.loads(
        HostReport, mgr.store.kept["report/h1"], bytes_max=10**6, what="report"
    ).drives[0].size_bytes == 19
    assert all_modes(mgr) == {WB}
    assert probe.error == ""


# ---- numbers


@pytest.mark.parametrize(
    "number", ["9" * 900_000, "-" + "9" * 900_000, "0." + "1" * 900_000, "1e" + "9" * 900_000],
    ids=["int", "negative", "fraction", "exponent"],
)
def test_an_endless_number_is_refused_before_it_is_read(number):
    with pytest.raises(MalformedError, match=r"a number has 90000\d characters"):
        codec.parse_json(f'{{"version": {number}}}', bytes_max=10**6, what="post")
    mgr = a_mgr()
    code, _, error = mgr.send("wcache agent post", "h1", f'{{"version": {number}}}')
    assert (code, "\n" in error) == (-errno.EINVAL, False)


@given(st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False))
def test_every_number_that_a_field_can_hold_is_read(number):
    assert codec.parse_json(json.dumps([number]), bytes_max=1000, what="x") == [number]


# ---- what a look says


@pytest.mark.slow
def test_a_look_that_says_too_much_does_not_take_the_way_back_of_other_hosts():
    mgr = FakeMgr(
        ("h1", (make.drive("sda", 0),)),
        ("h2", tuple(make.drive(f"sd{chr(98 + i)}", i + 1) for i in range(4))),
    )
    mgr.report_all()
    start(mgr)
    mgr.settle(20000)
    mgr.report_all()
    plan_id = said(mgr, "plan")["plan_id"]
    hostile = mgr.probes["h2"]
    real, names = hostile.do, "x" * 1000

    def do(task):
        outcome = real(task)
        if not isinstance(task.request, LookRequest):
            return outcome
        (drive,) = outcome.drives
        many = tuple(replace(drive, drive_id=f"{names}{i}", serial=names, wwn=names)
                     for i in range(60))
        return DrivesOutcome((drive, *many))

    hostile.do = do
    ok(mgr.command("apply", plan_id=plan_id))
    mgr.settle(3000)
    assert set(mgr.probes["h1"].modes().values()) == {WT}
    assert set(hostile.modes().values()) == {WB}
    assert len(mgr.store.get(f"rollout/{plan_id}")) < 20_000
    mgr.restart()
    said(mgr, "rollback", plan_id=plan_id)
    mgr.settle(3000)
    assert all_modes(mgr) == {WB}


def looked(mgr, change):
    """How a plan of one change ends whose look is answered with `change` of the drive."""
    probe = mgr.probes["h1"]
    real = probe.do

    def do(task):
        outcome = real(task)
        if isinstance(task.request, LookRequest):
            return DrivesOutcome(tuple(change(drive) for drive in outcome.drives))
        return outcome

    probe.do = do
    plan_id = apply_plan(mgr)
    mgr.settle()
    assert all_modes(mgr) == {WB}, "nothing was touched"
    return said(mgr, "plan show", plan_id=plan_id)["reason"]


@pytest.mark.slow
def test_a_look_at_another_drive_than_the_host_has_reported_is_no_prior_state():
    other = looked(measured(), lambda drive: replace(drive, drive_id="another"))
    assert "are not those that h1 has reported" in other
    domain = looked(measured(), lambda drive: replace(drive, domain_id="another"))
    assert "is not of domain-sda alone" in domain


def test_a_prior_state_that_is_too_large_is_not_stored_and_nothing_is_touched():
    drives = tuple(
        make.drive("sda", 0, drive_id=f"n{i}", domain_id="n", serial="x" * 900) for i in range(30)
    )
    with pytest.raises(StorageError, match=f"{PRIOR_BYTES_MAX} is the limit"):
        prior_from("", "n", drives)


@pytest.mark.parametrize("name", ["drives", "before", "after", "drive_ids"])
def test_no_outcome_says_more_of_a_drive_than_a_report(name):
    large = [{"layers": "x" * DRIVE_BYTES_MAX}]
    with pytest.raises(MalformedError, match="are the most"):
        check_drives({"outcome": {name: large}})
    with pytest.raises(MalformedError, match="are the most"):
        check_drives({"notices": [{"prior": large}]})
    check_drives({"outcome": {name: [{}]}, "notices": [None]})


def test_an_outcome_with_more_drives_than_a_domain_has_is_refused():
    state = make.drive("sda").state
    many = (state,) * (DOMAIN_DRIVES_MAX + 1)
    for outcome in (StateOutcome(many, (), (), False), StateOutcome((), many, (), False),
                    FailureOutcome("x", after=many),
                    DrivesOutcome((make.drive("sda"),) * (DOMAIN_DRIVES_MAX + 1))):
        plain = codec.to_plain(outcome)
        with pytest.raises(MalformedError, match="at most 64 are taken"):
            codec.decode(type(outcome), plain, "outcome")


def test_a_drive_whose_name_is_no_kernel_name_is_refused():
    assert "longer than 64 characters" in report_of(a_mgr(), "h1", make.drive("x" * 65, 0))
