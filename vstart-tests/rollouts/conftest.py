"""The cluster that these tests share, one after the other."""

from __future__ import annotations

from typing import Iterator

import pytest
from rollouts.rig import Rig, started


@pytest.fixture(scope="package")
def rig(release: int) -> Iterator[Rig]:
    """Five OSDs of one drive model."""
    with started(release) as rig:
        yield rig


@pytest.fixture
def tidy(rig: Rig) -> Iterator[None]:
    """All goes back after each test, and a test that failed does not spoil the next one."""
    yield
    rig.all_back()
    rig.cluster.wait_healthy(180, ignoring=["WCACHE_"])
