"""What holds for every test: cycles are looked for in what tests make, not in what was imported."""

from __future__ import annotations

import gc


def pytest_collection_finish() -> None:
    """The collector leaves alone from now on what is there for the whole run anyway."""
    gc.collect()
    gc.freeze()
