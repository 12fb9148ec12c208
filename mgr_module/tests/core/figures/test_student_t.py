"""Quantiles of Student's t by the values of tables."""

import pytest
from scipy import stats
from wcache.core.figures.student_t import t95, t_exact, t_quantile


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


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 5, 10, 99, 511])
def test_for_whole_degrees_of_freedom_it_is_exact(freedom):
    for alpha in (0.01, 0.05):
        exact = stats.t.ppf(1 - alpha / 2, freedom)
        assert t_exact(freedom, alpha) == pytest.approx(exact, rel=1e-12)
