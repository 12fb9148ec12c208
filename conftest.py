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

by_default()  # no property fails because the machine is busy
watch.install()


@pytest.hookimpl(trylast=True)  # -m has left out what is not asked for
def pytest_collection_modifyitems(config: pytest.Config, items: List[pytest.Item]) -> None:
    """With WCACHE_TURNS=3 do a third of the tests: which, follows from the commit's hash.

    Of the drive lab these are files: the tests of one share their guests.  What failed and is
    done again was of this turn already.
    """
    turns = int(os.environ.get("WCACHE_TURNS") or 1)
    if turns == 1 or config.getoption("lf"):
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
    # pytest has read it, as have the workers of xdist; a pytest that a test runs must not
    os.environ.pop("PYTEST_ADDOPTS", None)
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS)


@pytest.hookimpl(trylast=True)  # pytest has written which tests failed
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A run that broke off knows only some of what fails: it leaves nothing to be done again."""
    whole = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    if not whole and session.config.cache and not hasattr(session.config, "workerinput"):
        session.config.cache.set("cache/lastfailed", {})


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
