"""Drives of one drive model pooled, with the drive as the unit.

Each drive has its own true log ratio, spread with tau around the drive model's, and is
measured with its own error.  The interval is Student's t of the drives' plain mean, with
k - 1 degrees of freedom: at 95% and above it misses no more often than it says, however
unlike the drives' errors are (Bakirov and Szekely, Journal of Mathematical Sciences 2006;
Ibragimov and Mueller, Journal of Business & Economic Statistics 2010).  What the drives'
own errors come to is a floor: drives that agree by chance never narrow it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from ..core import codec
from ..core.errors import MalformedError
from ..core.experiment.factorial import PROVEN
from ..core.experiment.run_state import FIRST_LOOK
from ..core.model import FindingCode, Verdict
from ..core.options.entries import Arms, OptionTrial, arms_of
from ..core.record import RESULT_FORMAT, RESULT_VERSION
from ..core.verdict import sequential
from ..core.verdict.pooling import POOL_DRIVES_MIN, overruled
from ..core.verdict.result import DOUBTS
from ..core.verdict.sequential import DECIDE_ALPHA, SAME_ALPHA, Interval
from . import summary
from .decision import Materiality, contradicted_by_tail
from .summary import ratio

POOL_FORMAT = "wcache.pool"
POOL_VERSION = 1
RESULTS_MAX = 4096


@dataclass(frozen=True)
class _Pooled:
    """Drives as one: their mean, the sd of one drive as it was measured, tau^2, their count."""

    mean: float
    sd: float
    tau2: float
    drives: int

    def mean_within(self, alpha: float) -> Interval:
        """Where the mean of the drive model lies."""
        return self._around(self.sd / math.sqrt(self.drives), alpha)

    def next_within(self, alpha: float) -> Interval:
        """Where one more drive would be found, measured as well as these."""
        return self._around(self.sd * math.sqrt(1 + 1 / self.drives), alpha)

    def _around(self, error: float, alpha: float) -> Interval:
        half = summary.student(self.drives - 1, alpha) * error
        return Interval(self.mean, self.mean - half, self.mean + half)


def pool(results: Any, options: Materiality) -> Dict[str, Any]:
    """One result for a drive model from the results of its drives, JSON-ready.

    Raises MalformedError, naming what differs, where the results are not alike, were
    forced, or are no results at all.  Drives that stand apart are named, never dropped.
    """
    drives = _by_drive(_checked(results))
    compared = results[0].get("compared") if results else None
    trial = None if compared is None else codec.decode(OptionTrial, compared, "compared")
    names = sorted(drives)
    means = [drives[name][0] for name in names]
    variances = [drives[name][1] for name in names]
    verdicts = {name: drives[name][2] for name in names}
    answer: Dict[str, Any] = {
        "format": POOL_FORMAT,
        "version": POOL_VERSION,
        "drives": len(names),
        "alike": results[0]["alike"] if results else {},
        "per_drive": {
            name: {"ratio": ratio(drives[name][0]), "verdict": drives[name][2]} for name in names
        },
        "material_ratio": options.material_ratio,
        "warnings": [],
        **({"compared": compared} if trial is not None else {}),
    }
    if len(names) < POOL_DRIVES_MIN:
        return {
            **answer, "verdict": Verdict.INSUFFICIENT.value, "ratio": None, "ratio_low": None,
            "ratio_high": None, "odd_drives": [], "tau": None, "next_low": None,
            "next_high": None, "tail_ratio": None, "tail_ratio_low": None,
            "tail_ratio_high": None,
            "why": f"{len(names)} drives measured; pooling needs {POOL_DRIVES_MIN}",
        }
    found = _pooled(means, variances)
    far, near = found.mean_within(DECIDE_ALPHA), found.mean_within(SAME_ALPHA)
    tail = _tail(results)
    coming = found.next_within(SAME_ALPHA)
    odd = [names[i] for i in summary.odd_ones(means, variances)]
    if odd:
        answer["warnings"].append(f"outlier drives, kept in the pool: {', '.join(odd)}")
    slack = summary.slack_of(results[0]["alike"])
    verdict, why = _decide(far, near, tail, slack, verdicts, options, arms_of(trial))
    verdict, instead = overruled(verdict, [_said(item) for item in results])
    why = instead or why
    return {
        **answer, "verdict": verdict.value, "why": why, "ratio": ratio(found.mean),
        "ratio_low": ratio(far.low), "ratio_high": ratio(far.high),
        "ratio_low_95": ratio(near.low), "ratio_high_95": ratio(near.high),
        "next_low": ratio(coming.low), "next_high": ratio(coming.high),
        "tail_ratio": ratio(tail.mean) if tail else None,
        "tail_ratio_low": ratio(tail.low) if tail else None,
        "tail_ratio_high": ratio(tail.high) if tail else None,
        "tau": summary.rounded(math.sqrt(found.tau2)), "odd_drives": odd,
    }


def _checked(results: Any) -> Sequence[Mapping[str, Any]]:
    if not isinstance(results, list) or len(results) > RESULTS_MAX:
        raise MalformedError(f"records must be a list of at most {RESULTS_MAX} results")
    for index, item in enumerate(results):
        if not isinstance(item, dict) or item.get("format") != RESULT_FORMAT:
            raise MalformedError(f"records[{index}] is not a {RESULT_FORMAT}")
        if item.get("version") != RESULT_VERSION:
            raise MalformedError(f"records[{index}] is of version {item.get('version')!r}")
        if item.get("forced") is not False:
            raise MalformedError(f"records[{index}] was forced; forced results are never pooled")
        crossed = item.get("interaction")
        if isinstance(crossed, dict) and crossed.get("standing") == PROVEN:
            raise MalformedError(
                f"records[{index}] depends on the mode of another drive: it is not pooled"
            )
        if not isinstance(item.get("alike"), dict) or not isinstance(item.get("subject"), dict):
            raise MalformedError(f"records[{index}] does not say what was measured")
    unlike = _differing([item["alike"] for item in results])
    if unlike:
        raise MalformedError("these results cannot be pooled, since they differ: " + unlike)
    return results


def _said(result: Mapping[str, Any]) -> Tuple[str, Verdict, List[FindingCode]]:
    """A drive, its own verdict, and the doubts raised about it."""
    findings = result.get("findings")
    raised = [
        found.get("code") for found in findings if isinstance(found, dict)
    ] if isinstance(findings, list) else []
    contradiction = result.get("verdict") == Verdict.CONFLICTING.value
    return (
        _name(result), Verdict.CONFLICTING if contradiction else Verdict.INSUFFICIENT,
        [code for code in DOUBTS if code.value in raised],
    )


def _name(result: Mapping[str, Any]) -> str:
    return str(result["subject"].get("domain_id"))[:200]


def _differing(alikes: Sequence[Mapping[str, Any]]) -> str:
    """The fields in which results differ, with up to three values each; '' if none."""
    fields = sorted({str(field) for item in alikes for field in item})
    parts: List[str] = []
    for field in fields:
        values = sorted({str(item.get(field))[:60] for item in alikes})
        if len(values) > 1:
            parts.append(f"{field} ({', '.join(values[:3])})")
    return "; ".join(parts)


def _by_drive(
    results: Sequence[Mapping[str, Any]], mean_of: str = "log_ratio", sd_of: str = "pair_sd"
) -> Dict[str, Tuple[float, float, str]]:
    """Cache domain -> mean log ratio, its variance, verdict.

    Several experiments of one drive count as one drive: their means are weighted by
    precision, and their disagreement stays in the variance.
    """
    gathered: Dict[str, List[Tuple[float, float, str]]] = {}
    seen: Set[Tuple[str, str, str]] = set()
    for index, item in enumerate(results):
        pairs, mean, sd = item.get("pairs"), item.get(mean_of), item.get(sd_of)
        if (
            isinstance(pairs, bool) or not isinstance(pairs, int)
            or isinstance(mean, bool) or not isinstance(mean, (int, float))
            or isinstance(sd, bool) or not isinstance(sd, (int, float))
            or not (math.isfinite(mean) and math.isfinite(sd)) or sd < 0
        ):
            raise MalformedError(f"records[{index}] has no pairs, {mean_of} and {sd_of}")
        if pairs < FIRST_LOOK:
            continue
        if "record_id" in item:  # what is given twice was measured once
            key = (
                str(item["subject"].get("fsid")), str(item["subject"].get("domain_id")),
                str(item["record_id"]),
            )
            if key in seen:
                continue
            seen.add(key)
        variance = max(sd, sequential.SD_FLOOR) ** 2 / pairs
        gathered.setdefault(_name(item), []).append((mean, variance, str(item.get("verdict"))))
    drives = {}
    for name, parts in gathered.items():
        weights = [1 / variance for _, variance, _ in parts]
        total = math.fsum(weights)
        mean = math.fsum(w * part[0] for w, part in zip(weights, parts)) / total
        scatter = math.fsum(w * (part[0] - mean) ** 2 for w, part in zip(weights, parts))
        inflate = max(1.0, scatter / (len(parts) - 1)) if len(parts) > 1 else 1.0
        verdicts = {part[2] for part in parts}
        drives[name] = (
            mean, inflate / total,
            verdicts.pop() if len(verdicts) == 1 else Verdict.INSUFFICIENT.value,
        )
    return drives


def _pooled(means: Sequence[float], variances: Sequence[float]) -> _Pooled:
    """The unweighted mean of drives, how far one drive lies from it, and tau^2 of that.

    No weights: they would need tau, of which a few noisy drives show nothing, and then the
    best measured drive would stand for all.  Nor is it chance how well one is measured:
    those that clearly differ stop early.
    """
    count = len(means)
    mean = math.fsum(means) / count
    seen = math.fsum((value - mean) ** 2 for value in means) / (count - 1)
    within = math.fsum(variances) / count
    return _Pooled(mean, math.sqrt(max(seen, within)), max(0.0, seen - within), count)


def _tail(results: Sequence[Mapping[str, Any]]) -> Optional[Interval]:
    """The pooled p90 ratio with its 99% interval, where enough drives tell of theirs."""
    telling = [item for item in results if item.get("tail_log_ratio") is not None]
    drives = _by_drive(telling, "tail_log_ratio", "tail_pair_sd")
    if len(drives) < POOL_DRIVES_MIN:
        return None
    means, variances, _ = zip(*drives.values())
    return _pooled(means, variances).mean_within(DECIDE_ALPHA)


def _decide(
    far: Interval, near: Interval, tail: Optional[Interval], tail_slack: float,
    verdicts: Mapping[str, str], options: Materiality, arms: Arms,
) -> Tuple[Verdict, str]:
    through = sorted(n for n, v in verdicts.items() if v == Verdict.WRITE_THROUGH.value)
    back = sorted(n for n, v in verdicts.items() if v == Verdict.WRITE_BACK.value)
    if through and back:
        return Verdict.CONFLICTING, (
            f"{len(through)} drives are proven better in {arms.b} and {len(back)} in "
            f"{arms.a} (such as {through[0]} and {back[0]}); look at those drives"
        )
    verdict = sequential.verdict(far, near, options.margin)
    basis = f"over {len(verdicts)} drives"
    worse = sequential.differs(tail, options.margin + tail_slack) if tail else 0
    contradiction = worse and contradicted_by_tail(
        verdict, Verdict.WRITE_THROUGH if worse > 0 else Verdict.WRITE_BACK,
        "mean" if tail_slack else "median", arms,
    )
    if contradiction:
        return Verdict.CONFLICTING, (
            f"{contradiction}, {basis}; measure the load that matters for longer"
        )
    said = sequential.verdict_text(verdict, far, near, options.material_ratio, basis, arms)
    return verdict, said
