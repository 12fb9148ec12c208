"""The rules of the automation by themselves: windows, spending, drift, and what comes next."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wcache.core.automation.deciding import DriveSeen, Seen, Wish, begun, decide, turned
from wcache.core.automation.state import (
    ASIDE_MAX,
    Allowance,
    Applied,
    AutoState,
    ClassMode,
    Ended,
    Mode,
    PlannedAnew,
    Purpose,
    Tried,
    find_undone,
    is_open,
    mode_of,
    parse_windows,
)
from wcache.core.errors import MalformedError
from wcache.core.model import CacheMode, Verdict

WB, WT = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH
HOUR_S, DAY_S = 3600.0, 86400.0
THURSDAY_S = 0.0  # 1970-01-01
LIMITS = Allowance(quiet_s=0.0)
ON = AutoState(modes=(ClassMode("", Mode.APPLY),))


def drive(number, **changes):
    found = DriveSeen((f"h{number}", f"d{number}"), f"t{number}", "hdd", "M", WB)
    return replace(found, **changes)


def known(*drives):
    return replace(ON, known=tuple(item.token for item in drives))


@pytest.mark.parametrize(("text", "hour", "opened"), [
    ("", 3, True), ("02:00-04:00", 3, True), ("02:00-04:00", 4, False),
    ("22:00-06:00", 23, True), ("22:00-06:00", 5, True), ("22:00-06:00", 6, False),
    ("thu 00:00-24:00", 12, True), ("fri 00:00-24:00", 12, False),
    ("wed 22:00-06:00", 3, True), ("thu 22:00-06:00", 3, False),
    ("fri 00:00-01:00; thu 12:00-13:00", 12, True),
])
def test_a_window_is_open_at_its_hours_of_its_days(text, hour, opened):
    assert is_open(parse_windows(text), THURSDAY_S + hour * HOUR_S) is opened


@pytest.mark.parametrize(
    "text", ["at night", "25:00-26:00", "10:00", "10:99-11:00", "xxx 1:00-2:00"]
)
def test_a_window_that_makes_no_sense_is_refused(text):
    with pytest.raises(MalformedError):
        parse_windows(text)


def test_a_class_keeps_its_own_mode_until_all_are_set():
    state = turned(AutoState(), Seen(()), None, Mode.RECOMMEND, 1.0)
    state = turned(state, Seen(()), "ssd", Mode.APPLY, 2.0)
    assert [state.turned_at_s(name) for name in ("ssd", "hdd")] == [2.0, 1.0]
    found = [mode_of(state.modes, name) for name in ("ssd", "hdd")]
    assert found == [Mode.APPLY, Mode.RECOMMEND]
    assert mode_of(turned(state, Seen(()), None, Mode.OFF, 3.0).modes, "ssd") is Mode.OFF


@given(st.lists(st.sampled_from([WB, WT, None]), max_size=40))
def test_a_drive_is_contested_when_it_was_undone_twice_and_never_sooner(readings):
    stands, undone, before, times = {("h", "d"): Applied("p1", WT)}, (), WT, 0
    for number, mode in enumerate(readings):
        modes = {} if mode is None else {("h", "d"): mode}
        undone = find_undone(undone, stands, modes, float(number))
        if mode is WB and before is WT:
            times += 1
        before = mode or before
        assert any(item.contested for item in undone) is (times >= 2)


@pytest.mark.parametrize("quiet_s", [10.0, 100.0, 3600.0])
def test_quiet_time_begins_when_a_drive_comes(quiet_s):
    limits, came_at_s = Allowance(quiet_s=quiet_s), 1000.0
    state = decide(ON, Seen((drive(1),)), limits, 1.0).state
    seen = Seen((drive(1), drive(2)))
    state = decide(state, seen, limits, came_at_s).state
    wished_at_s = next(
        now_s for now_s in range(1000, 9000) if decide(state, seen, limits, float(now_s)).wish
    )
    assert wished_at_s - came_at_s == quiet_s


def test_what_an_admin_decides_anew_is_not_contested_any_more():
    undone, stands = (), {("h", "d"): Applied("p1", WT)}
    for number, mode in enumerate((WB, WT, WB)):
        undone = find_undone(undone, stands, {("h", "d"): mode}, float(number))
    assert undone[0].contested
    by_auto = find_undone(undone, {("h", "d"): Applied("p2", WT, "auto")}, {("h", "d"): WT}, 9.0)
    assert by_auto[0].contested
    assert find_undone(undone, {("h", "d"): Applied("p3", WT)}, {("h", "d"): WT}, 9.0) == ()
    assert find_undone(undone, {}, {("h", "d"): WB}, 9.0) == ()


def test_what_holds_a_host_ends_with_an_admins_word_on_a_class_of_its_drives():
    held = (PlannedAnew("options", "h1", "x"), PlannedAnew("options", "h2", "y"))
    state, seen = replace(ON, anew=held), Seen((drive(1), drive(2, device_class="ssd")))
    assert turned(state, seen, "ssd", Mode.APPLY, 1.0).anew == held[:1]
    assert turned(state, seen, None, Mode.APPLY, 1.0).anew == ()


@pytest.mark.parametrize("purpose", [Purpose.APPLY, Purpose.DIVIDE])
def test_a_plan_that_was_never_begun_says_nothing_and_costs_nothing(purpose):
    state = known(drive(1))
    knob = "options" if purpose is Purpose.DIVIDE else ""
    wish = Wish(purpose, ("hdd",), (drive(1).key,), "", tokens=("t1",), knob=knob)
    seen = Seen((), ended={"p1": Ended(False, "planned", begun=False)})
    spent = begun(state, wish, "p1", 0.0, 0, 1)
    assert decide(spent, seen, LIMITS, 0.0).state == state


def test_known_drives_get_the_standing_mode_and_new_ones_are_confirmed_before():
    old, new = drive(1), drive(2)
    seen = Seen((old, new), {("hdd", "M"): Verdict.B})
    state = known(old)
    found = decide(state, seen, LIMITS, 100.0)
    assert (found.wish.purpose, found.wish.keys) == (Purpose.APPLY, (old.key,))
    done = Seen((replace(old, mode=WT), new), seen.verdicts)
    found = decide(found.state, done, LIMITS, 101.0)
    assert (found.wish.purpose, found.wish.keys) == (Purpose.CONFIRM, (new.key,))
    state = begun(found.state, found.wish, "c2", 10.0, 100, 0)
    assert decide(state, done, LIMITS, 102.0).waiting == "c2 is under way"
    found = decide(state, replace(done, ended={"c2": Ended(True, "", 2.0, 8)}), LIMITS, 103.0)
    assert (found.state.spent.seconds, found.state.spent.bytes_written) == (2.0, 8)
    assert (found.wish.purpose, found.wish.keys) == (Purpose.APPLY, (new.key,))


@given(st.sampled_from(["refusal", "contested", "off", "held", "blocked", "window"]))
def test_whatever_forbids_it_nothing_is_applied(why):
    one = drive(1, refusal="x" if why == "refusal" else "")
    state, limits = known(one), LIMITS
    seen = Seen((one,), {("hdd", "M"): Verdict.B})
    if why == "contested":
        seen = replace(seen, contested=frozenset({one.key}))
    if why == "off":
        state = replace(state, modes=(ClassMode("", Mode.OFF),))
    if why == "blocked":
        seen = replace(seen, blocked="PGs")
    if why == "window":
        limits = replace(limits, windows=parse_windows("01:00-02:00"))
    if why == "held":
        wish = decide(state, seen, limits, 1.0).wish
        state = begun(state, wish, "p1", 0.0, 0, 1)
        state = decide(state, replace(seen, ended={"p1": Ended(False, "worse")}), limits, 2.0).state
    assert decide(state, seen, limits, 3.0).wish is None


def test_beside_a_plan_that_waits_others_are_begun_and_its_own_drives_are_left_alone():
    one, two = drive(1), drive(2)
    verdicts = {("hdd", "M"): Verdict.B}
    state = known(one, two)
    first = decide(state, Seen((one,), verdicts), LIMITS, 1.0)
    state = begun(first.state, first.wish, "p1", 0.0, 0, 1)
    seen = Seen((one, two), verdicts, of_plans=frozenset({one.key}))
    assert decide(state, seen, LIMITS, 2.0).waiting == "p1 is under way"
    seen = replace(seen, waits=frozenset({"p1"}))
    found = decide(state, seen, LIMITS, 3.0)
    assert (found.wish.purpose, found.wish.keys) == (Purpose.APPLY, (two.key,))
    state = begun(found.state, found.wish, "p2", 0.0, 0, 1)
    assert [item.owner for item in state.begun] == ["p1", "p2"]
    # one at a time, where it does not wait
    assert decide(state, seen, LIMITS, 4.0).waiting == "p2 is under way"
    ended = {"p1": Ended(False, "worse", drive_models=frozenset({"M"}))}
    state = decide(state, replace(seen, ended=ended), LIMITS, 5.0).state
    assert [item.owner for item in state.begun] == ["p2"]
    assert [item.held for item in state.tried] == ["worse"]


def test_so_many_plans_wait_beside_others_and_no_more():
    drives = [drive(number) for number in range(ASIDE_MAX + 2)]
    state, seen = known(*drives), Seen((), {("hdd", "M"): Verdict.B})
    for number, one in enumerate(drives):
        found = decide(state, replace(seen, drives=(one,)), LIMITS, 1.0)
        if found.wish is None:
            break
        state = begun(found.state, found.wish, f"p{number}", 0.0, 0, 1)
        seen = replace(seen, waits=seen.waits | {f"p{number}"})
    assert len(state.begun) == ASIDE_MAX + 1
    assert found.waiting == f"p{ASIDE_MAX} is under way"


@pytest.mark.parametrize("undone", [False, True])
def test_what_a_plan_went_back_on_is_held_though_no_host_of_it_has_reported_yet(undone):
    one = drive(1)
    seen = Seen((one,), {("hdd", "M"): Verdict.B})
    state = known(one)
    if undone:
        state = replace(state, tried=(Tried("hdd", "M", 0.5, undone=True),))
    state = begun(state, decide(state, seen, LIMITS, 1.0).wish, "p1", 0.0, 0, 1)
    ended = Ended(False, "aborted by an admin", undone=undone, drive_models=frozenset({"M"}))
    state = decide(state, Seen((), seen.verdicts, ended={"p1": ended}), LIMITS, 2.0).state
    assert decide(state, seen, LIMITS, 3.0).wish is None
    assert [item.held for item in state.tried] == ["aborted by an admin"]


@pytest.mark.parametrize(("verdicts", "done", "early_s", "late_s"), [
    ({}, False, 100.0, HOUR_S),  # it failed
    ({("hdd", "M"): Verdict.INSUFFICIENT}, True, 6 * DAY_S, 7 * DAY_S + 1.0),  # it is undecided
])
def test_a_campaign_is_tried_again_after_an_hour_or_a_week_and_not_at_once(
    verdicts, done, early_s, late_s
):
    seen = Seen((drive(1),), verdicts)
    found = decide(ON, seen, LIMITS, 100.0)
    state = begun(found.state, found.wish, "c1", 1.0, 1, 0)
    state = decide(state, replace(seen, ended={"c1": Ended(done)}), LIMITS, 200.0).state
    assert decide(state, seen, LIMITS, 200.0 + early_s).wish is None
    assert decide(state, seen, LIMITS, 200.0 + late_s).wish is not None
