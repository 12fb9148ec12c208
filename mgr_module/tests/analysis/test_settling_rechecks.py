"""Where noise keeps an experiment going, the drive is watched for what a toggle leaves behind."""

import math
import random
from dataclasses import replace

import pytest
from bench_decision import synthetic
from mgr_fakes import builders as make
from run_world import OTHER_DRIVE, begun
from wcache.analysis.decision import Materiality
from wcache.analysis.experiment import analyse
from wcache.analysis.pairs import differences
from wcache.core import events
from wcache.core.errors import MalformedError
from wcache.core.experiment import settling
from wcache.core.experiment.budget import client_wait_s
from wcache.core.experiment.design import RECHECK, Slot
from wcache.core.experiment.run_state import IN_PROGRESS
from wcache.core.experiment.settling import RECHECK_PAIRS, due_check
from wcache.core.loads import spread_at_s
from wcache.core.model import Arm, LoadPoint
from wcache.core.record import CounterDelta, Period, Settling

A, B = Arm
SETUP = replace(synthetic.SETUP, settle_s=0.4, watch_samples=16)
FIRST, AGAIN = (
    tuple(Slot(RECHECK + check, second) for check in checks for second in (False, True))
    for checks in ((0, 1), (2, 3))
)


# ---- when


def measured(pairs, ratio, setup=SETUP):
    """The periods of so many pairs, each as long as the next."""
    return {
        Slot(index, second): Period(
            arm, 0.0, 0.4, 1.0, (int(1e6 * (ratio if arm is A else 1)),) * 10
        )
        for index in range(pairs) for second in (False, True)
        for arm in (Slot(index, second).arm(setup.seed),)
    }


def due(periods, setup=SETUP):
    """The watches that are made one after the other, until none is due."""
    found, periods = [], dict(periods)
    while (slot := due_check(setup, periods)) is not None:
        found.append(slot)
        periods[slot] = Period(slot.arm(setup.seed), 0.0, 0.0, 1.0)
    return tuple(found)


@pytest.mark.parametrize("ratio", [1.5, 1 / 1.5])
def test_it_is_watched_after_twelve_pairs_and_after_thirty_six_whichever_mode_is_faster(ratio):
    assert RECHECK_PAIRS == (12, 12, 36, 36)
    for pairs in (1, 4, 11, 13, 35, 37, 80):
        assert due(measured(pairs, ratio)) == ()
    assert due(measured(12, ratio)) == FIRST
    assert due(measured(36, ratio)) == AGAIN
    half = measured(12, ratio)
    del half[Slot(11, True)]
    assert due(half) == ()


def test_it_is_not_watched_where_the_modes_lie_together_or_no_pair_follows():
    assert due(measured(12, 1.08)) == ()
    assert due(measured(12, 1.5), replace(SETUP, pairs_max=12)) == ()
    assert due(measured(36, 1.5), replace(SETUP, pairs_max=36)) == ()
    assert due(measured(12, 1.5), replace(SETUP, watch_samples=0)) == ()
    crossed = replace(SETUP, crossed=OTHER_DRIVE)  # the other drive may be the one that differs
    assert due({Slot(i, s): p for (i, s), p in numbered(12)}, crossed) == FIRST


def numbered(pairs):
    return [
        ((index, second), make.period(A)) for index in range(pairs) for second in (False, True)
    ]


@pytest.mark.parametrize("crossed", [None, OTHER_DRIVE])
@pytest.mark.parametrize("lost", [None, 1, 3])
def test_a_run_makes_each_late_watch_once_whatever_interrupts_it(crossed, lost):
    setup = make.setup(
        seed=2, settle_s=0.4, watch_samples=12, pairs_max=16, crossed=crossed
    )
    mgr = begun(setup)
    late = 0
    for _ in range(4000):
        if mgr.machine.over:
            break
        slot = mgr.machine._now.slot
        if mgr.load and slot.index >= RECHECK:
            assert mgr.load.request.spread
            late += 1
            if late == lost:
                mgr.restart()
                continue
        if mgr.load and not slot.checks:
            arm = slot.arm(setup.seed)
            slower = replace(mgr.good_samples(), samples_ns=(int(1e6 * (1 + (arm is A))),) * 10)
            mgr.now_s += 0.3
            mgr.give(events.Answered(mgr.load.token, slower))
        else:
            mgr.answer()
    record = mgr.records["c1.0.0"]
    assert len(record.pairs) == 16
    assert [p.arm for p in record.late_watches] == [slot.arm(2) for slot in FIRST]
    assert late == len(FIRST) + (lost is not None)
    # each was made after the twelfth pair, and counts
    starts = sorted(p.started_at_s for pair in record.pairs[:12]
                    for p in (pair.a, pair.b))
    assert all(watch.started_at_s > starts[-1] for watch in record.late_watches)
    assert set(record.late_watches) < set(record.periods)


