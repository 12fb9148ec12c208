"""What is given up or frozen is so once the mons and the probe have it, and not before."""

import errno
import threading

import pytest
from module_world import WB, WT, a_mgr, codes, ok, refused, said, start, taken_over, unwrapped
from prior_world import accept, errors, left_over
from wcache.core.protocol import (
    AcceptRequest,
    FailureOutcome,
)


@pytest.mark.parametrize("then", ["wait", "again", "failover"])
def test_an_acceptance_waits_until_the_probe_has_dropped_its_entry(then):
    mgr = a_mgr()
    probe, domain_id = left_over(mgr)
    probe.fails = lambda task: (
        FailureOutcome("another program is at it", restored=False)
        if isinstance(task.request, AcceptRequest) else None
    )
    accept(mgr, domain_id)
    mgr.report_all()
    mgr.report_all()
    assert probe.leased == {domain_id: WB}
    assert "WCACHE_RESTORE_FAILED" in codes(mgr)
    assert "another program is at it" in unwrapped(ok(mgr.command("history")))
    probe.fails = lambda task: None
    if then == "again":
        accept(mgr, domain_id)
    elif then == "failover":
        mgr.restart()
    else:
        mgr.now_s += 61.0
        mgr.engine.tick()
    mgr.report_all()
    mgr.report_all()
    assert (probe.leased, probe.modes()[domain_id], errors(mgr)) == ({}, WT, [])
    probe.stuck = set()
    mgr.restart()
    mgr.steps(12)
    assert (probe.modes()[domain_id], errors(mgr)) == (WT, [])


def test_a_probe_hears_of_an_acceptance_only_once_the_mons_have_it():
    mgr = a_mgr()
    probe, domain_id = left_over(mgr)
    mgr.store.slow = True
    done = said(mgr, "drive accept", hostname="h1", domain_id=domain_id, accept_cost=True)
    assert done["stored"] is False
    assert done["next"].endswith("until the mons have it and the probe has dropped it")
    assert done["undo"] == ""
    mgr.report_all()
    assert probe.leased == {domain_id: WB}
    mgr.store.answer()
    mgr.store.slow = False
    mgr.report_all()
    assert (probe.leased, probe.modes()[domain_id]) == ({}, WT)


def test_a_run_whose_acceptance_was_not_stored_is_given_up_by_the_next_mgr():
    mgr = a_mgr()
    probe, domain_id = left_over(mgr)
    mgr.store.fails = lambda key: key.startswith("run/")
    accept(mgr, domain_id)
    mgr.report_all()
    assert probe.leased == {domain_id: WB}
    mgr.store.fails = lambda key: False
    taken_over(mgr)
    mgr.report_all()
    assert (probe.leased, probe.modes()[domain_id], errors(mgr)) == ({}, WT, [])


NOT_STORED = "the cluster is frozen now, but the mons have not stored it"


def told(mgr):
    answer = said(mgr, "freeze")
    return answer["frozen"], answer["changed"]


def test_a_freeze_answers_once_the_mons_have_it():
    mgr = a_mgr()
    mgr.store.slow = True
    timer = threading.Timer(0.05, mgr.store.answer)
    timer.start()
    assert told(mgr) == (True, True)
    timer.join()
    mgr.restart()
    assert mgr.inside.frozen


def test_a_freeze_that_the_mons_do_not_have_yet_says_so_and_is_stored_first():
    mgr = a_mgr()
    start(mgr)
    mgr.step()
    mgr.store.slow = True
    assert refused(mgr, "freeze", errno.EAGAIN).startswith(NOT_STORED)
    assert mgr.inside.frozen  # in force all the same
    keys = [write.key for writes, done in mgr.store._queued if done for write in writes]
    assert keys[0] == "frozen"
    mgr.store.answer()
    mgr.store.slow = False
    assert told(mgr) == (True, False)
    mgr.restart()
    assert mgr.inside.frozen


def test_a_freeze_that_the_mons_refuse_is_shown_and_tried_again():
    mgr = a_mgr()
    mgr.store.fails = lambda key: key == "frozen"
    assert refused(mgr, "freeze", errno.EAGAIN).startswith(NOT_STORED)
    assert "WCACHE_STORE_FAILED" in codes(mgr)
    mgr.store.fails = lambda key: False
    mgr.now_s += 20.0
    mgr.engine.tick()
    mgr.engine.tick()
    assert "WCACHE_STORE_FAILED" not in codes(mgr)
    mgr.restart()
    assert mgr.inside.frozen
