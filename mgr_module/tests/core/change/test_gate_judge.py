"""The gate's judgement holds what it promises: by simulation, and its numbers by known values."""

import random
from dataclasses import replace

import pytest
from wcache.core.change.gate.blocks import Difference, mean_error
from wcache.core.change.gate.evidence import READS, HostShare, Sums, share
from wcache.core.change.gate.judge import (
    BLOCKS_BEFORE,
    LEVEL_ERROR,
    Effect,
    judge,
    judge_all,
    level_known,
    load_of,
)
from wcache.core.loads import Block, OsdBlock
from wcache.core.text import risen, since


def blocks(count, latency_us, osds=(0, 1, 2, 3), seed=0):
    drawn = random.Random(seed)
    return [
        Block(5.0, tuple(
            OsdBlock(o, latency_us(o) * drawn.lognormvariate(0, 0.05), 100) for o in osds))
        for _ in range(count)
    ]


def test_what_happens_to_all_is_nobodys_fault():
    before, busy = blocks(48, lambda o: 1000.0), blocks(96, lambda o: 3000.0, seed=1)
    assert judge(before, busy, (0,), (1, 2, 3)).verdict is Effect.NO_WORSE
    assert judge(before, busy, (0,), ()).verdict is Effect.WORSE


def with_reads(count, write_us, read_us, seed):
    """Blocks with reads beside the writes; 0 where there are none."""
    writes = blocks(count, lambda o: write_us(o) or 1.0, seed=seed)
    reads = blocks(count, lambda o: read_us(o) or 1.0, seed=seed + 100)
    return [
        Block(5.0, tuple(
            OsdBlock(w.osd_id, w.latency_us if write_us(w.osd_id) else 0.0, 100,
                     r.latency_us if read_us(w.osd_id) else 0.0, 100)
            for w, r in zip(one.osds, other.osds)
        ))
        for one, other in zip(writes, reads)
    ]


@pytest.mark.parametrize(("writes", "reads", "verdict", "of"), [
    (1.0, 1.0, Effect.NO_WORSE, "commit"),
    (1.0, 1.5, Effect.WORSE, "read"),
    (1.5, 1.0, Effect.WORSE, "commit"),
    (0.5, 1.5, Effect.WORSE, "read"),
    (0.5, 1.0, Effect.NO_WORSE, "read"),
    (0.5, 0.5, Effect.BETTER, "commit"),
    (None, 1.5, Effect.WORSE, "read"),
    (1.5, None, Effect.WORSE, "commit"),
    (None, 1.0, Effect.NO_WORSE, "read"),
])
def test_of_writes_and_reads_the_worse_one_counts_and_what_nobody_does_is_left_out(
    writes, reads, verdict, of
):
    def made(factors, usual_us):
        return lambda o: 0.0 if factors is None else usual_us * (factors if o == 0 else 1.0)

    calm = [None if each is None else 1.0 for each in (writes, reads)]
    before = with_reads(48, made(calm[0], 1000.0), made(calm[1], 400.0), 1)
    after = with_reads(96, made(writes, 1000.0), made(reads, 400.0), 2)
    found, *_ = judge_all(before, after, {"a kind": (0,)}, (1, 2, 3), reads=True)
    assert (found.verdict, found.of) == (verdict, of)
    assert f"{of} latency" in found.words
    both = (before, [block.of_reads for block in before])
    assert "" in [load_of(each, (0,), (1, 2, 3))[2] for each in both]


def test_with_neither_writes_nor_reads_nothing_can_be_judged():
    none = with_reads(48, lambda o: 0.0, lambda o: 0.0, 1)
    assert "clients write too little to osd.0" in load_of(none, (0,), (1, 2, 3))[2]
    found, *_ = judge_all(none, none, {"a kind": (0,)}, (1, 2, 3), reads=True)
    assert found.verdict is Effect.UNDECIDED


@pytest.mark.parametrize(("gone", "why"), [
    ((0,), "osd.0 carried too little load since"),
    ((1,), "only 2 unchanged OSDs are left, 3 are needed"),
])
def test_an_osd_that_leaves_makes_it_undecided_and_is_named(gone, why):
    before = blocks(48, lambda o: 1000.0)
    left = tuple(o for o in range(4) if o not in gone)
    found = judge(before, blocks(96, lambda o: 1000.0, osds=left), (0,), (1, 2, 3))
    assert found.verdict is Effect.UNDECIDED
    assert why in found.words
    assert found.settle


