"""What must hold before anything new is begun; each raises a WcacheError with advice."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, Sequence, Set, TypeVar

from ..core.change.rollout_state import Rollout
from ..core.errors import ConflictError, MalformedError, NotFoundError, NotReadyError, RefusedError
from ..core.experiment.campaign import OWN_NAMES, Campaign, parse_loads
from ..core.fleet.claims import how_to_name, speaking_for
from ..core.fleet.disputes import Dispute, Key, on_domains
from ..core.jobs import Holding, Touched
from ..core.options.entries import parse_trial
from ..core.options.option import Place
from ..core.scope import Scope
from ..core.text import command, named, ticked, typed
from ..engine.under_way import OPEN_PLANS_MAX, at_once, in_common, touched_by, touched_by_run
from ..engine.world import World

OF_TOGGLES = ("pairs", "recheck", "consent_turn_on")  # arguments that only these have
MAKE_ONE = "make one with `ceph wcache plan`"
Plan = TypeVar("Plan")


def require_thawed(world: World) -> None:
    """Nothing is begun on a frozen cluster."""
    if world.frozen:
        raise RefusedError("the cluster is frozen", "thaw it with `ceph wcache freeze --thaw`")


def require_store(world: World) -> None:
    """Nothing is begun that the mons would not store: a restarted mgr would know nothing of it."""
    if world.trouble:
        raise NotReadyError(world.trouble)


def require_reports(world: World) -> None:
    """Without a report there is no drive to measure; a probe sends one soon after its start."""
    if world.reports:
        return
    if world.deployments:
        raise NotReadyError(
            "no probe has reported yet",
            "wait some seconds and try again; `ceph wcache agent ls` shows which probes have "
            "never called",
        )
    raise NotReadyError("no probe has reported yet", "see `ceph wcache agent add --all`")


def require_plan(rollouts: Mapping[str, Plan], plan_id: str, see: str = MAKE_ONE) -> Plan:
    machine = rollouts.get(plan_id)
    if machine is None:
        raise NotFoundError(f"there is no plan {plan_id[:40]!r}", see)
    return machine


def require_campaign(world: World, campaign_id: str) -> Campaign:
    campaign = world.campaigns.get(campaign_id)
    if campaign is None:
        raise NotFoundError(
            f"there is no campaign {campaign_id[:40]!r}", "see `ceph wcache campaign ls`"
        )
    return campaign


def _refuse_beside(world: World, plan_id: str, why: str = "") -> None:
    end = "or end it with " + typed("ceph wcache rollout abort {}", plan_id)
    shown_by = command("ceph wcache rollout show {}", plan_id)
    if world.rollouts[plan_id].paused:
        raise ConflictError(
            f"plan {plan_id} is paused{why}",
            f"go on with {typed('ceph wcache rollout resume {}', plan_id)}, {end}", shown_by,
        )
    raise ConflictError(f"plan {plan_id} is under way{why}", f"wait for it, {end}", shown_by)


def require_few(open_plans: Sequence[str]) -> None:
    """One more plan may begin beside those that are not over."""
    if len(open_plans) >= OPEN_PLANS_MAX:
        raise ConflictError(
            f"{len(open_plans)} plans are not over ({named(open_plans)})",
            "wait until one of them is, or resume or abort one that is paused",
            command("ceph wcache plan ls"),
        )


def require_clear(world: World, mine: Touched, *, but: str = "", of_controls: bool = True) -> None:
    """Nothing that is not over has a host, an OSD or values in common with what is to begin.

    `but`: leave a plan out.  Without `of_controls` a plan may compare with these OSDs.
    """
    for held in world.reserved:
        common = in_common(mine, held.touched)
        if common:
            _refuse_beside_trial(held, common)
    for run_id in world.open_runs:
        spec = world.runs[run_id].spec
        common = in_common(mine, touched_by_run(spec))
        if common:
            _refuse_beside_campaign(spec.campaign_id, common)
    for plan_id in world.open_plans:
        theirs = touched_by(world.rollouts[plan_id].rollout, world.cluster)
        common = in_common(mine, theirs if of_controls else theirs.own)
        if common and plan_id != but:
            _refuse_beside(world, plan_id, f", with {common} too")


def _refuse_beside_trial(held: Holding, common: str = "") -> None:
    end = f", or end it with {ticked(held.stop)}" if held.stop else ""
    too = common and f", with {common} too"
    raise ConflictError(f"{held.words} is under way{too}", f"wait for it{end}", held.show)


def _refuse_beside_campaign(campaign_id: str, common: str = "") -> None:
    too = common and f", with {common} too"
    raise ConflictError(
        f"campaign {campaign_id} is under way{too}",
        f"wait for it, or {typed('ceph wcache campaign stop {}', campaign_id)}",
        command("ceph wcache campaign show {}", campaign_id),
    )


def require_apart(world: World, rollout: Rollout, *, unasked: bool = False) -> None:
    """Nothing that is not over has a host, an OSD or values in common with a plan.

    That another one compares with OSDs of the plan is no reason: the plan waits for its controls.
    `unasked`: it goes on without a look before each step, so nothing may compare with its OSDs,
    or have drives wait at the same time.
    """
    others = [plan_id for plan_id in world.open_plans if plan_id != rollout.plan_id]
    if not rollout.touched:
        require_few(others)
    if others or world.open_runs or world.reserved:
        mine = touched_by(rollout, world.cluster).own
        require_clear(world, mine, but=rollout.plan_id, of_controls=unasked)
    for run_id in world.open_runs if unasked else ():
        if at_once({run_id: world.runs[run_id]}, {}):
            _refuse_beside_campaign(world.runs[run_id].spec.campaign_id)
    for plan_id in others if unasked else ():
        if at_once({}, {plan_id: world.rollouts[plan_id]}):
            raise ConflictError(f"plan {plan_id} changes drives now", "try again in a moment")


def domains_not_now(world: World) -> Dict[Key, str]:
    """By host and cache domain, why nothing is measured there now: others have it, or a dispute."""
    return {**world.of_plans, **disputed_domains(world)}


def require_some_left(world: World) -> None:
    """Plans and trials that are not over leave a drive to others."""
    if world.some_are_left:
        return
    if world.open_plan:
        _refuse_beside(world, world.open_plan)
    for held in world.reserved:
        _refuse_beside_trial(held)


def require_config(world: World) -> None:
    """What is planned goes by what is set now."""
    if world.config_read_at_s is None:
        raise NotReadyError(
            "the config database was not read yet", world.config_error or "try again"
        )


def require_scope(world: World, scope: Scope) -> None:
    """A class, host, OSD or drive model that is asked for is there."""
    osds = world.cluster.osds
    # a class may be gone since its OSDs were measured
    classes = {
        *(osd.device_class for osd in osds.values()),
        *(result.device_class for result in world.results.values()),
    }
    if scope.device_class and scope.device_class not in classes:
        raise NotFoundError(
            f"there is no device class {scope.device_class[:40]!r}",
            f"use one of {', '.join(sorted(classes - {''})) or 'none'}",
        )
    hosts = {*world.reports, *(osd.hostname for osd in osds.values())}
    if scope.hostname and scope.hostname not in hosts:
        raise NotFoundError(
            f"there is no host {scope.hostname[:60]!r}",
            f"use one of {named(sorted(hosts - {''})) or 'none'}",
        )
    if scope.osd_id is not None and scope.osd_id not in osds:
        raise NotFoundError(f"there is no osd.{scope.osd_id}", "see `ceph osd ls`")
    models = {
        str(drive.drive_model) for report in world.reports.values() for drive in report.drives
    }
    wanted = scope.drive_model
    if not any(wanted.lower() in model.lower() for model in models) and wanted:
        raise NotFoundError(
            f"there is no drive model with {wanted[:60]!r} in its name",
            f"use a part of one of {named(sorted(models - {''})) or 'none'}",
        )


def left_out(world: World, names: str) -> Dict[Key, str]:
    """By host and cache domain, what an admin has named to be left out of a plan.

    A drive is HOST:NAME, its id, that of its cache domain, or osd.N for all that the OSD uses.
    """
    found: Dict[Key, str] = {}
    for name in filter(None, (part.strip() for part in names.split(","))):
        keys = [
            (report.hostname, drive.domain_id)
            for report in world.reports.values() for drive in report.drives
            if name in (f"{report.hostname}:{drive.dev_name}", drive.drive_id, drive.domain_id)
            or any(name == f"osd.{use.osd_id}" for use in drive.uses)
        ]
        if not keys:
            raise NotFoundError(
                f"there is no drive {name[:60]!r} to leave out",
                "use HOST:NAME, a drive's id or osd.N, see `ceph wcache drive ls`",
            )
        found.update(dict.fromkeys(keys, f"left out by --without={name[:60]}"))
    return found


def require_all_drives(without: Mapping[Key, str], what: str) -> None:
    """No drive is left out of what does not go drive by drive."""
    if without:
        raise MalformedError(
            f"--without leaves drives out, and {what} goes by whole hosts or classes of OSDs",
            "take --without away, or plan drives and OSD options alone: --knob=cache_mode, "
            "--knob=options",
        )


def unseen(world: World, scope: Scope) -> List[str]:
    """OSDs of a scope of whose drives no believed report tells, by host, and why.

    What is planned goes by reports: what is missing in them would be left out silently.
    """
    speaks_for = speaking_for(world.reports, world.cluster)
    heard = set(speaks_for.values())
    hosts: Set[str] = set()
    missing: Dict[str, List[str]] = {}
    for osd_id, osd in sorted(world.cluster.osds.items()):
        if osd_id in world.told_by or not (
            scope.has_class(osd.device_class) and scope.has_host(osd.hostname)
            and scope.has_osd(osd_id)
        ):
            continue
        if osd.hostname and osd.hostname not in heard:
            hosts.add(osd.hostname)
        else:
            missing.setdefault(osd.hostname, []).append(f"osd.{osd_id}")
    told = _reported_by_others(world, hosts, [key for key, host in speaks_for.items() if not host])
    hosts -= set(told)
    return [
        *told.values(),
        *([f"{named(sorted(hosts))}: no probe has reported it"] if hosts else ()),
        *(
            f"{host}: its probe tells of no drive of {named(osds)}" if host
            else f"{named(osds)}: Ceph does not know on which host"
            for host, osds in sorted(missing.items())
        ),
    ]


def _reported_by_others(world: World, hosts: Set[str], keys: Iterable[str]) -> Dict[str, str]:
    """Hosts whose OSDs a key reports that speaks for no host, and what to do: one a key."""
    told: Dict[str, str] = {}
    for key in sorted(keys):
        report = world.reports[key]
        uses = [use for drive in report.drives for use in drive.uses] if report.real else []
        for osd in (world.cluster.osds.get(use.osd_id) for use in uses):
            if osd is not None and osd.hostname in hosts and osd.hostname not in told:
                told[osd.hostname] = (
                    f"{osd.hostname}: no probe has reported it, and the key {key} reports "
                    f"osd.{osd.osd_id}: {how_to_name(key, osd.hostname, world.cluster)}"
                )
                break
    return told


def disputed_domains(world: World) -> Dict[Key, str]:
    """By host and cache domain, why nothing is begun there."""
    return {
        key: f"{item.why}; {_cure(item)}"
        for key, item in on_domains(world.disputes, world.reports)
    }


def require_settled(world: World, domains: Iterable[Key]) -> None:
    """Nothing is begun where what was there before is owed, lost or in dispute."""
    wanted = set(domains)
    for key, item in on_domains(world.disputes, world.reports):
        if key in wanted:
            raise RefusedError(f"{item.hostname} {key[1]}: {item.why}", _cure(item))
    unknown = sorted({hostname for hostname, _ in wanted} - world.journal_known)
    if unknown:
        raise NotReadyError(
            f"{', '.join(unknown)} has not reported its probe's journal since the mgr or the "
            "probe started", "wait for its next report, see `ceph wcache agent ls`",
        )


def _cure(item: Dispute) -> str:
    if item.of_version:
        return "the entry stays until then"
    of = item.domain_id or item.journal_key
    accept = typed("ceph wcache drive accept {} {}", item.hostname, of)
    if not item.lost:
        return (
            "wait until its probe has restored it, or see `wcache-probe restore --all`; a drive "
            f"that is gone for good: {accept}"
        )
    return f"see {accept}"


def require_fitting(arguments: Mapping[str, Any]) -> None:
    """Raise MalformedError where the arguments of `campaign start` do not fit together."""
    if {*parse_loads(arguments.get("loads") or "traffic")} & {*OWN_NAMES.values()}:
        _require_not(arguments, OF_TOGGLES, f"--loads={arguments['loads']} toggles nothing")
    else:
        _require_not(arguments, ("calls",), "only --loads=capacity has a number of calls")
    if arguments.get("observe"):
        _require_not(arguments, OF_TOGGLES, "--observe toggles nothing")


def require_comparable(arguments: Mapping[str, Any]) -> None:
    """The same of `ab`; a WcacheError where two such values are not compared."""
    trial = parse_trial(str(arguments["option"]))
    able = trial.entry.loads
    loads = parse_loads(arguments.get("loads") or "traffic")
    wrong = [load.short for load in loads if load not in able]
    if wrong:
        raise MalformedError(
            f"{trial.name} does nothing to the load {wrong[0]}",
            f"use --loads={','.join(load.short for load in able)} or some of them",
        )
    if "dirty_data" in arguments and trial.entry.place is not Place.BCACHE:
        raise MalformedError(
            "--dirty-data is where bcache's dirty data is to be, and this is no option of bcache",
            "leave it out",
        )


def _require_not(arguments: Mapping[str, Any], names: Iterable[str], why: str) -> None:
    given = next(filter(arguments.get, names), "")
    if given:
        raise MalformedError(
            f"{why}, so --{given.replace('_', '-')} cannot be given with it",
            "leave one of them out",
        )


def would(lines: Iterable[str]) -> Dict[str, Any]:
    """The fields of what `--dry-run` answers; each line goes on from "would"."""
    return {"changed": False, "dry_run": True, "would": list(lines)}
