"""Before its first pair an experiment watches what a toggle leaves behind, and settles for that."""

from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from run_world import OTHER_DRIVE, begun
from wcache.core import events
from wcache.core.experiment.design import coin
from wcache.core.options.entries import mode_of_arm
from wcache.core.protocol import SetModeRequest


def fading(mgr):
    """What a drive says that is slower for half a second after each toggle."""
    request = mgr.load.request
    at_ns = [int(1e9 * request.seconds * i / request.count) for i in range(request.count)]
    samples = [int(1e6 * (1 + 2 * 2.718 ** (-at / 5e8))) for at in at_ns]
    return replace(mgr.good_samples(), samples_ns=tuple(samples), at_ns=tuple(at_ns))


def watch_it(mgr, disturbed=False):
    """Answer until the first pair begins; what was set before each watch was answered."""
    steps = [[]]
    while not (mgr.load and not mgr.load.request.spread):
        if mgr.task and isinstance(mgr.task.request, SetModeRequest):
            steps[-1].append((mgr.task.request.domain_id, mgr.task.request.mode))
        if mgr.load:
            if disturbed and len(mgr.measured) == 1:
                mgr.give(events.LeaseLost("the probe was restarted"))
                disturbed = False
            elif mgr.load:
                mgr.give(events.Answered(mgr.load.token, fading(mgr)))
                steps.append([])
        else:
            mgr.answer()
    return steps[:-1]


@pytest.mark.parametrize("crossed", [None, OTHER_DRIVE])
@pytest.mark.parametrize("seed", range(4))
def test_each_watch_begins_with_a_toggle_of_every_drive_of_the_experiment(seed, crossed):
    mgr = begun(make.setup(seed=seed, settle_s=0.4, watch_samples=12, crossed=crossed))
    firsts = [mode_of_arm(coin(seed, check)) for check in (1000, 1001)]
    domains = mgr.machine.spec.domain_ids
    assert len(domains) == (1 if crossed is None else 2)
    assert watch_it(mgr) == [
        [(domain_id, mode.other) for domain_id in domains]
        + [(domain_id, mode) for domain_id in domains]
        for first in firsts for mode in (first, first.other)
    ]


@pytest.mark.parametrize("crossed", [None, OTHER_DRIVE])
def test_the_settling_is_frozen_and_the_same_whatever_interrupts_the_watches(crossed):
    found = []
    for disturbed in (False, True):
        mgr = begun(
            make.setup(seed=1, settle_s=0.4, watch_samples=12, pairs_max=8, crossed=crossed)
        )
        if disturbed:
            mgr.answer()
            mgr.restart()
        watch_it(mgr, disturbed)
        if disturbed:
            mgr.restart()
        mgr.finish()
        record = next(iter(mgr.records.values()))
        assert record.interrupted_periods == (3 if disturbed else 0)
        assert {p.settle_s for p in record.watches} == {0.0}
        assert {p.settle_s for p in record.periods[4:]} == {record.settling.settle_s}
        assert all(p.seconds >= record.settling.settle_s for p in record.periods[4:])
        assert {side.settling for side in mgr.records.values()} == {record.settling}
        found.append((record.settling, [watch.samples_ns for watch in record.watches]))
    assert found[0] == found[1]
    assert 1.0 < found[0][0].settle_s < 4.0