# ---- what they do


def watch(rng, arm, started_at_s, fades, sd=0.2, count=32, seconds=4.0):
    """A watch of a drive that is slower after a toggle, by modes: (factor, fading in s)."""
    at_s = [spread_at_s(seconds, count, i) for i in range(count)]
    factor, fading_s = fades.get(arm, (1.0, 1.0))
    logs = [
        math.log(1e7) + rng.gauss(0, sd) + math.log(factor) * math.exp(-t / fading_s)
        for t in at_s
    ]
    return Period(
        arm, started_at_s, 0.0, seconds, tuple(int(math.exp(y)) for y in logs),
        at_ns=tuple(int(t * 1e9) for t in at_s),
    )


def made(seed, pairs, ratio, fades, sd=0.2):
    """A record whose periods say `ratio`, watched after its twelfth pair."""
    rng = random.Random(seed)
    record = synthetic.record(synthetic.lognormal(rng, ratio=ratio, period_sd=0.03), pairs)
    watches = tuple(
        watch(rng, arm, 23.2 + 0.1 * i, fades, sd) for i, arm in enumerate((A, B, B, A))
    )
    return replace(
        record, late_watches=watches, settling=Settling(0.0),
        setup=replace(record.setup, watch_samples=16),
    )


@pytest.mark.parametrize(("ratio", "fades", "stands"), [
    (1.5, {}, True),
    (1 / 1.5, {}, True),
    (1.5, {A: (3.0, 1.0)}, False),  # all of the difference may be what a toggle leaves
    (1 / 1.5, {B: (3.0, 1.0)}, False),
    (1.5, {B: (3.0, 1.0)}, True),  # it hides a part of the difference
    (1.5, {A: (3.0, 1.0), B: (3.0, 1.0)}, False),  # no fading makes up for another one
    (1.0, {A: (3.0, 1.0)}, False),  # nothing differs, or a difference is made up for
])
def test_a_verdict_falls_with_what_fades_and_might_be_all_of_it(ratio, fades, stands):
    waiting = 0
    for seed in range(10):
        record = made(seed, 30, ratio, fades)
        result = analyse(record, Materiality())
        plain = analyse(replace(record, late_watches=()), Materiality())
        assert plain["verdict"] != "insufficient data"
        found = [item["code"] for item in result["findings"]]
        if stands and "checked again" in result["why"]:
            waiting += 1  # chance raises a suspicion in one of ten
        elif stands:
            assert result["verdict"] == plain["verdict"]
        else:
            assert (result["verdict"], found) == ("insufficient data", ["WCACHE_CARRYOVER"])
            assert result["stop"]
            assert "increase settle_s" in result["why"]
    assert waiting <= 3


def suspected_only():
    """A record whose rechecks raise a suspicion, and no more."""
    for seed in range(200):
        record = made(seed, 20, 1.5, {A: (1.9, 1.0)}, sd=0.45)
        gains = (settling.RECHECK_SUSPECTED, settling.RECHECK_BELIEVED)
        if [bool(settling.left_ln(record.late_watches, 0.0, gain)) for gain in gains] == [
            True, False
        ]:
            return record
    raise AssertionError("no seed raises a suspicion alone")


def test_a_suspicion_makes_a_verdict_wait_while_more_rechecks_are_to_come():
    record = suspected_only()
    waiting = analyse(replace(record, ended=IN_PROGRESS), Materiality())
    assert waiting["verdict"] == "insufficient data"
    assert "checked again after 36 pairs" in waiting["why"]
    assert not waiting["stop"]
    assert waiting["findings"] == []
    last = replace(record, setup=replace(record.setup, pairs_max=36), ended=IN_PROGRESS)
    for none_to_come in (record, last):
        assert analyse(none_to_come, Materiality())["verdict"] == "write through"


