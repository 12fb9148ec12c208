"""Results as lines of text."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping

from wcache.core.experiment.run_state import FIRST_LOOK
from wcache.core.options.entries import Arms, OptionTrial, arms_of
from wcache.core.text import latency, relative, table

COLUMNS = ("mean", "std", "min", "p25", "p50", "p75", "p90", "p99", "max")


def arms_in(result: Mapping[str, Any]) -> Arms:
    """Return the words for what a result compares."""
    compared = result.get("compared")
    return arms_of(OptionTrial(**compared) if compared else None)


def mode_table(per_mode: Mapping[str, Mapping[str, Any]]) -> List[str]:
    """A line of latencies for each arm, and one of its stalls."""
    rows = []
    for arm, found in per_mode.items():
        below = found.get("stall_rate_below")
        rows.append((
            arm, found["n"], *(_latency(found, name) for name in COLUMNS),
            "-" if below is None else f"{below:.2%}",
        ))
    return table(("latency", "n", *COLUMNS, "stalls below"), rows).splitlines()


def write_lines(per_mode: Mapping[str, Mapping[str, Any]]) -> List[str]:
    """What OSDs' histograms tell of client writes, a line for each arm that has one."""
    lines = []
    for arm, found in per_mode.items():
        writes = found.get("client_writes")
        if writes is not None:
            parts = ", ".join(
                f"{name} about {latency(writes[f'{name}_about_us'])}"
                for name in ("p50", "p90", "p99") if f"{name}_about_us" in writes
            )
            lines.append(
                f"{writes['n']} client writes in {arm}: {parts} "
                "(read from buckets a factor of 2 wide)"
            )
    return lines


def _latency(found: Mapping[str, Any], column: str) -> str:
    value = found.get(f"{column}_us")
    if value is not None:
        return latency(value)
    bound = found.get(f"{column}_at_least_us")
    return "-" if bound is None else f">={latency(bound)}"


def result_lines(result: Dict[str, Any]) -> List[str]:
    """Latencies, verdict, reason, doubts and what would help, a line each."""
    lines = []
    arms = arms_in(result)
    change = relative({**result, "interval": f"{result.get('level', 0.99):.0%}"})
    if change:
        levels = [found.get("level_us") for found in result.get("per_mode", {}).values()]
        told = " -> ".join(map(latency, levels)) if levels and None not in levels else ""
        lines.append(f"{arms.a} -> {arms.b}: " + (told + change).strip())
    if result.get("tail_ratio") is not None:
        tail = {"ratio": result["tail_ratio"], "ratio_low": None, "ratio_high": None}
        lines.append(f"90th percentiles:{relative(tail)}")
    if result.get("next_low") is not None:
        coming = {"ratio_low": result["next_low"], "ratio_high": result["next_high"]}
        lines.append("the next drive:" + relative({**result, **coming, "interval": "95%"}))
    lines.append(f"verdict: {result['verdict']}")
    lines.append(f"why: {result['why']}")
    codes = result.get("warnings", [])
    advice = result.get("advice", [])
    if advice:
        lines += [f"warning: {code}: {text}" for code, text in zip(codes, advice)]
    else:
        lines += [f"warning: {text}" for text in codes]
    lines += [f"finding: {item['code']}: {item['detail']}" for item in result.get("findings", [])]
    if result["verdict"] == "insufficient data":
        lines.append(_more(result))
    return [line for line in lines if line]


def _more(result: Mapping[str, Any]) -> str:
    if "pairs_needed_more" in result:
        more = result["pairs_needed_more"]
        if result["pairs"] < FIRST_LOOK:
            return ""  # too few to tell by: `why` says so
        if more is None:
            return f"more: {result['pairs_max']} pairs in all are not expected to decide it"
        return f"more: about {more} pairs at this spread"
    if result.get("more_needed"):
        count = result["more_needed"]["count"]
        what = result["more_needed"]["what"].replace("runs", "measurements")
        if count is None:
            return "more: no number of files like these will decide it; they differ too little"
        per_mode = result["more_needed"]["per_mode"]
        each = ", ".join(f"{more} in {mode}" for mode, more in per_mode.items())
        return f"more: about {count} {what} per mode at this spread ({each})"
    return ""
