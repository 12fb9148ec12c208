"""What was found out and done stands before something befalls the cluster, and after it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Sequence, Set

from probes import Wcache

TRIES = 3
PLAN_S = 180.0
SETTLED_S = 240.0  # a guest without KVM takes that on a busy machine


def ended(wcache: Wcache, plan_id: str, timeout_s: float = PLAN_S) -> Dict[str, Any]:
    """A plan, once nothing of it is under way."""
    def over() -> Any:
        shown = wcache("plan show", plan_id=plan_id)
        return shown if shown["status"] not in ("running", "rolling back") else None

    return dict(wcache.wait(f"the end of {plan_id}", over, timeout_s))


def applied(
    wcache: Wcache, *, persist: bool = False, timeout_s: float = PLAN_S, **arguments: Any
) -> str:
    """A plan that was carried out; one that noise made look worse went back, and another is made.
    """
    for _ in range(TRIES):
        plan_id = _planned(wcache, **arguments)
        wcache("apply", plan_id=plan_id, persist=persist)
        shown = ended(wcache, plan_id, timeout_s)
        if shown["status"] == "done":
            return plan_id
    raise AssertionError(f"no plan was carried out: {shown['reason']}")


def _planned(wcache: Wcache, **arguments: Any) -> str:
    """A plan's id, once there is something to change."""
    said: List[Any] = []

    def made() -> Any:
        said[:] = [wcache("plan", **arguments)]
        return said[0]["plan_id"]

    try:
        return str(wcache.wait("a plan", made))
    except AssertionError:
        raise AssertionError(f"nothing to change: {said}") from None


@contextmanager
def nothing_lost(wcache: Wcache, plan_ids: Sequence[str]) -> Iterator[None]:
    """Whatever is done meanwhile loses nothing of it, and has nothing measured or changed."""
    before, lines = _stored(wcache, plan_ids), _history(wcache)
    # a finding of what was just applied may not have come as far as `ceph health`
    checks = _checks(wcache) | {finding["code"] for finding in wcache("status")["findings"]}
    yield
    wcache.wait("the module", lambda: wcache("status"), SETTLED_S)
    after = _stored(wcache, plan_ids)
    for what, was in before.items():
        assert after[what] == was, what
    now = _history(wcache)
    assert now[: len(lines)] == lines, f"the history was {lines}, it is {now}"
    try:
        wcache.wait("no new health check", lambda: _checks(wcache) <= checks, SETTLED_S)
    except AssertionError as error:
        raise AssertionError(f"{wcache('status')['findings']}, before: {checks}") from error


def _stored(wcache: Wcache, plan_ids: Sequence[str]) -> Dict[str, Any]:
    """All that was found out and done, but for what tells of the time that has passed."""
    campaigns = wcache("campaign ls")["campaigns"]
    shown = [wcache.campaign(campaign["campaign_id"]) for campaign in campaigns]
    results = [result for campaign in shown for result in campaign["results"]]
    plans = [wcache("plan show", plan_id=plan_id) for plan_id in plan_ids]
    return {
        "campaigns": _some(campaigns, "campaign_id", "status"),
        "results": _some(results, "record_id", "load_point", "verdict", "ratio"),
        "records": [wcache("campaign record", record_id=r["record_id"]) for r in results],
        "recommended": _some(
            wcache("recommend")["recommendations"], "device_class", "verdict", "mode", "record_ids"
        ),
        "plans": _some(plans, "plan_id", "status"),
        "changes": [_some(plan["changes"], "status", "detail") for plan in plans],
    }


def _some(rows: List[Dict[str, Any]], *names: str) -> List[Dict[str, Any]]:
    """These columns of rows."""
    return [{name: row[name] for name in names} for row in rows]


def _history(wcache: Wcache) -> List[str]:
    """The audit log, oldest first."""
    lines = wcache("history", limit=1000)["history"]
    return [f"{line['what']}: {line['text']}" for line in lines]


def _checks(wcache: Wcache) -> Set[str]:
    return {code for code in wcache.cluster.health_checks() if code.startswith("WCACHE_")}
