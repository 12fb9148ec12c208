"""`ceph wcache plan`: the changes of each plan, what they gained, how they are made by hand."""

from __future__ import annotations

from statistics import median
from typing import Any, Collection, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from ..core import codec
from ..core.change import preconditions
from ..core.change.change import Change, ChangeStatus
from ..core.change.preconditions import NEEDED, faults
from ..core.fleet import claims
from ..core.hardware import since
from ..core.record import Precondition
from ..core.text import (
    LISTED_MAX,
    before_after,
    command,
    grouped,
    listed,
    many,
    named,
    setting,
    short_id,
    typed,
    when,
)
from ..engine.world import World
from ..services.guards import require_plan
from ..services.plans.planners import (
    PLANNED_TO_LAST,
    Planner,
    expectations,
    plain_changes,
    stale_keys_of,
)
from .options import of_options
from .recommend import stale_keys_text
from .tables import LONG, NUMBER, Column, first_rows, listing, model_of


def plan(world: World, knobs: Collection[Planner], plan_id: str) -> Dict[str, Any]:
    """`plan show`: a plan and how far it has come."""
    machine = require_plan(world.rollouts, plan_id, "")
    plain: Dict[str, Any] = codec.to_plain(machine.rollout)
    for inside in ("step", "step_at_s", "judged_s", "pausing"):
        del plain[inside]  # `rollout show` tells of them
    plain["changes"] = plain_changes(
        machine.rollout.changes, machine.rollout.to_last, expectations(world)
    )
    planned = [c for c in machine.rollout.changes if c.status is ChangeStatus.PLANNED]
    moved = preconditions.moved(machine.rollout, world.reports, world.cluster, planned)
    plain["moved"] = [*moved.values()]
    for row, change in zip(plain["changes"], machine.rollout.changes):
        if change.action_id in moved:
            row["manual"] = []  # what is not done by a plan is not done by hand either
        before_us, after_us = change.before_us, change.after_us
        row["ratio"] = before_us / after_us if before_us and after_us else None
        row["written_since"] = _written_since(world, change)
    plain["waiting_for"] = list(machine.waits_for)
    plain["stale_keys"] = stale_keys_of(knobs, world, machine.rollout)
    return plain


def _written_since(world: World, change: Change) -> List[str]:
    """What the drives of a change wrote since, by SMART; empty where they do not tell."""
    report = world.reports.get(change.hostname)
    drives = {d.drive_id: d for d in report.drives} if report else {}
    lines = []
    for before in change.wear:
        drive = drives.get(before.drive_id)
        if drive is not None and drive.wear is not None:
            said = since(before.wear, drive.wear)
            lines += [f"{drive.dev_name}: {said}"] if said else []
    return lines


def plan_text(data: Mapping[str, Any]) -> str:
    """`ceph wcache plan`, and `plan show`: many changes by what they are."""
    few = len(data["changes"]) <= LISTED_MAX
    return _plan_text(data, whole=few)


def whole_plan_text(data: Mapping[str, Any]) -> str:
    """`ceph wcache plan show --all`."""
    return _plan_text(data, whole=True)


def _plan_text(data: Mapping[str, Any], *, whole: bool) -> str:
    alone = [f"left alone: {line}" for line in data.get("left_alone", [])]
    left = listed(alone, "left alone: see --format json")
    if data.get("drives_in_place"):
        left.append(f"{many(data['drives_in_place'], 'drive')} in place, and not changed")
    if "reported" in data:
        left += claims.again(data["reported"], command("ceph wcache plan"))
    if not data["changes"]:
        done = data.get("in_place_by")
        return "\n".join([f"in place, by plan {done}" if done else "nothing to change", *left])
    drives = [c for c in data["changes"] if c.get("kind") != "config"]
    values = [c for c in data["changes"] if c.get("kind") == "config"]
    planned = data.get("status", "planned") == "planned"
    settings = config_changes(values)
    if whole:
        lines = [listing(CHANGES, drives)] if drives else []
        lines += [listing(SETTINGS, settings)] if settings else []
        lines += ["", *(
            f"{short_id(c['action_id'])} written since the change: {line}"
            for c in drives for line in c.get("written_since", [])
        )]
        modes = [c for c in drives if "mode" in c] if planned else []
        lines += [
            "a drive changed by hand: " + command("ceph wcache explain model:{}", model_of(c))
            for c in modes[:1]
        ]
        if planned and data["plan_id"] and len(modes) < len(data["changes"]):
            shown = command("ceph wcache plan show {} --format json-pretty", data["plan_id"])
            lines.append(f"what is changed by hand, at `manual`: {shown}")
    else:
        where = command("ceph wcache plan --format json")
        if data["plan_id"]:
            where = command("ceph wcache plan show {} --all", data["plan_id"])
        told = [f"{short_id(c['action_id'])} {c['status']}: {c['detail']}"
                for c in data["changes"] if c["detail"]]
        lines = [
            *_kinds_of_change(drives),
            *(first_rows([c.head for c in SETTINGS], settings, "changes of settings")
              if settings else ()),
            "", *listed(told, "with a detail"), f"each change: {where}",
        ]
    lines += left
    lines += listed([f"no longer fits: {line}" for line in data.get("moved", [])], "such changes")
    lines += [f"note: {line}" for line in (*data.get("doubts", []), *stale_keys_text(data))]
    lines += [f"note: {line}" for line in of_options(drives)]
    if planned:
        if any(c.get("kept") == PLANNED_TO_LAST for c in drives):
            lines.append(
                "planned to last: that is done by --persist of `apply` alone; without it what is "
                "changed goes at the next power cycle"
            )
        lines += [
            "what would block it, and how long it takes: "
            + typed("ceph wcache apply {} --dry-run", data["plan_id"]),
        ] if data["plan_id"] else []
    else:
        lines += [stands(data), *waiting(data)]
    return "\n".join(lines)


