"""Rollouts as text for people."""

from __future__ import annotations

from typing import Any, List, Mapping, Sequence, Tuple

from ...core.change.preconditions import NEEDED, faults
from ...core.change.time_left import between
from ...core.shell import command, ticked
from ...core.text import listed, many, named, roughly, table, when
from ..plan_tables import coming_later, waiting
from ..tables import lines_of

# More waves than this are told together where they stand alike.
WAVES_MAX, WAVES_NAMED = 20, 3
# What a dry run says of each change.
_WOULD = (
    ("would change {}", "would_change"),
    ("{} keeps its mode", "would_keep"),
    ("would make {} last over a power cycle", "would_persist"),
    ("would restore {}", "would_restore"),
)


def rollouts(data: Mapping[str, Any]) -> str:
    """`ceph wcache rollout ls`."""
    tried = [trial_line(one) for one in data["trials"]]
    if not data["rollouts"]:
        return "\n".join(tried or ["no rollout yet", "next: ceph wcache recommend"])
    rows = [
        (r["plan_id"], r["status"], f"{r['wave']}/{r['waves_total']}",
         f"{r['applied']}/{r['changes']}", r["not_judged"], _left(r), r["reason"])
        for r in data["rollouts"]
    ]
    heads = ("PLAN", "STATUS", "WAVE", "APPLIED", "NOT JUDGED", "TIME LEFT", "REASON")
    return "\n".join([table(heads, rows), *tried])


def trial_line(one: Mapping[str, Any]) -> str:
    """What a knob tries by itself."""
    of = f" of plan {one['plan_id']}" if one["plan_id"] else ""
    reason = f" ({one['reason']})" if one["reason"] else ""
    words = f"; {one['words']}" if one["words"] else ""
    see = ticked(one["shown_by"])
    return f"trial {one['trial_id']}{of}: {one['status']}{reason}{words}; see {see}"


def rollout(data: Mapping[str, Any]) -> str:
    """`ceph wcache rollout show`, of a plan or a trial."""
    if "trial" in data:
        return trial_line(data["trial"])
    reason = f" ({data['reason']})" if data["reason"] else ""
    lines = [f"plan {data['plan_id']}: {data['status']}{reason}"]
    rows = _waves(data["waves"])
    if rows:
        lines.append(table(("WAVE", "KIND", "WHERE", "CHANGES"), rows))
    step = data["step"]
    if step["changes"]:
        beside = ", ".join(f"osd.{item}" for item in step["controls"]) or "none are left"
        lines += [
            f"step: {', '.join(step['changes'])} ({step['phase']})",
            f"unchanged OSDs beside it: {beside}",
            f"blocks: {step['blocks_before']} before, {step['blocks']} of at most "
            f"{step['blocks_max']} in this stretch",
        ]
    lines.append(f"judged by: {data['judged_by']}")
    if data["judgement"]:
        lines.append(f"judgement: {data['judgement']['words']}")
        if data["judgement"]["settle"]:
            lines.append(f"it would be settled by {data['judgement']['settle']}")
    lines += [f"so far: {told(item)}" for item in data["evidence"]]
    following = data["next_step"]
    if following and following["size"]:
        lines.append(f"next step: {many(following['size'], 'change')}, {following['why']}")
    if data["harm_max_s"]:
        lines.append(
            f"extra wait of clients: {data['harm_s']:.0f} s of {data['harm_max_s']:.0f} s, "
            "over all of them"
        )
    lines += [trial_line(one) for one in data["trials"]]
    lines += [*waiting(data), *coming_later(data)]
    if data["ends_at_s"] is not None:
        lines.append(f"expected end: {when(data['ends_at_s'])} UTC")
    if data["seconds_left_most"] is not None:
        lines.append(f"time left: {_left(data)}, without what it may wait for")
    if data["status"] == "paused":
        lines += [
            "next: " + command("ceph wcache rollout resume {}", data["plan_id"]),
            "or:   " + command("ceph wcache rollout abort {}", data["plan_id"]),
        ]
    return "\n".join(lines)


def _waves(waves: Sequence[Mapping[str, Any]]) -> List[Tuple[Any, ...]]:
    """A row for each wave; where they are many, one for those in a row that stand alike."""
    rows: List[List[Any]] = []
    for number, wave in enumerate(waves, 1):
        statuses = wave["statuses"]
        last = rows[-1] if rows else None
        if last and len(waves) > WAVES_MAX and wave["kind"] == last[2] and len(statuses) == 1 \
                and [*statuses] == [*last[4]]:
            last[1] = number
            last[3].append(wave["name"])
            last[4] = {status: last[4][status] + count for status, count in statuses.items()}
        else:
            rows.append([number, number, wave["kind"], [wave["name"]], dict(statuses)])
    return [
        (first if first == last else f"{first} to {last}", kind, named(names, WAVES_NAMED),
         ", ".join(f"{count} {status}" for status, count in statuses.items()))
        for first, last, kind, names, statuses in rows
    ]


def told(item: Mapping[str, Any]) -> str:
    """What all steps of a kind say together."""
    return (
        f"{item['kind']}: {item['of']} latency {item['ratio']:.2f} times that before "
        f"({item['low']:.2f} to {item['high']:.2f}), {many(item['steps'], 'step')} together, "
        f"{many(item['drives'], 'change')} proven"
    )


def forecast(data: Mapping[str, Any]) -> str:
    """`ceph wcache apply --dry-run`, `rollback --dry-run`, and what they really answer."""
    if not data.get("dry_run"):
        rest = {name: value for name, value in data.items() if name != "later"}
        return "\n".join([lines_of(rest), *coming_later(data)])
    of = f"trial {data['trial_id']}" if "trial_id" in data else f"plan {data['plan_id']}"
    lines = [f"dry run: nothing of {of} is changed"]
    waves = [
        f"wave {number}, {wave['kind']}: {wave['name']}, {many(wave['size'], 'change')}"
        for number, wave in enumerate(data.get("waves", ()), 1)
    ]
    lines += listed(waves, "waves: see --format json")
    for words, key in _WOULD:
        said = [words.format(line) for line in data.get(key, ())]
        lines += listed(said, "like these: see --format json")
    if "seconds_most" in data:
        taken = between(data["seconds_least"], data["seconds_most"])
        lines.append(f"takes {taken}, without what it may wait for")
    if data.get("harm_max_s"):
        lines.append(f"{at_worst(data['harm_max_s'])}; then it pauses (rollout_harm_max_s)")
    if data.get("judged_by"):
        lines.append(f"judged by: {data['judged_by']}")
    if data.get("lasting"):
        lines.append(f"lasts: {data['lasting']}")
    if data.get("in_the_way"):
        lines.append(f"in the way: {data['in_the_way']}")
    lines += [f"not met now: {line}" for line in faults(data.get("missed", ()), NEEDED)]
    lines += coming_later(data)
    lines += [f"has changed: {line}" for line in data.get("moved", ())]
    if data.get("next"):
        lines.append(f"next: {data['next']}")
    return "\n".join(lines)


def at_worst(seconds: float) -> str:
    """What a rollout may cost its clients."""
    return f"at worst {seconds:.0f} s of extra wait, over all clients"


def _left(row: Mapping[str, Any]) -> str:
    least, most = row["seconds_left_least"], row["seconds_left_most"]
    if most is None:
        return "-"
    return between(least, most) if most - least > 5 else roughly(most)
