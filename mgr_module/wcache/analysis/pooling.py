"""Results of `analyse` pooled for a file or a terminal, with the drive as the unit."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from ..core import codec
from ..core.experiment.run_state import FIRST_LOOK
from ..core.model import FindingCode, LoadPoint, Verdict
from ..core.options.entries import OptionTrial, arms_of
from ..core.verdict.pooling import POOL_DRIVES_MIN, Member, member, overruled, pool_of
from ..core.verdict.result import DOUBTS
from ..core.verdict.sequential import SLACK, ratio, rounded
from .decision import Materiality

POOL_FORMAT = "wcache.pool"
POOL_VERSION = 1


def pool(
    results: Sequence[Mapping[str, Any]], options: Materiality
) -> Optional[Dict[str, Any]]:
    """One result of like drives of a drive model, JSON-ready; None of fewer than 3 drives."""
    drives = _by_drive(results)
    if len(drives) < POOL_DRIVES_MIN:
        return None
    alike, compared = results[0]["alike"], results[0].get("compared")
    trial = None if compared is None else codec.decode(OptionTrial, compared, "compared")
    # simulated traffic gives single latencies
    buckets = alike["load_point"] == LoadPoint.OSD_TRAFFIC.value and not alike["simulated"]
    telling = [item for item in results if item["tail_log_ratio"] is not None]
    found = pool_of(
        drives, _by_drive(telling, "tail_log_ratio", "tail_pair_sd"), SLACK if buckets else 0.0,
        arms_of(trial), options.material_ratio,
    )
    verdict, instead = overruled(found.verdict, map(_said, results))
    odd, tail = list(found.odd_drives), found.tail
    return {
        "format": POOL_FORMAT, "version": POOL_VERSION, "drives": found.drives, "alike": alike,
        "per_drive": {
            one.name: {"ratio": ratio(one.mean), "verdict": one.verdict.value} for one in drives
        },
        "material_ratio": options.material_ratio,
        "warnings": [f"outlier drives, kept in the pool: {', '.join(odd)}"] if odd else [],
        **({"compared": compared} if trial is not None else {}),
        "verdict": verdict.value, "why": instead or found.why, "ratio": ratio(found.far.mean),
        "ratio_low": ratio(found.far.low), "ratio_high": ratio(found.far.high),
        "ratio_low_95": ratio(found.near.low), "ratio_high_95": ratio(found.near.high),
        "next_low": ratio(found.coming.low), "next_high": ratio(found.coming.high),
        "tail_ratio": ratio(tail.mean) if tail else None,
        "tail_ratio_low": ratio(tail.low) if tail else None,
        "tail_ratio_high": ratio(tail.high) if tail else None,
        "tau": rounded(found.tau), "odd_drives": odd,
    }


def _said(result: Mapping[str, Any]) -> Tuple[str, Verdict, List[FindingCode]]:
    """A drive, its own verdict, and the doubts raised about it."""
    raised = {found["code"] for found in result["findings"]}
    return (
        _name(result), Verdict(result["verdict"]),
        [code for code in DOUBTS if code.value in raised],
    )


def _name(result: Mapping[str, Any]) -> str:
    return str(result["subject"]["domain_id"])


def _by_drive(
    results: Sequence[Mapping[str, Any]], mean_of: str = "log_ratio", sd_of: str = "pair_sd"
) -> List[Member]:
    """The drives by name.

    Several experiments of one drive count as one drive: their means are weighted by
    precision, and their disagreement stays in the variance.
    """
    gathered: Dict[str, List[Member]] = {}
    seen: Set[Tuple[str, str, str]] = set()
    for item in results:
        name, pairs = _name(item), item["pairs"]
        key = (item["subject"]["fsid"], name, item["record_id"])
        if pairs >= FIRST_LOOK and key not in seen:  # what is given twice was measured once
            seen.add(key)
            one = member(name, pairs, item[mean_of], item[sd_of], Verdict(item["verdict"]))
            gathered.setdefault(name, []).append(one)
    return [_as_one(name, parts) for name, parts in sorted(gathered.items())]


def _as_one(name: str, parts: Sequence[Member]) -> Member:
    weights = [1 / part.variance for part in parts]
    total = math.fsum(weights)
    mean = math.fsum(w * part.mean for w, part in zip(weights, parts)) / total
    scatter = math.fsum(w * (part.mean - mean) ** 2 for w, part in zip(weights, parts))
    inflate = max(1.0, scatter / (len(parts) - 1)) if len(parts) > 1 else 1.0
    verdicts = {part.verdict for part in parts}
    return Member(
        name, mean, inflate / total,
        verdicts.pop() if len(verdicts) == 1 else Verdict.INSUFFICIENT,
    )
