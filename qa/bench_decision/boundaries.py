"""Exact boundaries c_n of the group-sequential t, as `wcache.analysis.sequential` uses them.

After every pair n the interval is mean +- c_n s/sqrt(n).  The c_n are set so that under
normal pair differences the chance of ever having missed the truth by look n is exactly
alpha * sqrt(n / horizon) (a spending function in the sense of Lan and DeMets, Biometrika
1983; repeated confidence intervals after Jennison and Turnbull, JRSS B 1989).

No simulation is needed.  With r_n = sum(x) / sqrt(sum(x^2)), which is a one-to-one
function of Student's t, r_n = t sqrt(n / (n - 1 + t^2)), the sequence is a Markov chain:
the direction of (x_1..x_n) is independent of its length, so

    r_(n+1) = r_n cos(a) + sin(a),   a independent of r_n with density ~ cos(a)^(n-1).

The density of r_n over the looks not yet crossed is carried forward by quadrature; all
integrands are smooth, so that 64 nodes give eight digits.
`PYTHONPATH=qa python3 -m bench_decision.boundaries` prints the table that
`wcache.analysis.sequential` holds.
"""

from __future__ import annotations

import math
from typing import List

import numpy as np
from scipy.optimize import brentq
from scipy.special import betainc, stdtrit

FIRST_LOOK = 4  # pairs; with fewer the sd says too little
NODES = 64


def boundaries(alpha: float, horizon: int) -> List[float]:
    """c_n for n = FIRST_LOOK..horizon, a look at every n; alpha is two-sided and total."""
    n = FIRST_LOOK
    spent = alpha * math.sqrt(n / horizon)
    c = -float(stdtrit(n - 1, spent / 2))
    found = [c]
    grid, weights = np.polynomial.legendre.leggauss(NODES)
    edge = _r_of_t(c, n)
    # barycentric interpolation on Chebyshev points of [-edge, edge]
    angles = (np.arange(NODES) + 0.5) * math.pi / NODES
    cheb = np.cos(angles)
    bary = np.sin(angles) * (-1.0) ** np.arange(NODES)
    scale = math.exp(math.lgamma(n / 2) - math.lgamma((n - 1) / 2)) / math.sqrt(math.pi * n)
    density = scale * (1 - (edge * cheb) ** 2 / n) ** ((n - 3) / 2)
    while n < horizon:
        due = alpha * (math.sqrt((n + 1) / horizon) - math.sqrt(n / horizon))

        def excess(
            b: float, density: np.ndarray = density, edge: float = edge, n: int = n,
            due: float = due,
        ) -> float:
            # from below sqrt(b^2 - 1) no angle reaches b; squared nodes tame that root
            lowest = math.sqrt(b * b - 1)
            u = (grid + 1) / 2
            nodes = lowest + (edge - lowest) * u * u
            mass = weights * (edge - lowest) * u
            held = _interpolate(density, edge, nodes, cheb, bary)
            return 2 * float((mass * held) @ _exceeds(nodes, b, n)) - due

        low, high = 1.0, math.sqrt(1 + edge * edge)  # nothing not yet crossed gets higher
        crossed = brentq(excess, low, high, xtol=1e-13)
        targets = crossed * cheb
        density = _carry(density, edge, targets, n, cheb, bary, grid, weights)
        n, edge = n + 1, crossed
        found.append(_t_of_r(edge, n))
    return found


def _r_of_t(t: float, n: int) -> float:
    return t * math.sqrt(n / (n - 1 + t * t))


def _t_of_r(r: float, n: int) -> float:
    return r * math.sqrt((n - 1) / (n - r * r))


def _angle_tail(angle: np.ndarray, n: int) -> np.ndarray:
    """P(a > angle) where sin(a) is one coordinate of a uniform direction in n+1 dimensions."""
    sine = np.sin(angle)
    half = 0.5 * betainc(n / 2, 0.5, 1 - sine * sine)
    return np.where(sine > 0, half, 1 - half)


def _exceeds(r: np.ndarray, b: float, n: int) -> np.ndarray:
    """P(r cos(a) + sin(a) > b) for each r >= 0 and b >= 1."""
    tilt, size = np.arctan(r), np.sqrt(1 + r * r)
    up = np.arcsin(np.minimum(b / size, 1.0))
    between: np.ndarray = _angle_tail(up - tilt, n) - _angle_tail(np.pi - up - tilt, n)
    return between


def _interpolate(
    values: np.ndarray, edge: float, at: np.ndarray, cheb: np.ndarray, bary: np.ndarray
) -> np.ndarray:
    gap = (at / edge)[..., None] - cheb
    gap[gap == 0] = 1e-300
    parts = bary / gap
    return (parts @ values) / parts.sum(axis=-1)


def _carry(
    density: np.ndarray, edge: float, targets: np.ndarray, n: int,
    cheb: np.ndarray, bary: np.ndarray, grid: np.ndarray, weights: np.ndarray,
) -> np.ndarray:
    """Density of r_(n+1) at `targets` from that of r_n on [-edge, edge].

    f(r') = integral of k cos(a)^(n-2) f_n((r' - sin a) / cos a) da over the one interval
    of a where the argument lies inside [-edge, edge].
    """
    k = math.exp(math.lgamma((n + 1) / 2) - math.lgamma(n / 2)) / math.sqrt(math.pi)
    tilt, size = math.atan(edge), math.sqrt(1 + edge * edge)
    sized = np.abs(targets)  # the density is even
    up = np.arcsin(np.minimum(sized / size, 1.0))
    start = up - tilt
    stop = np.where(sized > 1, np.pi - up - tilt, up + tilt)
    middle, half = (start + stop) / 2, (stop - start) / 2
    angle = middle[:, None] + half[:, None] * grid
    cosine = np.cos(angle)
    source = np.clip((sized[:, None] - np.sin(angle)) / cosine, -edge, edge)
    values = _interpolate(density, edge, source, cheb, bary)
    return k * ((cosine ** (n - 2) * values) @ weights) * half


if __name__ == "__main__":
    for level in (0.01, 0.05):
        print(level, [round(value, 5) for value in boundaries(level, 80)])
