"""What holds for every test: cycles are looked for in what tests make, not in what was imported."""

from __future__ import annotations

import gc

NEW_OBJECTS = 50_000  # CPython looks each 700 times that more was made than freed, which is often


def pytest_collection_finish() -> None:
    """The collector leaves alone from now on what is there for the whole run anyway."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS)
