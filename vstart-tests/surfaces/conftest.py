"""One cluster with the dashboard for all tests that want it."""

from __future__ import annotations

from typing import Iterator

import pytest
from dashboard import Site, a_site


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    """Leave it as it was: all three pages there, nothing raised."""
    with a_site() as found:
        yield found