def test_one_control_of_many_that_leaves_is_left_out():
    osds = tuple(range(6))
    before = blocks(48, lambda o: 1000.0, osds=osds)
    found = judge(before, blocks(96, lambda o: 1000.0, osds=osds[:5]), (0,), osds[1:])
    assert (found.verdict, found.controls) == (Effect.NO_WORSE, 4)


@pytest.mark.parametrize("factor", [1.7, 3.0, 100.0])
@pytest.mark.parametrize(("worse", "verdict"), [
    (1.0, Effect.NO_WORSE), (1.3, Effect.WORSE), (0.5, Effect.BETTER)])
def test_a_control_that_stalls_hides_nothing_and_blames_nobody(factor, worse, verdict):
    osds = tuple(range(5))
    before = blocks(48, lambda o: 1000.0, osds=osds)
    slow = blocks(48, lambda o: 1000.0 * (factor if o == 1 else 1.0), osds=osds)
    after = {0: worse, 1: factor}
    found = judge(before, blocks(32, lambda o: 1000.0 * after.get(o, 1.0), osds=osds, seed=1),
                  (0,), osds[1:])
    assert (found.verdict, found.controls) == (verdict, 3)
    # one that stalled until the change, and is well since
    found = judge(slow, blocks(32, lambda o: 1000.0 * (worse if o == 0 else 1.0), osds=osds,
                               seed=1), (0,), osds[1:])
    assert (found.verdict, found.controls) == (verdict, 3)


def test_where_too_few_controls_behave_alike_it_is_undecided():
    before = blocks(48, lambda o: 1000.0)
    found = judge(before, blocks(96, lambda o: 9000.0 if o == 1 else 1000.0), (0,), (1, 2, 3))
    assert found.verdict is Effect.UNDECIDED
    assert "only 2 of 3 unchanged OSDs still behave alike, 3 are needed" in found.words


def test_noise_that_hides_the_answer_is_undecided_and_never_goes_on():
    drawn = random.Random(5)

    def wild(count):
        return [Block(5.0, tuple(
            OsdBlock(o, 1000.0 * drawn.lognormvariate(0, 1.0), 9) for o in range(4)))
            for _ in range(count)]

    found = judge(wild(48), wild(96), (0,), (1, 2, 3))
    assert found.verdict is Effect.UNDECIDED
    assert not found.goes_on
    assert "times as many blocks" in found.settle


def test_all_looks_of_a_rollout_spend_one_error_rate_and_the_first_ones_most():
    parts = [share(look) for look in range(1, 100_000)]
    assert sum(parts) == pytest.approx(1.0, abs=1e-4)
    assert sum(parts) < 1.0
    assert parts == sorted(parts, reverse=True)
    assert sum(parts[:4]) > 0.4


def test_steps_together_are_their_weighted_mean_and_a_quiet_step_counts_no_more():
    one, other = Difference(0.1, 0.03, 10.0), Difference(0.4, 0.001, 10.0)
    found = Sums().beside(one, 2.0, {}).beside(other, 1.0, {})
    assert found.steps == 2
    assert found.difference.mean == pytest.approx(0.2)
    assert found.difference.error == pytest.approx((0.06**2 + 0.001**2) ** 0.5 / 3.0)
    assert found.difference.freedom == pytest.approx(10.0, rel=0.01)
    # two steps alike: twice the freedom
    same = Sums().beside(one, 2.0, {}).beside(one, 2.0, {})
    assert same.difference.freedom == pytest.approx(20.0)
    assert same.difference.error == pytest.approx(0.03 / 2**0.5)


def of_two_hosts(weight, moved, squares, fourths, steps):
    """What two other hosts have shown, each half of it."""
    hosts = (
        HostShare(host, weight / 2, moved / 2, squares / 2, fourths / 2) for host in ("h8", "h9")
    )
    return Sums("a kind", "commit", weight, moved, squares, fourths, steps, hosts=tuple(hosts))


def test_what_steps_before_have_shown_decides_what_one_by_itself_cannot():
    before, after = blocks(10, lambda o: 1000.0, seed=1), blocks(10, lambda o: 1000.0, seed=2)
    past = of_two_hosts(weight=100.0, moved=0.0, squares=0.3, fourths=1e-3, steps=5)
    late = {"look": 50}
    assert judge(before, after, (0,), (1, 2, 3), **late).verdict is Effect.UNDECIDED
    found = judge(before, after, (0,), (1, 2, 3), past=past, **late)
    assert found.verdict is Effect.NO_WORSE
    assert found.together.steps == 6
    told = f"latency {since(found.ratio, found.low, found.high)}, 6 steps together, this one "
    assert told + risen(found.alone) in found.words


