"""What holds for every test: how properties are tried, cycles, contracts, what is skipped."""

from __future__ import annotations

import gc
import os
from typing import Iterator, List

import pytest
from examples import by_default
from harness.errors import NotPossible
from mgr_fakes import watch
from rotation import hash_of

NEW_OBJECTS = 50_000  # CPython looks each 700 times that more was made than freed, which is often

os.environ.pop("PYTEST_ADDOPTS", None)  # pytest has read it; a pytest that a test runs must not
by_default()  # no property fails because the machine is busy
watch.install()


@pytest.hookimpl(trylast=True)  # -m has left out what is not asked for
def pytest_collection_modifyitems(config: pytest.Config, items: List[pytest.Item]) -> None:
    """With WCACHE_TURNS=3 do a third of the tests: which, follows from the commit's hash.

    Of the drive lab these are files: the tests of one share their guests.
    """
    turns = int(os.environ.get("WCACHE_TURNS") or 1)
    if turns == 1:
        return
    first = int(hash_of("HEAD") or "0", 16) % turns
    names = [str(item.path) if item.get_closest_marker("lab") else item.nodeid for item in items]
    chosen = {*sorted({*names})[first::turns]}
    config.hook.pytest_deselected(
        items=[item for item, name in zip(items, names) if name not in chosen]
    )
    items[:] = [item for item, name in zip(items, names) if name in chosen]


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
