"""What must hold before anything new is begun; each raises a WcacheError with advice."""

from __future__ import annotations

import shlex
from typing import Any, Dict, Iterable, Optional, Tuple

from ..core.change.rollout import RolloutMachine
from ..core.change.scope import Scope
from ..core.errors import ConflictError, MalformedError, NotFoundError, NotReadyError, RefusedError
from ..core.fleet.disputes import Dispute, Key
from ..core.text import named
from ..engine.engine import Engine


def bounded(value: Any, default: int, low: int, high: int, name: str) -> int:
    """A whole number that was asked for, or the default; it must lie in its bounds."""
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        option = f"--{name.replace('_', '-')}"
        raise MalformedError(f"{option} must be a whole number from {low} to {high}")
    return int(value)


def require_thawed(engine: Engine) -> None:
    """Nothing is begun on a frozen cluster."""
    if engine.frozen:
        raise RefusedError("the cluster is frozen", "thaw it with `ceph wcache freeze --thaw`")


def require_store(engine: Engine) -> None:
    """Nothing is begun that the mons would not store: a restarted mgr would know nothing of it."""
    trouble = engine.archive.trouble()
    if trouble:
        raise NotReadyError(trouble)


def require_reports(engine: Engine) -> None:
    """Without a report there is no drive to measure; a probe sends one soon after its start."""
    if engine.hosts.reports:
        return
    if engine.hosts.deployments:
        raise NotReadyError(
            "no probe has reported yet",
            "wait some seconds and try again; `ceph wcache agent ls` shows which probes have "
            "never called",
        )
    raise NotReadyError("no probe has reported yet", "see `ceph wcache agent add --all`")


def require_unreserved(engine: Engine) -> None:
    """Nothing is toggled while something that is no run measures OSDs."""
    if engine.reserved:
        raise ConflictError(
            f"{engine.reserved} is under way",
            "wait for it; a trial ends by `ceph wcache memory trial stop`",
        )


def require_plan(engine: Engine, plan_id: str) -> RolloutMachine:
    """The plan of that id."""
    machine = engine.rollouts.get(plan_id)
    if machine is None:
        raise NotFoundError(
            f"there is no plan {plan_id[:40]!r}", "make one with `ceph wcache plan`"
        )
    return machine


def require_no_plan(engine: Engine) -> None:
    """A rollout wants the drives for itself: nothing would be measured before its end."""
    for plan_id, machine in engine.rollouts.items():
        if not machine.over:
            end = f"or end it with `ceph wcache rollout abort {plan_id}`"
            if machine.paused:
                raise ConflictError(
                    f"plan {plan_id} is paused",
                    f"go on with `ceph wcache rollout resume {plan_id}`, {end}",
                )
            raise ConflictError(f"plan {plan_id} is under way", f"wait for it, {end}")


def require_idle(engine: Engine) -> None:
    """A rollout wants the drives for itself."""
    require_unreserved(engine)
    for machine in engine.runs.values():
        if not machine.over:
            raise ConflictError(
                f"campaign {machine.spec.campaign_id} is under way", "wait for it, or stop it"
            )
    require_no_plan(engine)


def require_class(engine: Engine, device_class: Optional[str]) -> None:
    """A device class that is asked for is one of the cluster, or was when it was measured."""
    known = {
        *(osd.device_class for osd in engine.view.cluster().osds.values()),
        *(result.device_class for result in engine.analyses.results.values()),
    }
    if device_class and device_class not in known:
        raise NotFoundError(
            f"there is no device class {device_class[:40]!r}",
            f"use one of {', '.join(sorted(known - {''})) or 'none'}",
        )


def require_scope(engine: Engine, scope: Scope) -> None:
    """A class, host, OSD or drive model that is asked for is there."""
    require_class(engine, scope.device_class)
    osds = engine.view.cluster().osds
    hosts = {*engine.hosts.reports, *(osd.hostname for osd in osds.values())}
    if scope.hostname and scope.hostname not in hosts:
        raise NotFoundError(
            f"there is no host {scope.hostname[:60]!r}",
            f"use one of {named(sorted(hosts - {''})) or 'none'}",
        )
    if scope.osd_id is not None and scope.osd_id not in osds:
        raise NotFoundError(f"there is no osd.{scope.osd_id}", "see `ceph osd ls`")
    models = {
        str(drive.drive_model) for report in engine.hosts.reports.values()
        for drive in report.drives
    }
    wanted = scope.drive_model or ""
    if not any(wanted.lower() in model.lower() for model in models) and wanted:
        raise NotFoundError(
            f"there is no drive model with {wanted[:60]!r} in its name",
            f"use a part of one of {named(sorted(models - {''})) or 'none'}",
        )


def disputes_of(engine: Engine) -> Tuple[Dispute, ...]:
    """Cache domains whose prior state is owed or lost: nothing is begun on them."""
    return engine.debts.disputes(engine.runs, engine.rollouts, engine.view.cluster().fsid)


def disputed_domains(engine: Engine) -> Dict[Key, str]:
    """By host and cache domain, why nothing is begun there."""
    return {item.key: f"{item.why}; {_cure(item)}" for item in disputes_of(engine)}


def require_settled(engine: Engine, domains: Iterable[Key]) -> None:
    """Nothing is begun where what was there before is owed, lost or in dispute."""
    wanted = set(domains)
    for item in disputes_of(engine):
        if item.key in wanted:
            raise RefusedError(f"{item.hostname} {item.domain_id}: {item.why}", _cure(item))
    unknown = sorted({hostname for hostname, _ in wanted} - engine.hosts.journal_known)
    if unknown:
        raise NotReadyError(
            f"{', '.join(unknown)} has not reported its probe's journal since the mgr or the "
            "probe started", "wait for its next report, see `ceph wcache agent ls`",
        )


def _cure(item: Dispute) -> str:
    accept = shlex.join(["ceph", "wcache", "drive", "accept", item.hostname, item.domain_id])
    if not item.lost:
        return (
            "wait until its probe has restored it, or see `wcache-probe restore --all`; a drive "
            f"that is gone for good: `{accept}`"
        )
    return f"see `{accept}`"
