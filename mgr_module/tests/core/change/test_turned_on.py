"""Which drive models a plan turns on: a power cut that one of them lost writes in stops it."""

import pytest
from mgr_fakes import builders as make
from rollout_world import change, plan_of
from wcache.core.change.change import UNFINISHED, ChangeStatus
from wcache.core.change.rollout import RolloutMachine
from wcache.core.model import CacheMode

WB, WT = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH


@pytest.mark.parametrize(("before", "after", "counts"), [
    (WT, WB, True),
    (WB, WB, True),  # it is on, and comes up so from now on
    (WB, WT, False),
    (WT, WT, False),
])
@pytest.mark.parametrize("status", ChangeStatus)
def test_a_model_counts_until_it_has_been_turned_on_for_good(before, after, counts, status):
    one = change(0, before=before, after=after, status=status, drive_model=make.MODEL)
    wanted = {one.kind.in_any_class} if counts and status in UNFINISHED else set()
    assert RolloutMachine(plan_of(one)).may_turn_on == wanted
