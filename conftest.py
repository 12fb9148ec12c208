"""What holds for every test: how properties are tried, cycles, contracts, what is skipped."""

from __future__ import annotations

import gc
from typing import Iterator

import pytest
from examples import by_default
from harness.errors import NotPossible
from mgr_fakes import watch

NEW_OBJECTS = 50_000  # CPython looks each 700 times that more was made than freed, which is often

by_default()  # no property fails because the machine is busy
watch.install()


def pytest_collection_finish() -> None:
    """The collector leaves alone from now on what is there for the whole run anyway."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """A test fails that has the module ask or read of Ceph what no contract has.

    One that asks for what a cluster or this machine cannot do is skipped, with the reason.
    """
    try:
        yield
    except NotPossible as reason:
        pytest.skip(str(reason))
    watch.check()
