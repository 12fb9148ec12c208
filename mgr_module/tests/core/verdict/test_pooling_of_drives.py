"""Drives of one drive model pooled at a load: what overrules what, and what is said."""

from dataclasses import replace

import pytest
from wcache.core.model import (
    DriveModel,
    Finding,
    FindingCode,
    LoadPoint,
    Role,
    Severity,
    Transport,
    Verdict,
)
from wcache.core.verdict.pooling import pool_drives, pooled
from wcache.core.verdict.repeated import Standing
from wcache.core.verdict.result import PoolTerm

D1 = LoadPoint.OSD_BENCH_DEPTH1
THROUGH, BACK, SAME, FEW, CONFLICTS = (
    Verdict.B, Verdict.A, Verdict.NO_DIFFERENCE, Verdict.INSUFFICIENT,
    Verdict.CONFLICTING,
)
FAST, CARRIED = FindingCode.FLUSH_TOO_FAST, FindingCode.CARRYOVER


def drives(*items):
    """Drives d0, d1, ... from (verdict, low, high) and, where flagged, a finding's code."""
    return [
        Standing(
            f"r{i}", "c1", "h1", i, "hdd", f"d{i}", f"d{i}", DriveModel("V", "M", "1"), D1, verdict,
            20, 1.0, 0, "decided", low, low, high,
            findings=tuple(Finding(code, Severity.WARNING, f"h1 d{i}", "") for code in codes),
            record_ids=(f"r{i}",),
        )
        for i, (verdict, low, high, *codes) in enumerate(items)
    ]


@pytest.mark.parametrize("items", [
    [(BACK, 0.3, 0.4), (FEW, 0.3, 0.4, FAST)],
    [(THROUGH, 2.0, 3.0), (FEW, 2.0, 3.0, CARRIED)],
    [(THROUGH, 1.2, 1.3), (THROUGH, 1.2, 1.3), (FEW, 0.2, 0.4, FAST), (FEW, 0.2, 0.4, FAST)],
    [(SAME, 0.98, 1.02), (FEW, 0.98, 1.02, CARRIED)],
])
def test_a_drive_in_doubt_keeps_the_others_from_deciding_by_agreement(items):
    found = pooled(D1, drives(*items))
    assert found.verdict is FEW
    assert items[-1][3] in found.doubts
    assert any(f"raised {items[-1][3].value}" in note for note in found.notes)


@pytest.mark.parametrize("verdict", [THROUGH, SAME])
def test_a_drive_in_doubt_keeps_a_pool_from_deciding(verdict):
    log_ratio = 0.0 if verdict is SAME else 1.0
    term = PoolTerm(log_ratio, 0.01, Transport.SAS, Role.BLOCK, "20", 1)
    measured = [
        replace(drive, pool_term=term)
        for drive in drives(*[(verdict, 0.98, 1.02)] * 2, (FEW, 0.98, 1.02, CARRIED))
    ]
    cured = replace(measured[2], findings=())
    for last, together in ((cured, verdict), (measured[2], FEW)):
        of = [*measured[:2], last]
        found = pooled(D1, of, pool_drives(of))
        assert (found.pooled, found.verdict) == (True, together)


def test_a_drive_that_contradicts_itself_is_named():
    found = pooled(D1, drives((THROUGH, 2.0, 3.0), (CONFLICTS, 1.2, 1.3)))
    assert found.verdict is CONFLICTS
    assert any("h1 d1 gave contradictory results" in note for note in found.notes)
    three = pooled(D1, drives(*[(THROUGH, 2.0, 3.0)] * 2, (CONFLICTS, 1.2, 1.3)))
    assert "not pooled: contradictory results, or too few pairs, on some" in three.notes[0]


@pytest.mark.parametrize(("items", "verdict"), [
    ([(THROUGH, 1.5, 1.6), (SAME, 0.99, 1.01)], CONFLICTS),
    ([(THROUGH, 1.5, 1.6)] * 2 + [(SAME, 0.99, 1.01)] * 2, CONFLICTS),
    ([(THROUGH, 1.2, 1.3), (BACK, 0.6, 0.7)], CONFLICTS),
    ([(THROUGH, 1.2, 1.3), (FEW, 0.3, 1.0)], CONFLICTS),
    ([(THROUGH, 1.2, 1.3), (FEW, 0.9, 1.15)], FEW),
    ([(THROUGH, 1.2, 1.3), (FEW, 0.9, 1.5)], THROUGH),
    ([(THROUGH, 1.2, 1.3), (FEW, None, None)], THROUGH),
    ([(THROUGH, 1.2, 1.3), (FEW, 0.9, 1.5), (FEW, 0.9, 1.5)], FEW),
    ([(SAME, 0.99, 1.01), (FEW, 0.9, 1.5)], FEW),
    ([(THROUGH, 1.2, 1.3), (SAME, 0.99, 1.01), (FEW, 0.3, 0.4, FAST)], CONFLICTS),
])
def test_agreement_of_half_the_drives_overrules_no_drive_that_says_otherwise(items, verdict):
    found = pooled(D1, drives(*items))
    assert found.verdict is verdict
    if verdict is CONFLICTS:
        assert "h1 d0" in found.notes[-1]
        assert "look at those drives" in found.notes[-1]


def test_drives_proven_to_be_unlike_are_named_with_their_intervals():
    found = pooled(D1, drives((THROUGH, 1.2, 1.3), (SAME, 0.99, 1.01)))
    (said,) = found.notes
    assert "h1 d0 (-23% to -17%) better in write through" in said
    assert "h1 d1 (-1.0% to +1.0%) not" in said


def test_what_differs_between_two_drives_is_said_too():
    term = PoolTerm(0.4, 0.1, Transport.SAS, Role.BLOCK, "16", 1)
    one, other = drives((THROUGH, 1.5, 1.6), (THROUGH, 1.5, 1.6))
    other = replace(other, pool_term=replace(term, ceph_release="20"))
    found = pooled(D1, [replace(one, pool_term=term), other])
    assert found.verdict is THROUGH
    assert any("they differ in Ceph release (16, 20)" in note for note in found.notes)
    alike = [replace(drive, pool_term=term) for drive in (one, other)]
    assert pooled(D1, alike).notes == ()


def test_drives_of_a_throwaway_cluster_are_pooled_with_their_like_only():
    term = PoolTerm(0.4, 0.01, Transport.SAS, Role.BLOCK, "20", 1)
    alike = [replace(one, pool_term=term) for one in drives(*[(THROUGH, 1.4, 1.6)] * 3)]
    assert pool_drives(alike).verdict is THROUGH
    mixed = [*alike[:2], replace(alike[2], throwaway=True)]
    assert pool_drives(mixed) is None
    assert any("throwaway (False, True)" in note for note in pooled(D1, mixed).notes)
