"""From the analysis child's answer to the Result that the module keeps."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Any, Mapping, Optional, Tuple

from ...core.codec import one_line
from ...core.experiment.design import design_of
from ...core.experiment.factorial import PROVEN, measured_in
from ...core.model import CacheMode, Finding, FindingCode, Severity, Verdict
from ...core.record import Precondition, Record
from ...core.verdict.result import ModeSummary, PoolTerm, Result, Trusted

BEING_ANALYSED = "being analysed"
DRIVE_DOUBTS = (
    FindingCode.FLUSH_MISSING, FindingCode.FLUSH_TOO_FAST, FindingCode.FLUSH_NOT_COUNTED,
    FindingCode.CARRYOVER,
)


def of_record(record: Record, answer: Mapping[str, Any]) -> Result:
    """The Result of a finished record; `answer` is the child's `result` object.

    A number that is missing or not finite becomes None, an unknown verdict
    `insufficient data`: the child is a process of its own and may be of another version.
    """
    modes = answer.get("per_mode")
    per_mode = modes if isinstance(modes, dict) else {}
    return replace(
        not_analysed(record, _why(answer)), analysed=True, verdict=_verdict(answer.get("verdict")),
        ratio=number(answer.get("ratio")), ratio_low=number(answer.get("ratio_low")),
        ratio_high=number(answer.get("ratio_high")),
        write_back=_summary(per_mode.get(CacheMode.WRITE_BACK.value)),
        write_through=_summary(per_mode.get(CacheMode.WRITE_THROUGH.value)),
        warnings=_lines(answer.get("warnings")), findings=_findings(answer.get("findings"), record),
        pool_term=_pool_term(answer, record), pin_price_us=number(answer.get("pin_price_us")),
        write_through_commit_us=number(answer.get("write_through_commit_us")),
        if_trusted=_if_trusted(answer.get("if_plp_trusted")),
        tail=_verdict(answer["tail_verdict"]) if answer.get("tail_verdict") else None,
    )


def _if_trusted(plain: Any) -> Optional[Trusted]:
    if not isinstance(plain, dict):
        return None
    return Trusted(_verdict(plain.get("verdict")), one_line(str(plain.get("why", ""))))


def _why(answer: Mapping[str, Any]) -> str:
    """The reason, and where it is undecided about how many more pairs would do."""
    why, more = str(answer.get("why", "")), answer.get("pairs_needed_more")
    if isinstance(more, bool) or not isinstance(more, int) or more < 1:
        return why
    return f"{why}; about {more} more pairs like these would decide it"


def _pool_term(answer: Mapping[str, Any], record: Record) -> Optional[PoolTerm]:
    """What pooling takes of it; None where the figures are not there."""
    mean, sd = number(answer.get("log_ratio")), number(answer.get("pair_sd"))
    if mean is None or sd is None or sd < 0:
        return None
    crossed = answer.get("interaction")
    if isinstance(crossed, dict) and crossed.get("standing") == PROVEN:
        return None  # it stands for one mode of the other drive only
    setup = record.setup
    release = setup.ceph_version.split(".")[0]
    tail_mean, tail_sd = number(answer.get("tail_log_ratio")), number(answer.get("tail_pair_sd"))
    tells = tail_mean is not None and tail_sd is not None and tail_sd >= 0
    return PoolTerm(
        mean, sd, setup.transport, setup.role, release, design_of(setup).pairs_per_unit,
        setup.rotational, tail_mean if tells else None, tail_sd if tells else None,
        ", ".join(role.value for role in setup.apart),
        Precondition.NO_SLOW_OPS in record.missed_preconditions,
    )


def _findings(value: Any, record: Record) -> Tuple[Finding, ...]:
    """What the analysis found wrong with the drive, for `status`."""
    setup = record.setup
    found = []
    for item in value if isinstance(value, list) else ():
        code = item.get("code") if isinstance(item, dict) else None
        for known in DRIVE_DOUBTS:
            if code == known.value:
                found.append(
                    Finding(
                        known, _severity(known, setup.throwaway),
                        f"{setup.hostname} {setup.drive_id}",
                        one_line(str(item.get("detail", "")), 300),
                    )
                )
    return tuple(found[:8])


def _severity(code: FindingCode, throwaway: bool) -> Severity:
    if code is FindingCode.FLUSH_MISSING:
        return Severity.ERROR
    # a longer period cures the others; a loop device has no medium to be slow
    grave = code is FindingCode.FLUSH_TOO_FAST and not throwaway
    return Severity.WARNING if grave else Severity.INFO


def not_analysed(record: Record, why: str) -> Result:
    """The Result of a record that nobody could analyse yet."""
    setup = record.setup
    return Result(
        record.record_id, record.campaign_id, setup.hostname, setup.osd_id, setup.device_class,
        setup.domain_id, setup.drive_id, setup.drive_model, setup.load_point,
        Verdict.INSUFFICIENT, len(record.pairs), record.seconds, record.bytes_written,
        record.ended, why=one_line(why), simulated=setup.simulated, throwaway=setup.throwaway,
        forced=record.forced, ended_at_s=record.ended_at_s, analysed=False,
        measured_in=measured_in(record.record_id), option=setup.option,
    )


def _verdict(value: Any) -> Verdict:
    try:
        return Verdict(value)
    except ValueError:
        return Verdict.INSUFFICIENT


def number(value: Any) -> Optional[float]:
    """A finite number of an answer, or None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) else None


def _lines(value: Any) -> Tuple[str, ...]:
    items = value if isinstance(value, list) else []
    return tuple(one_line(str(item), 300) for item in items[:64])


def _summary(plain: Any) -> ModeSummary:
    if not isinstance(plain, dict):
        return ModeSummary(0)
    count = plain.get("n")
    numbers = {
        item.name: number(plain.get(item.name))
        for item in fields(ModeSummary)
        if item.name != "n"
    }
    return ModeSummary(count if isinstance(count, int) and count >= 0 else 0, **numbers)
