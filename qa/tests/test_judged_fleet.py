"""The simulated rollouts of whole fleets: what they find, and that their table can fail."""

from dataclasses import replace

import pytest
from fleet_simulation.judged import HOST_DRIVES, Judged, JudgedFleet, Kind, judged
from fleet_simulation.judged_table import table
from wcache.core.change.change import ChangeStatus
from wcache.core.change.rollout_state import RolloutStatus
from wcache.options import Options

WELL = Judged(1, 1000, Kind.GOOD, "quiet", 0, "done", 1000, 0, 4.0, 1.0, 100, 0.0, 0.0, "")
FOUND = replace(WELL, kind=Kind.SOME_WORSE, ended="worse", changed=300, bad=10)


@pytest.mark.slow
def test_all_of_a_small_fleet_are_changed_and_a_regression_on_one_host_goes_no_further():
    found = judged(60, 4, Kind.GOOD)
    assert (found.ended, found.changed, found.bad) == ("done", 60, 0)
    found = judged(60, 4, Kind.WORSE)
    assert found.ended == "worse"
    assert found.bad <= HOST_DRIVES


@pytest.mark.slow
def test_what_a_rollout_counts_as_harm_is_no_less_than_half_of_what_clients_have_waited():
    found = judged(60, 4, Kind.WORSE)
    assert 0.5 * found.harm_s < found.told_s < 2.0 * found.harm_s + 1.0


def test_two_failure_domains_at_once_are_noticed():
    fleet = JudgedFleet(30, 1, Kind.SAME)
    fleet.machine.rollout = replace(
        fleet.machine.rollout, status=RolloutStatus.RUNNING, changes=tuple(
            replace(item, status=ChangeStatus.MADE) if at in (5, 15) else item
            for at, item in enumerate(fleet.machine.rollout.changes)
        ),
    )
    with pytest.raises(AssertionError, match="at once"):
        fleet.check()


@pytest.mark.parametrize(("found", "says"), [
    (WELL, []),
    (FOUND, []),
    (replace(WELL, hours=24.5), ["24.5 h"]),
    (replace(WELL, ended="worse", changed=7), ["1 called worse", "1 of 1 were stopped"]),
    (replace(WELL, ended="stopped", changed=7), ["no harm: 1 of 1 were stopped"]),
    (replace(FOUND, bad=30), ["1 found late"]),
    (replace(FOUND, ended="done", bad=50), ["1 found late"]),
    (replace(FOUND, harm_s=Options().rollout_harm_max_s + 1.0), ["601 s of harm, 600 allowed"]),
])
def test_the_table_says_what_was_promised_and_does_not_hold(found, says):
    lines, broken = table([found])
    assert len(lines) == 2
    assert [said in line for said, line in zip(says, broken)] == [True] * len(broken)
    assert len(says) == len(broken)


def test_rollouts_that_do_no_harm_are_counted_together_and_each_size_by_itself():
    same = replace(WELL, kind=Kind.SAME)
    stopped = replace(same, ended="stopped", changed=1)
    of_both = [WELL] * 150 + [same] * 147
    large = replace(stopped, osds=10_000)
    assert table([*of_both, *[stopped] * 3])[1] == []
    broken = table([*of_both[1:], *[stopped] * 4, large, FOUND])[1]
    assert broken == [
        "1000 OSDs, no harm: 4 of 300 were stopped", "10000 OSDs, no harm: 1 of 1 were stopped",
    ]


@pytest.mark.parametrize("kind", [Kind.SAME, Kind.GOOD])
def test_of_each_kind_that_does_no_harm_one_percent_may_be_called_worse(kind):
    well = replace(WELL, kind=kind)
    worse = replace(well, ended="worse", changed=1)
    other = [replace(WELL, kind=Kind.GOOD if kind is Kind.SAME else Kind.SAME)] * 150
    assert table([*other, *[well] * 149, worse])[1] == []
    broken = table([*other, *[well] * 148, *[worse] * 2])[1]
    assert broken == [f"1000 OSDs, {kind.value}: 2 called worse"]