def test_a_suspicion_does_not_put_off_a_transient_that_is_certain():
    record = suspected_only()

    def slow_at_first(pair):
        plain = pair.b.samples_ns
        slow = tuple(int(1.5 * ns) for ns in plain[:9]) + plain[9:]
        return replace(pair, a=replace(pair.a, samples_ns=slow))

    slowed = tuple(map(slow_at_first, record.pairs))
    result = analyse(replace(record, pairs=slowed, ended=IN_PROGRESS), Materiality())
    assert [item["code"] for item in result["findings"]] == ["WCACHE_CARRYOVER"]
    assert result["stop"]


def test_clients_wait_in_a_watch_as_in_a_period_that_lasts_as_long():
    setup = replace(SETUP, load_point=LoadPoint.OSD_TRAFFIC)
    back, through = (
        Period(arm, 0.0, 0.4, 1.4, counters=(CounterDelta("commit_lat", sum_s, 100),))
        for arm, sum_s in ((A, 2.0), (B, 1.0))
    )
    seen = [watch(random.Random(1), arm, 0.0, {}, count=24) for arm in (A, B)]
    assert client_wait_s(setup, [back, through]) == pytest.approx(1.0)
    assert client_wait_s(setup, [back, through, *seen]) == pytest.approx(5.0)
    assert client_wait_s(setup, seen) == 0.0


def test_nothing_is_guessed_of_a_time_after_the_last_sample():
    record = made(1, 20, 1.5, {A: (3.0, 1.0)})
    assert set(settling.left_ln(record.late_watches, 3.0, 5.0)) == {A}
    assert settling.left_ln(record.late_watches, 4.5, 0.0) == {}
    assert settling.left_ln((), 0.0, 0.0) == {}


def test_a_drive_that_flushes_too_fast_is_named_whatever_else_is_in_doubt():
    record = made(1, 20, 1 / 1.5, {B: (3.0, 1.0)})
    slow = [item["code"] for item in analyse(record, Materiality())["findings"]]
    assert slow == ["WCACHE_CARRYOVER"]

    # the same, 1,000 times faster than a disk can write
    def faster(period):
        return replace(period, samples_ns=tuple(ns // 1000 for ns in period.samples_ns))

    fast = analyse(synthetic.altered(record, faster, faster), Materiality())["findings"]
    assert [item["code"] for item in fast] == ["WCACHE_CARRYOVER", "WCACHE_FLUSH_TOO_FAST"]


@pytest.mark.parametrize(("change", "said"), [
    (lambda record: replace(record, pairs=record.pairs[:11]), "fewer than 12 pairs"),
    (lambda record: replace(record, setup=replace(record.setup, watch_samples=8)),
     "has 32 samples, but its setup allows 16"),
])
def test_late_watches_that_cannot_be_are_refused(change, said):
    with pytest.raises(MalformedError, match=said):
        analyse(change(made(1, 20, 1.5, {})), Materiality())


def test_whatever_late_watches_say_there_is_a_verdict():
    record = made(1, 20, 1.5, {})
    steep = tuple(
        replace(
            item, samples_ns=tuple(int(1e18 * math.exp(-1.2 * i)) for i in range(32)),
            at_ns=tuple(3_960_000_000 + i * 1_000_000 for i in range(32)),
        )
        for item in record.late_watches
    )
    assert analyse(replace(record, late_watches=steep), Materiality())["verdict"]


@pytest.mark.slow
def test_samples_that_hang_together_are_not_taken_for_something_that_fades():
    rng, seen = random.Random(5), 0
    for _ in range(100):
        watches = []
        for arm in (A, B, B, A):
            level, logs = 0.0, []
            for _ in range(32):
                level = 0.5 * level + rng.gauss(0, 0.3)
                logs.append(math.log(1e7) + level)
            plain = watch(rng, arm, 0.0, {})
            watches.append(replace(plain, samples_ns=tuple(int(math.exp(y)) for y in logs)))
        seen += bool(settling.left_ln(watches, 0.0, settling.RECHECK_BELIEVED))
    assert seen <= 8


def test_a_period_after_a_late_watch_follows_a_toggle():
    def stays(seed, late):
        setup = replace(synthetic.SETUP, seed=seed)
        draw = synthetic.lognormal(random.Random(1), ratio=1.2)
        pairs = synthetic.record(draw, 14, setup=setup).pairs
        return len(differences(pairs, "", late).stays), pairs[11].first is pairs[12].first.other

    between = (Period(A, 23.5, 0.0, 0.1),)
    for seed in range(20):
        plain, without_toggle = stays(seed, ())
        assert stays(seed, between)[0] == plain - without_toggle
