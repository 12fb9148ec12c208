"""`ceph wcache explain`: why a verdict, from its words down to the raw pairs."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, NoReturn, Optional

from ..core.errors import MalformedError, NotFoundError, NotReadyError
from ..core.loads import level_ns
from ..core.model import Verdict, load_name
from ..core.options.entries import CACHE_MODES
from ..core.record import Record
from ..core.scope import Scope, parse_scope
from ..core.text import latency, pasted, relative, table, ticked
from ..core.verdict.explaining import budgets, would_change
from ..core.verdict.recommend import Recommendation
from ..core.verdict.result import turned_off
from ..engine.world import World
from .campaigns import dev_names, told
from .recommend import Recommended, figures, recommended_in
from .tables import BY_95, model_of

# Records whose pairs are shown of one drive model, and lines of the plain form.
RECORDS_MAX = 12
PAIRS_SHOWN_MAX = 40
NAMES_SHOWN_MAX = 8
# Drive models of one answer.
EXPLAINED_MAX = 8


def explain(
    world: World, recommended: Recommended, record: Callable[[str], Optional[Record]],
    scope: str,
) -> Dict[str, Any]:
    """`explain`: the verdicts on drives of a scope.

    Raises NotReadyError where nothing in it is measured yet.
    """
    within = parse_scope(scope)
    advice = recommended_in(world, within)
    if not advice:
        _refuse(world, within)
    if len(advice) > EXPLAINED_MAX:
        raise MalformedError(
            f"scope {within} has {len(advice)} drive models, {EXPLAINED_MAX} are the most",
            "narrow the scope, as model:PART or osd.N",
        )
    return {
        "scope": str(within),
        "explained": [
            _row(world, record, item, row, within)
            for item, row in zip(advice, recommended.rows(world, within))
        ],
    }


def _row(
    world: World, record_of: Callable[[str], Optional[Record]], item: Recommendation,
    row: Dict[str, Any], scope: Scope,
) -> Any:
    results = [world.results[x] for x in item.record_ids if x in world.results]
    mine = [r for r in results if scope.has_osd(r.osd_id) and scope.has_host(r.hostname)]
    measured = []
    for number, result in enumerate(mine):
        # a factorial's pairs are those of its other drive
        kept = number < RECORDS_MAX and not result.measured_in
        record = record_of(result.record_id) if kept else None
        measured.append({
            **told(result), "raw_pairs": _pairs(record),
            "dev_names": dev_names(world, result.hostname, result.domain_id),
        })
    return {
        **row, "measured": measured,
        "would_change": [
            {"what": words, "command": command}
            for words, command in would_change(
                item, results, budgets(world.options)
            )
        ],
    }


def _refuse(world: World, scope: Scope) -> NoReturn:
    drives = [(report, drive) for report in world.reports.values() for drive in report.drives]
    if any(scope.covers(report, drive, world.cluster) for report, drive in drives):
        raise NotReadyError(f"nothing is measured of {scope} yet", "measure it: `ceph wcache try`")
    names = sorted({
        *(str(item.drive_model) for item in world.recommendations),
        *(str(drive.drive_model) for _, drive in drives),
    })[:NAMES_SHOWN_MAX]
    raise NotFoundError(
        f"no drive is in scope {scope}",
        f"drive models are: {', '.join(names)}" if names else "see `ceph wcache agent ls`",
    )


def _pairs(record: Optional[Record]) -> Optional[List[Dict[str, Any]]]:
    """The level of each period of each pair, in us; None where the samples are not kept."""
    if record is None:
        return None
    return [
        {
            "pair": pair.index, "first": CACHE_MODES.name(pair.first),
            "write_back_us": level_ns(pair.a) / 1e3,
            "write_through_us": level_ns(pair.b) / 1e3,
        }
        for pair in record.pairs
    ]


def render(data: Mapping[str, Any]) -> str:
    """`ceph wcache explain` in words and figures."""
    return "\n\n".join("\n".join(_lines(row)) for row in data["explained"])


def _lines(row: Mapping[str, Any]) -> List[str]:
    lines = [
        f"{model_of(row)}, class {row['device_class']}: {row['verdict']}"
        + (" (simulated)" if row["simulated"] else ""),
        f"why: {row['why']}",
    ]
    for load in row["loads"]:
        lines += figures(row, load)
        lines += [f"    {BY_95}"] if load["verdict"] == Verdict.NO_DIFFERENCE.value else []
        if load["next_low"] is not None and load["next_high"] is not None:
            lines.append(
                "    expected of the next drive of this model: "
                + relative({"interval": "95%", "ratio": load["ratio"],
                            "ratio_low": load["next_low"], "ratio_high": load["next_high"]})
            )
    lines.append(
        "  (a percentage is latency with the cache off against on: below 0, off is faster)"
    )
    for result in row["measured"]:
        lines += ["", *_measured(result)]
    lines += ["", "what would change it:"]
    lines += [
        f"  {step['what']}" + (f": {ticked(step['command'])}" if step["command"] else "")
        for step in row["would_change"]
    ]
    lines += row["noop_flushes"]
    lines += [f"note: {line}" for line in row["warnings"]]
    lines += [
        pasted(line) if line.startswith(" ") else f"write through: {line}"
        for line in row["consequences"]
    ]
    return [*lines, *_by_hand(row)]


def _by_hand(row: Mapping[str, Any]) -> List[str]:
    """The commands on a host, and apart from them those of the cluster."""
    if not row["manual"]:
        return []
    of_cluster = [line for line in row["manual"] if line.startswith("ceph ")]
    lines = [f"by hand, for example on {row['manual_on']}:"]
    lines += [pasted(f"  {line}") for line in row["manual"] if line not in of_cluster]
    return lines + [pasted(f"instead, by wcache: {line}") for line in of_cluster]


def _measured(result: Mapping[str, Any]) -> List[str]:
    told = "; ".join(
        text for text in (result["why"], result["ended"]) if text not in ("", "decided")
    )
    lines = [
        f"osd.{result['osd_id']} {result['hostname']} "
        f"{','.join(result['dev_names']) or result['drive_id']}, "
        f"{load_name(result['load_point'])}, record {result['record_id']}: {result['verdict']}"
        + (f": {told}" if told else "")
    ]
    if result["ratio"] is not None:
        lines.append(f"  this experiment: {turned_off(result)}")
    pairs = result["raw_pairs"]
    if result["measured_in"]:
        return [*lines, f"  its pairs are those of record {result['measured_in']}"]
    if pairs is None:
        return [*lines, "  its raw pairs are not kept, or are too many: ask for one OSD"]
    if not pairs:
        return [*lines, "  no pair was completed"]
    rows = [
        (pair["pair"] + 1, pair["first"], latency(pair["write_back_us"]),
         latency(pair["write_through_us"]),
         f"{100 * (pair['write_through_us'] / pair['write_back_us'] - 1):+.0f}%")
        for pair in pairs[:PAIRS_SHOWN_MAX]
    ]
    text = table(("PAIR", "FIRST", "WRITE BACK", "WRITE THROUGH", "CACHE OFF"), rows)
    lines += [f"  {line}" for line in text.split("\n")]
    if len(pairs) > PAIRS_SHOWN_MAX:
        lines.append(f"  and {len(pairs) - PAIRS_SHOWN_MAX} more pairs: see --format json")
    return lines
