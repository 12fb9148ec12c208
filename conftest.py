"""What holds for every test: how properties are tried, and when cycles are looked for."""

from __future__ import annotations

import gc

from examples import by_default

NEW_OBJECTS = 50_000  # CPython looks each 700 times that more was made than freed, which is often

by_default()  # no property fails because the machine is busy


def pytest_collection_finish() -> None:
    """The collector leaves alone from now on what is there for the whole run anyway."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS)