def stands(data: Mapping[str, Any]) -> str:
    """Where a plan stands, and since when it is over."""
    reason = f" ({data['reason']})" if data["reason"] else ""
    over = data["status"] in ("done", "stopped", "rolled back")
    since = f" at {when(data['ended_at_s'])} UTC; nothing of it is under way" if over else ""
    return f"plan {data['plan_id']}: {data['status']}{reason}{since}"


CHANGES = (
    Column("CHANGE", lambda c: short_id(c["action_id"])),
    Column("FAILURE DOMAIN", "failure_domain"), Column("HOST", "hostname"),
    Column("DRIVE", lambda c: ",".join(c["dev_names"])),
    Column("OSD", lambda c: f"osd.{c['osd_id']}"), Column("FROM", lambda c: _from_to(c)[0]),
    Column("TO", lambda c: _from_to(c)[1]), Column("KEPT", lambda c: _from_to(c)[2]),
    Column("STATUS", "status"), Column("EXPECTED", lambda c: before_after(
        c.get("expected_before_us"), c.get("expected_after_us")), NUMBER),
    Column("LATENCY", lambda c: before_after(c["before_us"], c["after_us"]), NUMBER),
    Column("DETAIL", "detail", LONG),
)
SETTINGS = (
    Column("CHANGE", 0), Column("KNOB", 1), Column("OF", 2), Column("SETTING", 3),
    Column("FROM", 4, NUMBER), Column("TO", 5, NUMBER), Column("STATUS", 6),
    Column("LATENCY", 7, NUMBER), Column("DETAIL", 8, LONG),
)


def _kinds_of_change(changes: Sequence[Mapping[str, Any]]) -> List[str]:
    """Like changes of drives in one line, with the medians of what is expected and measured."""
    kinds = grouped(
        ((c["device_class"], model_of(c), *_from_to(c), c["status"]), c) for c in changes
    )
    rows = [
        (len(alike), len({c["hostname"] for c in alike}), *kind,
         *(before_after(*(_middle(c.get(key) for c in alike) for key in ends)) for ends in (
             ("expected_before_us", "expected_after_us"), ("before_us", "after_us"))))
        for kind, alike in kinds.items()
    ]
    heads = ("CHANGES", "HOSTS", "CLASS", "DRIVE MODEL", "FROM", "TO", "KEPT", "STATUS",
             "EXPECTED", "MEDIAN LATENCY")
    return first_rows(heads, rows, "kinds of changes") if rows else []


def _from_to(change: Mapping[str, Any]) -> Tuple[str, str, str]:
    """What a drive had, what it is given, and what it keeps of that over a power cycle."""
    if change.get("kind") == "option":
        name = change["option"]
        return f"{name} {change['expected']}", f"{name} {change['value']}", ""
    return change["expected"], change["mode"], change["kept"] or ""


def _middle(values: Iterable[Optional[float]]) -> Optional[float]:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def waiting(data: Mapping[str, Any]) -> List[str]:
    """What keeps a plan from going on: missed preconditions, or a probe that is asked again."""
    items = data.get("waiting_for", [])
    lines = [
        f"waiting for: {item}" if line == item else f"waiting: {line}"
        for item in items for line in faults([item], NEEDED)
    ]
    names = [Precondition(item).name.lower() for item in items if item in NEEDED]
    if names:
        lines.append("to go on without: " + command(
            "ceph wcache apply {} --override={}", data["plan_id"], ",".join(names)
        ))
    return lines


def coming_later(data: Mapping[str, Any]) -> List[str]:
    """What is put off, or would be, and why."""
    items = data.get("later", [])
    if not items:
        return []
    verb = "comes" if len(items) == 1 else "come"
    return [f"{many(len(items), 'change')} {verb} later: {named(items, 3)}"]


def config_changes(changes: Sequence[Mapping[str, Any]]) -> List[Tuple[Any, ...]]:
    """Changes of the config database; like steps are one row."""
    steps: Dict[Tuple[str, ...], List[Mapping[str, Any]]] = {}
    for c in changes:
        told = c["detail"] or c["before_us"] is not None or c["after_us"] is not None
        own = c["action_id"] if told else ""
        of = c["edits"][0]["who"], c["edits"][0]["name"], str(len(c["edits"]))
        steps.setdefault((c["knob"], c["failure_domain"], *of, c["status"], own), []).append(c)
    rows = []
    for group in steps.values():
        c, last = group[0], group[-1]
        first, end, more = c["edits"][0], last["edits"][0], len(c["edits"]) - 1
        ids, steps_told = short_id(c["action_id"]), ""
        if last is not c:
            ids += f" to {short_id(last['action_id'])}"
            steps_told = f", in {len(group)} steps"
        rows.append((
            ids, c["knob"], c["failure_domain"],
            f"{first['who']} {first['name']}" + (f" and {more} more" if more else "") + steps_told,
            setting(first["name"], first["prior"]), setting(end["name"], end["value"]),
            c["status"], before_after(c["before_us"], c["after_us"]), c["detail"],
        ))
    return rows
