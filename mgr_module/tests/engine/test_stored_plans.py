"""A plan is stored after each step, and only what is new of it is encoded and read back."""

import contextlib
import itertools
import json
from dataclasses import replace

import pytest
from mgr_fakes.store import MemoryStore, MgrGone, MonLikeKv, PromptQueue
from rollout_world import change, plan_of
from wcache.core.change.change import ChangeStatus
from wcache.core.change.gate.gate_state import GateStep
from wcache.core.change.rollout_state import CHANGES_MAX, RolloutStatus
from wcache.core.loads import Block, OsdBlock
from wcache.engine.storing.archive import Archive
from wcache.engine.storing.plans import PART_CHANGES


def archive():
    return Archive(PromptQueue(MonLikeKv()))


def stored(error):
    assert error is None


def test_plans_with_other_numbers_of_changes_and_other_ids_are_not_mixed_up():
    kept = archive()
    first = plan_of(change(0), change(1), status=RolloutStatus.RUNNING)
    second = plan_of(change(2), plan_id="p2", status=RolloutStatus.RUNNING)
    over = replace(first, status=RolloutStatus.DONE)
    fewer = replace(first, changes=first.changes[:1], waves=first.waves[:1])
    for plan in (first, second, fewer, first, second, over, second):
        kept.plans.put(plan, stored)
        assert kept.plans.all()[plan.plan_id] == plan


@pytest.mark.parametrize(("broken", "says"), [
    ({"why": "x" * 2000}, "longer than"),
    ({"dev_names": ("sda",) * 5000}, "at most"),
])
def test_a_change_that_could_not_be_read_again_keeps_what_was_stored(broken, says):
    kept = archive()
    plan, answers = plan_of(change(0), change(1)), []
    kept.plans.put(plan, stored)
    bad = change(1, **broken)
    kept.plans.put(replace(plan, changes=(plan.changes[0], bad)), answers.append)
    assert says in answers[0].message
    assert kept.plans.all() == {"p1": plan}


def test_a_plan_with_too_many_changes_is_not_stored():
    kept = archive()
    answers = []
    kept.plans.put(plan_of(*(change(0),) * (CHANGES_MAX + 1)), answers.append)
    assert f"more than {CHANGES_MAX} changes" in answers[0].message
    assert kept.plans.all() == {}


def unreadable(plan, part, edit):
    """Why a plan is not taken up of which the head, or a part, was edited."""
    store = MemoryStore()
    Archive(store).plans.put(plan, stored)
    key = next(key for key in sorted(store.kept) if key.startswith(part))
    plain = json.loads(store.kept[key])
    edit(plain)
    store.kept[key] = json.dumps(plain)
    kept = Archive(store)
    assert kept.plans.all() == {}
    return kept.unreadable["rollout/p1"]


@pytest.mark.parametrize("empty", [False, True])
@pytest.mark.parametrize("name", ["gate", "waves", "osd_ids", "drive_ids"])
def test_a_plan_that_lacks_what_each_has_is_not_taken_up(name, empty):
    def lacks(plain):
        holder = plain["changes"][1]["setting"]["domain"] if name.endswith("ids") else (
            plain["plan"] if name == "gate" else plain
        )
        holder[name] = []
        if not empty:
            del holder[name]

    part = "rollout-part/p1/0." if name.endswith("ids") else (
        "rollout/p1" if name == "gate" else "rollout-part/p1/waves."
    )
    assert name in unreadable(plan_of(change(0), change(1)), part, lacks)


@pytest.mark.parametrize(("name", "of_domain", "value"), [
    ("load_point", False, None), ("hostname", True, ""),
])
def test_a_change_of_drives_of_no_host_or_that_nothing_judges_is_not_taken_up(
    name, of_domain, value
):
    def lacks(plain):
        one = plain["changes"][1]
        (one["setting"]["domain"] if of_domain else one)[name] = value

    why = unreadable(plan_of(change(0), change(1)), "rollout-part/p1/0.", lacks)
    assert "changes[1]: a change of drives needs" in why


# ---- a head, and parts beside it

MANY = PART_CHANGES + 27  # changes, in steps of forty


def a_large_plan():
    return plan_of(*(change(n) for n in range(MANY)))


def moved(plan, *indices, **fields):
    """The plan once these changes were made, in a step with blocks before it."""
    changes = tuple(
        replace(item, status=ChangeStatus.APPLIED, after_us=2.0) if at in indices else item
        for at, item in enumerate(plan.changes)
    )
    before = (Block(5.0, (OsdBlock(1, 100.0 + indices[0], 9),)),) * 8
    return replace(plan, changes=changes, step=GateStep(indices, before=before), **fields)


def steps_of(plan, size=40):
    """A plan after each of its steps."""
    found, many = [plan], len(plan.changes)
    for at in range(0, many, size):
        found.append(moved(found[-1], *range(at, min(many, at + size)), reason=f"step {at}"))
    return found


SIZES = pytest.mark.parametrize(("many", "size"), [
    (5, 1), pytest.param(MANY, 40, marks=pytest.mark.slow),
])


