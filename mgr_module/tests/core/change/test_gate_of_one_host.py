"""What one host claims of its OSDs decides for its own drives and weighs its share for others."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wcache.core.change.gate.blocks import Difference
from wcache.core.change.gate.evidence import Proofs, Sums
from wcache.core.change.gate.gate_state import Harm
from wcache.core.change.gate.judge import Effect, HostHarm, Judgement, judge_all
from wcache.core.loads import COMMITS_PER_S_MAX, MATERIAL_LN, Block, OsdBlock

CONTROLS = tuple(range(100, 106))
LIMIT_S = 600.0


def blocks(rng, count, treated, us, commits, spread=0.03):
    """Blocks of 10 s in which controls take 1 ms and `treated` take `us`."""
    return [
        Block(10.0, tuple(
            OsdBlock(osd_id, level * rng.lognormvariate(0.0, each), many)
            for ids, level, each, many in (
                (treated, us, spread, commits), (CONTROLS, 1000.0, 0.03, 10_000),
            ) for osd_id in ids
        )) for _ in range(count)
    ]


def rollout(liar, steps=8, honest_us=1040.0, seed=1):
    """(judgement of each step, whether its budget ended it) of a host a step, the first a liar."""
    rng, harm, past, found = random.Random(seed), Harm(), (), []
    for step in range(steps):
        told = liar if step == 0 and liar else (honest_us, 200_000, 0.03)
        before = blocks(rng, 96, (step,), 1000.0, 10_000)
        after = blocks(rng, 40, (step,), *told)
        judged = judge_all(
            before, after, {"kind": (step,)}, CONTROLS, look=step + 1, past=past,
            hosts={step: f"h{step}"},
        )
        past, before_harm = [item.together for item in judged], harm
        harm = harm.beside(judged)
        found.append(judged[0])
        if before_harm.too_large(harm, LIMIT_S, 1.0):
            return found, True
    return found, False


@pytest.mark.parametrize("liar", [
    None,
    (300.0, 10**9, 0.03),  # a gain that is larger than what all others could lose
    (1000.0, 10**9, 2.0),  # noise in which all that others lose would be lost
    (300.0, 5_000_000, 1.0),
], ids=["nobody", "gain", "noise", "both"])
def test_no_claim_of_one_host_keeps_the_budget_from_what_clients_of_others_wait(liar):
    found, ended = rollout(liar)
    assert ended
    assert len(found) <= 4


def test_harm_is_what_was_lost_on_hosts_and_gains_make_good_at_home_alone():
    def harm(**hosts):
        judged = (Judgement(Effect.NO_WORSE, by_host=tuple(
            HostHarm(host, extra_s, 1.0) for host, extra_s in hosts.items()
        )),)
        return Harm().beside(judged).spent_s

    assert harm(h1=100.0) == 100.0
    assert harm(h1=100.0, h2=-1e9) == harm(h1=100.0, h2=-1e9, h3=-1e9) == 100.0
    assert harm(h1=-1e9) == 0.0
    both = Harm().beside([Judgement(Effect.WORSE, by_host=(HostHarm("h1", 100.0, 1.0),))])
    both = both.beside([Judgement(Effect.BETTER, by_host=(HostHarm("h1", -80.0, 1.0),))])
    assert both.spent_s == pytest.approx(20.0)


@pytest.mark.slow
@pytest.mark.parametrize("hosts", [1, 2, 5, 20, 200])
def test_noise_of_hosts_whose_gains_do_not_count_is_seldom_taken_for_harm(hosts):
    rng, found = random.Random(hosts), 0
    for _ in range(1000):
        each = tuple(HostHarm(f"h{i}", rng.gauss(0.0, 10.0), 100.0) for i in range(hosts))
        found += Harm(hosts=each).spent_s > 0.0
    assert found <= 5


def test_no_osd_is_believed_to_commit_more_than_one_can():
    rng = random.Random(3)
    before = blocks(rng, 96, (0,), 1000.0, 10_000)
    after = blocks(rng, 40, (0,), 2000.0, 10**12)
    (found,) = judge_all(before, after, {"kind": (0,)}, CONTROLS)
    seconds, most = 400.0, 1.3e-3
    assert 0.0 < found.extra_s <= most * COMMITS_PER_S_MAX * seconds


# ---- what steps say together


def a_step(mean, error=0.01, weight=10.0, **hosts):
    """A step of a host, or of several with equal parts."""
    part = 1.0 / len(hosts)
    return (
        Difference(mean, error, 50.0), weight,
        {host: (part, moved) for host, moved in hosts.items()},
    )


def test_hosts_that_say_the_same_say_together_what_all_steps_say():
    past = Sums()
    for host in ("h1", "h2", "h3"):
        past = past.beside(*a_step(0.01, **{host: 0.01}))
    step = Sums().beside(*a_step(0.01, h4=0.01))
    whole = past.beside(*a_step(0.01, h4=0.01)).difference
    found = past.for_others({"h4"}, step)
    assert (found.mean, found.error) == pytest.approx((whole.mean, whole.error))


@given(st.floats(-50.0, 0.0), st.floats(0.0, 1e6), st.floats(0.0, 10.0))
def test_a_host_that_claims_any_gain_moves_others_by_half_a_material_ratio_at_most(
    claim, weight, error
):
    past = Sums().beside(*a_step(claim, error, weight + 1.0, liar=claim))
    step = Sums().beside(*a_step(0.04, h2=0.04))
    assert past.for_others({"h2"}, step).mean >= 0.04 - MATERIAL_LN / 2.0 - 1e-9


def test_a_host_alone_decides_for_itself():
    past = Sums().beside(*a_step(-1.0, weight=100.0, h1=-1.0))
    step = Sums().beside(*a_step(-1.0, h1=-1.0))
    assert past.for_others({"h1"}, step).mean == pytest.approx(-1.0)
    other = Sums().beside(*a_step(0.0, h2=0.0))
    assert past.for_others({"h2"}, other).mean > -MATERIAL_LN
    assert past.for_others({"h1", "h2"}, other).mean > -MATERIAL_LN


def test_a_step_is_no_worse_by_a_claim_of_another_host_only_where_it_looks_so_itself():
    """A material loss on honest hosts is found, though a liar came first with many steps."""
    found, _ = rollout((300.0, 10_000, 0.0), steps=5, honest_us=1300.0)
    assert found[0].goes_on
    assert not any(item.goes_on for item in found[1:])


# ---- how many drives a step has


@pytest.mark.parametrize(("drives", "hosts", "proven"), [
    ({"h1": 12}, {"h1"}, 12),
    ({"h1": 12}, {"h2"}, 0),
    ({"h1": 12}, {"h1", "h2"}, 0),
    ({"h1": 12, "h2": 2}, {"h2"}, 4),
    ({"h1": 12, "h2": 12}, {"h3"}, 24),
    ({"h1": 12, "h2": 3, "h3": 1}, {"h4"}, 8),
    ({"": 12}, {""}, 12),  # values that are of no single host
    ({"": 12, "h1": 50}, {"h2"}, 24),
    ({}, {"h1"}, 0),
])
def test_of_what_is_proven_one_other_host_counts_for_a_half_at_most(drives, hosts, proven):
    assert Proofs((Sums("kind").having_proven(drives),)).least({"kind": hosts}) == proven
    grown = Proofs(())
    for host, more in drives.items():
        grown.add({"kind": {host: more}})
    assert grown.least({"kind": hosts}) == proven
