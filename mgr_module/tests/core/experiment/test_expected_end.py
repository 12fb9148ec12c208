"""When an experiment is expected to end: as others have, and never after its maximum."""

import pytest
from mgr_fakes import builders as make
from module_world import a_mgr, said, start
from wcache.core.experiment.forecast import PAIRS_EXPECTED, expected_pairs, periods_expected
from wcache.core.model import DriveModel, LoadPoint

OTHER = DriveModel("B", "SSD", "2")
DEPTH1, BATCH = LoadPoint.OSD_BENCH_DEPTH1, LoadPoint.OSD_BENCH_BATCH


@pytest.fixture
def setup():
    mgr = a_mgr()
    start(mgr)
    return next(iter(mgr.inside.runs.values())).spec.experiments[0]


def test_drives_of_the_same_model_say_most_then_others_at_the_same_load(setup):
    ended = [(OTHER, DEPTH1, 30), (OTHER, BATCH, 70)]
    assert expected_pairs(ended)(setup) == 30
    assert expected_pairs([*ended, (make.MODEL, DEPTH1, 6), (make.MODEL, DEPTH1, 4)])(setup) == 5
    assert expected_pairs([(OTHER, BATCH, 70), (OTHER, DEPTH1, 0)])(setup) == PAIRS_EXPECTED


def test_what_goes_on_for_longer_ends_with_the_next_pair_and_at_its_maximum(setup):
    expected = expected_pairs([(make.MODEL, DEPTH1, 7)])
    assert periods_expected(expected, setup, 3) == 14
    assert periods_expected(expected, setup, 20) == 22
    assert periods_expected(expected, setup, 2 * setup.pairs_max) == 2 * setup.pairs_max
    assert expected_pairs([(make.MODEL, DEPTH1, 1000)])(setup) <= setup.pairs_max


@pytest.mark.slow
def test_a_campaign_counts_to_what_is_expected_and_ends_there():
    mgr = a_mgr()
    campaign_id = start(mgr)
    seen = []
    for _ in range(400):
        mgr.step()
        row = said(mgr, "campaign show", campaign_id=campaign_id)
        seen.append((row["periods_done"], row["periods_expected"], row["periods_max"]))
        assert row["seconds_left"] <= row["seconds_left_max"]
        if row["status"] != "running":
            break
    done, expected, most = seen[-1]
    assert done == expected == most
    assert max(most for _, _, most in seen) > 10 * done  # the maximum was never near
    assert seen[0][1] == 3 * 2 * PAIRS_EXPECTED
    assert row["seconds_left_max"] == 0
