"""A module that cannot start says why and tries again; what it resumes begins once."""

from typing import List

import pytest
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from wcache.ceph.health import health_checks
from wcache.core.errors import StorageError
from wcache.core.model import FindingCode, Severity
from wcache.engine.config_watch import RETRY_MAX_S, RETRY_MIN_S, Starter


class Step:
    """Fails with each of `errors` in turn, then works."""

    def __init__(self, *errors: Exception) -> None:
        self.errors: List[Exception] = list(errors)
        self.done = 0

    def __call__(self) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.done += 1


def test_each_step_is_done_once_and_in_order_however_often_one_fails():
    first, second, third = Step(), Step(StorageError("no quorum"), StorageError("again")), Step()
    starter = Starter((first, second, third))
    assert not starter.go_on()
    assert "no quorum" in starter.error
    assert not starter.go_on()
    assert (first.done, second.done, third.done) == (1, 0, 0)
    assert starter.go_on()
    assert starter.ready
    assert (first.done, second.done, third.done) == (1, 1, 1)
    assert starter.go_on()
    assert third.done == 1


def test_a_failure_is_a_health_error_with_its_reason_until_it_is_cured():
    starter = Starter((Step(StorageError("the mon did not store version", "check the mons")),))
    starter.go_on()
    (finding,) = starter.findings()
    assert (finding.code, finding.severity) == (FindingCode.STORE_FAILED, Severity.ERROR)
    check = health_checks(starter.findings())["WCACHE_STORE_FAILED"]
    assert check["severity"] == "error"
    assert "the mon did not store version: check the mons" in check["detail"][0]
    starter.go_on()
    assert starter.findings() == ()


def test_the_same_failure_is_tried_ever_more_seldom_and_another_one_soon():
    same = [StorageError("x") for _ in range(12)]
    starter = Starter((Step(*same, StorageError("y")),))
    waits = []
    for _ in range(13):
        starter.go_on()
        waits.append(starter.retry_s)
    assert waits[:3] == [RETRY_MIN_S, 2 * RETRY_MIN_S, 4 * RETRY_MIN_S]
    assert waits[11] == RETRY_MAX_S
    assert waits[12] == RETRY_MIN_S


@pytest.mark.parametrize("error", [ValueError("odd"), KeyError("odd"), OSError("odd")])
def test_what_nobody_thought_of_is_tried_again_too(error):
    starter = Starter((Step(error),))
    assert not starter.go_on()
    assert "odd" in starter.error
    assert "\n" not in starter.error
    assert starter.go_on()


def test_a_store_that_is_unreadable_at_the_start_is_taken_up_once_it_is_cured():
    mgr = FakeMgr(("h1", (make.drive("sda", 0),)))
    mgr.report_all()
    mgr.command("campaign start", loads="depth1", accept_cost=True)
    for _ in range(5):
        mgr.step()
    mgr.store.kept["version"] = "999"
    mgr.store.fails = lambda key: True
    starter = Starter((mgr.engine.load, mgr.mclock.load))
    for _ in range(3):
        assert not starter.go_on()
    assert "version '999'" in starter.error
    mgr.store.kept["version"] = "1"
    mgr.store.fails = lambda key: False
    assert starter.go_on()
    mgr.settle()
    resumed = [entry for entry in mgr.inside.audit.all() if "resumed" in entry.text]
    assert len(resumed) == 1
    assert mgr.inside.runs["c1.0"].over
