"""Results of like drives pooled for a file or a terminal, by the rule of `recommend`."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Sequence

from ..core import codec
from ..core.model import Verdict
from ..core.options.entries import arms_of
from ..core.verdict.pooling import in_pool, overruled, pool_drives
from ..core.verdict.repeated import ignoring, standing
from ..core.verdict.result import Result, withheld_for
from ..core.verdict.sequential import ratio, rounded
from .decision import Materiality

POOL_FORMAT = "wcache.pool"
POOL_VERSION = 1


def pool(
    results: Sequence[Result], alike: Mapping[str, Any], options: Materiality
) -> Optional[Dict[str, Any]]:
    """One result of like drives of a drive model, JSON-ready; None where there is no pool.

    What is given twice was measured once.
    """
    once = {(item.drive_name, item.record_id): item for item in results}
    drives = standing(list(once.values()), options.material_ratio)
    trial = results[0].option if results else None
    arms = arms_of(trial)
    found = pool_drives(drives, arms, options.material_ratio)
    if found is None:
        return None
    verdict, instead = overruled(
        found.verdict, [(drive.drive_name, drive.verdict, drive.doubts) for drive in drives]
    )
    seen = [*drives, *ignoring(once.values())]
    unsafe = withheld_for(verdict, seen) if trial is None else ""
    if unsafe:
        verdict, instead = Verdict.INSUFFICIENT, unsafe
    odd, tail = list(found.odd_drives), found.tail
    return {
        "format": POOL_FORMAT, "version": POOL_VERSION, "drives": found.drives,
        "alike": dict(alike),
        "per_drive": {
            drive.drive_name: {"ratio": ratio(term.log_ratio), "verdict": arms.said(drive.verdict)}
            for drive, term in in_pool(drives)
        },
        "material_ratio": options.material_ratio,
        "warnings": [
            *([f"outlier drives, kept in the pool: {', '.join(odd)}"] if odd else []),
            *(text for drive in drives for text in drive.beside),
        ],
        **({"compared": codec.to_plain(trial)} if trial is not None else {}),
        "verdict": arms.said(verdict), "why": instead or found.why, "ratio": ratio(found.far.mean),
        "ratio_low": ratio(found.far.low), "ratio_high": ratio(found.far.high),
        "ratio_low_95": ratio(found.near.low), "ratio_high_95": ratio(found.near.high),
        "next_low": ratio(found.coming.low), "next_high": ratio(found.coming.high),
        "tail_ratio": ratio(tail.mean) if tail else None,
        "tail_ratio_low": ratio(tail.low) if tail else None,
        "tail_ratio_high": ratio(tail.high) if tail else None,
        "tau": rounded(found.tau), "odd_drives": odd,
    }
