"""Quantiles of Student's t by the values of tables."""

import pytest
from wcache.core.figures.student_t import t95, t_quantile


@pytest.mark.parametrize(("freedom", "quantile"), [
    (2, 9.9248), (3, 5.8409), (5, 4.0321), (10, 3.1693), (30, 2.7500), (120, 2.6174),
])
def test_quantiles_of_students_t_are_those_of_the_tables(freedom, quantile):
    assert t_quantile(0.995, freedom) == pytest.approx(quantile, rel=1e-3)
    assert t_quantile(0.005, freedom) == -t_quantile(0.995, freedom)


def test_students_t_is_that_of_the_tables_and_goes_on_beyond():
    assert (t95(1), t95(4), t95(30)) == (12.706, 2.776, 2.042)
    assert t95(31) == pytest.approx(2.0395, abs=5e-3)
    assert t95(10**6) == pytest.approx(1.96, abs=1e-3)
