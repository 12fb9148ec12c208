"""A write+sync matrix is decided cell by cell from its pairs, and refused where it lies."""

from dataclasses import replace

import pytest
from matrices import RATIOS, a_matrix
from wcache.analysis.decision import Materiality
from wcache.core.errors import MalformedError
from wcache.core.experiment.matrix import CELLS, DEPTHS, Skipped, Sync, cells_of
from wcache_cli.matrix_analysis import analyse


def test_each_cell_is_decided_by_itself():
    found = analyse(a_matrix(), Materiality())
    assert len(found["cells"]) == 12
    wanted = {"none": "write back", "fdatasync": "write through"}
    for cell in found["cells"]:
        if cell["sync"] in wanted:
            assert cell["better"] == wanted[cell["sync"]]
        elif cell["depth"] == 1:
            assert cell["better"] == "no material difference"


@pytest.mark.slow
def test_the_99_percent_intervals_of_600_cells_miss_as_often_as_they_say():
    cells = [cell for i in range(50) for cell in analyse(a_matrix(draw=i), Materiality())["cells"]]
    missed = sum(
        not cell["ratio_low"] < RATIOS[Sync(cell["sync"])] < cell["ratio_high"] for cell in cells
    )
    assert len(cells) == 600
    assert 1 <= missed <= 15


def test_few_pairs_decide_nothing():
    for pairs in (1, 3):
        found = analyse(a_matrix(pairs), Materiality())
        assert {cell["better"] for cell in found["cells"]} == {"insufficient data"}


def test_cells_that_were_not_measured_are_named():
    whole = a_matrix()
    deep = [cell for cell in CELLS if cell.depth > 1]
    shallow = tuple(
        replace(pair, **{
            name: replace(getattr(pair, name), cells=tuple(
                item for item in getattr(pair, name).cells if item.cell.depth == 1
            )) for name in ("write_back", "write_through")
        }) for pair in whole.pairs
    )
    found = analyse(
        replace(whole, pairs=shallow, skipped=tuple(Skipped(cell, "no fio") for cell in deep)),
        Materiality(),
    )
    assert {cell["depth"] for cell in found["cells"]} == {1}
    assert [item["why"] for item in found["skipped"]] == ["no fio"] * 6


def altered(whole, **changes):
    first = whole.pairs[0]
    return replace(whole, pairs=(replace(first, **changes), *whole.pairs[1:]))


@pytest.mark.parametrize(("change", "said"), [
    (lambda m: replace(m, version=2), "version 2"),
    (lambda m: replace(m, seed=12), "order of the matrix's seed"),
    (lambda m: altered(m, index=3), "not numbered from 0"),
    (lambda m: altered(m, write_back=m.pairs[0].write_through), "wrong modes"),
    (lambda m: altered(m, write_back=replace(
        m.pairs[0].write_back, cells=m.pairs[0].write_back.cells[:1] * 2)), "unknown cell"),
    (lambda m: altered(m, write_back=replace(m.pairs[0].write_back, cells=(
        replace(m.pairs[0].write_back.cells[0], samples_ns=()),))), "no samples above 0"),
])
def test_a_matrix_that_contradicts_itself_is_refused_in_one_line(change, said):
    with pytest.raises(MalformedError, match=said):
        analyse(change(a_matrix()), Materiality())


def test_the_cells_come_in_another_order_in_each_pair_and_the_same_in_each_release():
    orders = {cells_of(3, index) for index in range(20)}
    assert len(orders) == 20
    assert all(set(order) == set(CELLS) for order in orders)
    assert [(c.pattern.value, c.sync.value, c.depth) for c in cells_of(1, 0)][:2] == [
        ("random", "O_DSYNC", 128), ("sequential", "O_DSYNC", 128),
    ]
    assert len(CELLS) == 6 * len(DEPTHS)
