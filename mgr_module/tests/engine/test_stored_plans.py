"""A plan is stored after each step, and only what is new of it is encoded and read back."""

from dataclasses import replace

import pytest
from mgr_fakes.store import MonLikeKv, PromptQueue
from rollout_world import change
from wcache.core.change.change_status import ChangeStatus
from wcache.core.change.rollout_state import Rollout, RolloutStatus
from wcache.engine.storing.archive import Archive


def archive():
    return Archive(PromptQueue(MonLikeKv()))


def stored(error):
    assert error is None


def a_plan(*changes, **fields):
    return Rollout("p1", 1.0, changes, **fields)


def test_every_step_of_a_plan_is_read_as_it_was_stored():
    kept = archive()
    plan = a_plan(change(0), change(1), change(2))
    for index in range(3):
        done = replace(plan.changes[index], status=ChangeStatus.APPLIED, after_us=1.0 + index)
        plan = replace(
            plan, status=RolloutStatus.RUNNING, reason=f"step {index}",
            changes=(*plan.changes[:index], done, *plan.changes[index + 1:]),
        )
        kept.put_rollout(plan, stored)
        assert kept.rollouts() == {"p1": plan}


def test_plans_with_other_numbers_of_changes_and_other_ids_are_not_mixed_up():
    kept = archive()
    first, second = a_plan(change(0), change(1)), replace(a_plan(change(2)), plan_id="p2")
    for plan in (first, second, replace(first, changes=first.changes[:1]), first, second):
        kept.put_rollout(plan, stored)
        assert kept.rollouts()[plan.plan_id] == plan


@pytest.mark.parametrize(("broken", "says"), [
    ({"why": "x" * 2000}, "longer than"),
    ({"dev_names": ("sda",) * 5000}, "at most"),
])
def test_a_change_that_could_not_be_read_again_keeps_what_was_stored(broken, says):
    kept = archive()
    plan, answers = a_plan(change(0), change(1)), []
    kept.put_rollout(plan, stored)
    bad = replace(plan.changes[1], **broken)
    kept.put_rollout(replace(plan, changes=(plan.changes[0], bad)), answers.append)
    assert says in answers[0].message
    assert kept.rollouts() == {"p1": plan}


def test_a_plan_with_too_many_changes_is_not_stored():
    kept = archive()
    answers = []
    kept.put_rollout(a_plan(*(change(0),) * 4097), answers.append)
    assert "at most 4096" in answers[0].message
    assert kept.rollouts() == {}


def test_a_plan_that_is_too_long_as_a_whole_is_not_stored_though_each_change_could_be():
    kept = archive()
    answers = []
    long = tuple(
        replace(change(i), manual=("y" * 500,) * 16) for i in range(1200)
    )
    plan = a_plan(*(change(i) for i in range(1200)))
    kept.put_rollout(plan, stored)
    half = replace(plan, changes=(*long[:600], *plan.changes[600:]))
    kept.put_rollout(half, stored)
    kept.put_rollout(replace(plan, changes=long), answers.append)
    assert "longer than 8000000" in answers[0].message
    assert kept.rollouts() == {"p1": half}