@SIZES
def test_every_step_of_a_plan_is_read_as_it_was_stored_by_this_mgr_and_the_next(many, size):
    kv = MonLikeKv()
    kept = Archive(PromptQueue(kv))
    for plan in steps_of(plan_of(*(change(n) for n in range(many))), size):
        kept.plans.put(plan, stored)
        assert kept.plans.all() == {"p1": plan}
        assert Archive(PromptQueue(kv)).plans.all() == {"p1": plan}


@pytest.mark.slow
def test_a_step_of_a_large_plan_writes_a_few_values_however_many_changes_there_are():
    kv = MonLikeKv()
    kept = Archive(PromptQueue(kv))
    plan, *later = steps_of(a_large_plan())
    kept.plans.put(plan, stored)
    kv.writes.clear()
    for plan in later:
        kept.plans.put(plan, stored)
    # of each step its head, its blocks before, those of the step before that go; and each
    # part once or twice, as it was before
    assert len(kv.writes) < 3 * len(later) + 5 * (MANY // PART_CHANGES + 1)
    assert len([key for key in kv.kept if key.startswith("rollout-part/")]) == (
        MANY // PART_CHANGES + 1 + len(("waves", "before"))
    )


def test_a_mgr_that_takes_over_writes_no_part_anew_that_is_there():
    kv = MonLikeKv()
    plan, later, *_ = steps_of(a_large_plan())
    Archive(PromptQueue(kv)).plans.put(plan, stored)
    kept = Archive(PromptQueue(kv))
    assert kept.plans.all() == {"p1": plan}
    kv.writes.clear()
    changed = dict(enumerate(later.changes[:40]))
    taken = kept.plans.all()["p1"]
    again = replace(taken, changes=tuple(
        changed.get(at, item) for at, item in enumerate(taken.changes)
    ))
    kept.plans.put(again, stored)
    assert kv.writes == ["rollout/p1"]
    assert Archive(PromptQueue(kv)).plans.all() == {"p1": again}


@SIZES
def test_a_mgr_lost_between_any_two_writes_leaves_a_plan_as_it_was_or_as_it_became(many, size):
    seen = set()
    for lost_after in range(16):
        kv = MonLikeKv()
        kept = Archive(PromptQueue(kv))
        plans = steps_of(plan_of(*(change(n) for n in range(many))), size)
        kept.plans.put(plans[0], stored)
        kv.lost_after = lost_after
        last = 0
        with contextlib.suppress(MgrGone):
            for last, plan in enumerate(plans):  # noqa: B007
                kept.plans.put(plan, stored)
        kv.lost_after = None
        found = Archive(PromptQueue(kv)).plans.all()["p1"]
        assert found in (plans[max(0, last - 1)], plans[last])
        seen.add(last)
    assert len(seen) > 3


@pytest.mark.slow
def test_parts_that_the_mons_refused_are_written_again_and_none_is_named_that_is_not_there():
    for refused in range(1, 12):
        kv = MonLikeKv()
        kept = Archive(PromptQueue(kv))
        plans = steps_of(a_large_plan())
        count = itertools.count()
        kv.fails = lambda key, c=count, n=refused: next(c) % (2 * n) >= n
        last = None
        for plan in plans:
            answers = []
            kept.plans.put(plan, answers.append)
            last = plan if answers == [None] else last
            found = Archive(PromptQueue(kv)).plans.all().get("p1")
            assert found == last


def test_a_large_plan_that_is_dropped_leaves_nothing_even_if_the_mgr_is_lost_meanwhile():
    for lost_after in (None, 1, 3):
        kv = MonLikeKv()
        kept = Archive(PromptQueue(kv))
        kept.plans.put(a_large_plan(), stored)
        kv.lost_after = lost_after
        with contextlib.suppress(MgrGone):
            kept.plans.drop("p1")
        kv.lost_after = None
        assert Archive(PromptQueue(kv)).plans.all() == {}
        assert not [key for key in kv.kept if key.startswith("rollout")]


def test_a_large_plan_with_a_change_in_no_wave_is_not_taken_up():
    why = unreadable(a_large_plan(), "rollout-part/p1/waves.", lambda plain: plain["waves"].pop())
    assert f"{MANY} changes, and its waves have others" in why


def test_a_large_plan_whose_part_is_missing_is_listed_and_its_other_parts_stay():
    kv = MonLikeKv()
    Archive(PromptQueue(kv)).plans.put(a_large_plan(), stored)
    gone = next(key for key in kv.kept if key.startswith("rollout-part/p1/1."))
    kv.put_key(gone, None)
    parts = {key for key in kv.kept if key.startswith("rollout-part/")}
    kept = Archive(PromptQueue(kv))
    assert kept.plans.all() == {}
    assert kept.unreadable == {"rollout/p1": f"{gone} is missing"}
    assert parts <= set(kv.kept)


@pytest.mark.slow
def test_two_large_plans_in_turns_are_not_mixed_up():
    kept = archive()
    first = steps_of(a_large_plan())
    second = [replace(plan, plan_id="p2") for plan in first[::-1]]
    for one, other in zip(first, second):
        kept.plans.put(one, stored)
        kept.plans.put(other, stored)
        assert kept.plans.all() == {"p1": one, "p2": other}
