"""Where these tests run: a place of their own each, or not at all."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import Callable, ContextManager, Iterator

import pytest
from ceph_ci.place import Place
from ceph_ci.source import source_of
from harness.errors import HarnessError


@pytest.fixture(scope="session")
def open_place() -> Callable[[int], ContextManager[Place]]:
    """Opens a place for a release; the test is skipped where what it needs cannot be had."""

    @contextmanager
    def opened(release: int) -> Iterator[Place]:
        with ExitStack() as stack:
            try:
                place = stack.enter_context(Place(release, source_of(release)))
            except HarnessError as error:
                why = " ".join(str(error).split())
                pytest.skip(f"Ceph's own scripts have no place to run: {why[:300]}")
            yield place

    return opened