def test_a_step_that_is_bad_by_itself_is_seen_beside_good_ones():
    past = of_two_hosts(weight=1e4, moved=-2e3, squares=30.0, fourths=1.0, steps=50)
    before, bad = blocks(40, lambda o: 1000.0, seed=1), blocks(
        96, lambda o: 1200.0 if o == 0 else 1000.0, seed=2)
    found = judge(before, bad, (0,), (1, 2, 3), look=60, past=past)
    assert found.verdict is Effect.WORSE
    assert found.ratio == pytest.approx(1.2, abs=0.05)
    # while it is not proven, it does not go on: its own look says more than 1.1
    few = judge(before[:10], bad[:10], (0,), (1, 2, 3), look=6000, past=past)
    assert few.verdict is Effect.UNDECIDED
    assert "looks worse than those before it" in few.why


def test_each_kind_of_change_in_a_step_is_judged_by_its_own_past():
    osds = tuple(range(8))
    before = blocks(48, lambda o: 1000.0, osds=osds)
    after = blocks(96, lambda o: 1300.0 if o < 2 else 700.0 if o < 4 else 1000.0, osds=osds, seed=1)
    found = judge_all(before, after, {"bad": (0, 1), "good": (2, 3)}, osds[4:])
    assert [(item.together.kind, item.verdict) for item in found] == [
        ("bad", Effect.WORSE), ("good", Effect.BETTER)]
    assert all(item.together.of != READS for item in found)


def test_two_stalls_among_ten_blocks_are_no_proof_and_many_among_forty_are():
    def later(count, slow):
        told = blocks(count, lambda o: 1000.0, seed=3)
        return [
            Block(5.0, tuple(
                replace(osd, latency_us=osd.latency_us * (4.0 if osd.osd_id == 0 else 1.0))
                for osd in each.osds
            )) if at in slow else each
            for at, each in enumerate(told)
        ]

    before = blocks(BLOCKS_BEFORE, lambda o: 1000.0)
    assert judge(before, later(10, {3, 7}), (0,), (1, 2, 3)).verdict is Effect.UNDECIDED
    assert judge(before, later(40, range(0, 40, 4)), (0,), (1, 2, 3)).verdict is Effect.WORSE


def test_the_error_of_a_level_grows_with_noise_and_correlation_and_shrinks_with_blocks():
    drawn = random.Random(3)
    white = [drawn.gauss(0, 0.1) for _ in range(256)]
    assert mean_error(white[:96]) == pytest.approx(0.1 / 96**0.5, rel=0.25)
    assert mean_error(white) < 0.7 * mean_error(white[:96])
    red = [0.0]
    for value in white:
        red.append(0.8 * red[-1] + 0.6 * value)
    assert mean_error(red) > 1.8 * mean_error(white)
    assert mean_error(white[:7]) > LEVEL_ERROR


def test_more_blocks_before_are_taken_where_noise_hides_the_level_of_writes_or_reads():
    def noisy(write, read):
        drawn = random.Random(4)
        return [Block(5.0, tuple(OsdBlock(
            o, 1000.0 * drawn.lognormvariate(0, write), 100,
            400.0 * drawn.lognormvariate(0, read), 100) for o in range(4))) for _ in range(96)]

    controls = (1, 2, 3)
    assert level_known(noisy(0.05, 0.5), (0,), controls, False)
    assert not level_known(noisy(0.05, 0.5), (0,), controls, True)
    assert not level_known(noisy(0.5, 0.05), (0,), controls, False)
    # nothing is waited for where nobody writes: that is told at once
    assert level_known(blocks(96, lambda o: 0.0), (0,), controls, False)


def test_an_osd_that_drifts_as_the_others_do_is_not_called_worse_and_one_that_jumps_is():
    osds = tuple(range(13))
    before = blocks(96, lambda o: 1000.0, osds=osds)
    drifts = {o: 1.0 + 0.03 * (o - 6) for o in osds[1:]}

    def after(mine, others):
        return blocks(96, lambda o: 1000.0 * (mine if o == 0 else others.get(o, 1.0)),
                      osds=osds, seed=1)

    assert judge(before, after(1.18, drifts), (0,), osds[1:]).verdict is Effect.UNDECIDED
    assert judge(before, after(1.18, {}), (0,), osds[1:]).verdict is Effect.WORSE
    assert judge(before, after(2.0, drifts), (0,), osds[1:]).verdict is Effect.WORSE
