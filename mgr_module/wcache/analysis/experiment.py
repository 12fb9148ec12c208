"""One experiment decided: from the raw pairs of a record to a result with its reasons.

Only the record is read, so the verdict is the same wherever and whenever it is computed.
"""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..core import codec
from ..core.codec import one_line
from ..core.errors import MalformedError, WcacheError
from ..core.experiment.design import design_of
from ..core.experiment.factorial import PROVEN, both_sides, other_drive
from ..core.experiment.run_state import FIRST_LOOK
from ..core.model import Arm, Finding, FindingCode, Severity, Verdict
from ..core.options.entries import Arms, arms_of
from ..core.record import (
    RECORD_FORMAT,
    RECORD_VERSION,
    RESULT_FORMAT,
    RESULT_VERSION,
    Pair,
    Precondition,
    Record,
)
from ..core.text import many
from ..core.verdict import sequential
from ..core.verdict.result import Analysed, ArmSummary, PoolTerm, Trusted, not_analysed
from ..core.verdict.sequential import DECIDE_ALPHA, SAME_ALPHA, ratio, rounded, verdict_of
from ..core.versions import reads
from . import factorial, summary
from . import pairs as pairing
from .decision import Decision, Materiality, decide
from .flushes import NOT_COUNTED, commit_us, fast_at_any_load, missing, pin_price_us, unproven
from .pairs import Differences, check


def analyse(record: Record, options: Materiality) -> Dict[str, Any]:
    """The result of a record, finished or in progress: JSON-ready, `wcache.result` v1.

    Raises MalformedError where the record is of another format or version.
    """
    if record.format != RECORD_FORMAT or record.version not in reads(Record):
        raise MalformedError(
            f"the record is {record.format!r} version {record.version}; "
            f"this reads {RECORD_FORMAT!r} version {RECORD_VERSION}"
        )
    check(record)
    result, *others = (_analysed(side, options) for side in both_sides(record))
    for other in others:  # one experiment of two drives: it goes on until neither gains by it
        result["stop"] = bool(result["stop"] and other["stop"])
        result["seems_same"] = all(item["seems_same"] or item["stop"] for item in (result, other))
    return result


# What the OSDs on the drive had to do meanwhile.
_BESIDE = {
    Precondition.NO_SLOW_OPS:
        "measured beside slow operations (SLOW_OPS); pooled with its like only",
    Precondition.NOT_BUSY: "an OSD on the drive moved data meanwhile",
}


def _circumstances(record: Record) -> List[str]:
    """What happened meanwhile that its figures do not show."""
    found = [text for item, text in _BESIDE.items() if item in record.missed_preconditions]
    lost = record.interrupted_periods
    if lost:
        found.append(
            f"{many(lost, 'period')} cut off or thrown away (budget, disturbance, an ill OSD), and "
            "in no figure: where one mode made OSDs ill, it is worse than it looks"
        )
    return found


def found_in(record: Record) -> Analysed:
    """What the module keeps of a record; of one that can never be analysed it is why."""
    try:
        return analysed(record, analyse(record, Materiality()))
    except (ImportError, MemoryError):
        raise
    except Exception as error:
        why = one_line(f"its record cannot be analysed: {failure(error)}", 300)
        return Analysed(replace(not_analysed(record, why), analysed=True), True)


def failure(error: Exception) -> str:
    """What went wrong, in words."""
    if isinstance(error, WcacheError):
        return error.line()
    return f"analysis failed: {type(error).__name__}: {error}"


def analysed(record: Record, answer: Mapping[str, Any]) -> Analysed:
    """What the module keeps of an answer of `analyse`, and what a run goes on by."""
    per_mode, trusted = answer.get("per_mode", {}), answer.get("if_plp_trusted")
    arms = arms_of(record.setup.option)
    a, b = (
        ArmSummary(**{item.name: found.get(item.name) for item in fields(ArmSummary)})
        for found in (per_mode.get(arms.name(arm), {"n": 0}) for arm in Arm)
    )
    tail = answer.get("tail_verdict")
    result = replace(
        not_analysed(record, _why(answer)), analysed=True, verdict=arms.meant(answer["verdict"]),
        ratio=answer.get("ratio"), ratio_low=answer.get("ratio_low"),
        ratio_high=answer.get("ratio_high"), a=a, b=b,
        warnings=tuple(one_line(text, 300) for text in answer.get("warnings", ())[:64]),
        findings=_findings(answer, record), pool_term=_pool_term(answer, record),
        pin_price_us=answer.get("pin_price_us"),
        write_through_commit_us=answer.get("write_through_commit_us"),
        if_trusted=trusted and Trusted(arms.meant(trusted["verdict"]), one_line(trusted["why"])),
        tail=arms.meant(tail) if tail else None,
    )
    return Analysed(result, answer["stop"], answer.get("seems_same", False))


def _why(answer: Mapping[str, Any]) -> str:
    """The reason, and where it is undecided about how many more pairs would do."""
    more = answer.get("pairs_needed_more")
    return answer["why"] + (f"; about {more} more pairs like these would decide it" if more else "")


def _pool_term(answer: Mapping[str, Any], record: Record) -> Optional[PoolTerm]:
    """What pooling takes of it; None where the figures are not there."""
    mean, sd, crossed = (answer.get(name) for name in ("log_ratio", "pair_sd", "interaction"))
    if mean is None or sd is None or (crossed and crossed["standing"] == PROVEN):
        return None  # or it stands for one mode of the other drive only
    setup = record.setup
    return PoolTerm(
        mean, sd, setup.transport, setup.role, setup.ceph_version.split(".")[0],
        design_of(setup).pairs_per_unit, setup.rotational, answer.get("tail_log_ratio"),
        answer.get("tail_pair_sd"), ", ".join(role.value for role in setup.apart),
        Precondition.NO_SLOW_OPS in record.missed_preconditions,
    )


def _findings(answer: Mapping[str, Any], record: Record) -> Tuple[Finding, ...]:
    """What the analysis found wrong with the drive, for `status`."""
    setup = record.setup
    # a disk that seems to ignore flushes is grave; flash that nobody wants in write back is not
    rests = setup.rotational or (answer.get("if_plp_trusted") or {}).get("verdict") != (
        answer["verdict"])
    return tuple(
        Finding(
            code, _severity(code, setup.throwaway or not rests),
            one_line(f"{setup.hostname} {setup.drive_id}", 300), one_line(detail, 300),
        ) for code, detail in (
            (FindingCode(item["code"]), item["detail"]) for item in answer.get("findings", ())
        )
    )


def _severity(code: FindingCode, harmless: bool) -> Severity:
    if code is FindingCode.FLUSH_MISSING:
        return Severity.ERROR
    # a longer period cures the others; a loop device has no medium to be slow
    grave = code is FindingCode.FLUSH_TOO_FAST and not harmless
    return Severity.WARNING if grave else Severity.INFO


def _analysed(record: Record, options: Materiality) -> Dict[str, Any]:
    warnings: List[str] = []
    arms = arms_of(record.setup.option)
    used, design = pairing.usable(record, warnings), design_of(record.setup)
    if design.crosses:
        used = factorial.complete(used)
    counter = pairing.deciding_counter(used) if pairing.by_counters(record) else ""
    effects: Optional[factorial.Effects] = None
    if design.crosses:
        effects = factorial.effects(used, counter, record.late_watches)
        seen = effects.main
    else:
        seen = pairing.differences(used, counter, record.late_watches)
    measured = sequential.spread(seen.whole)

    def decided_with(warnings: List[str], trusted: bool) -> Decision:
        found = decide(record, used, seen, measured, options, warnings, trusted)
        if effects is not None and measured.n >= FIRST_LOOK:
            found = factorial.decide(found, effects, other_drive(record.setup), options)
        return found

    decision, trusted = decided_with(warnings, False), None
    if any(code is FindingCode.FLUSH_TOO_FAST for code, _ in decision.findings):
        trusted = decided_with([], True)
    else:
        decision, trusted = _also_too_fast(record, used, decision)
    unsent = missing(record, used)
    if unsent and decision.verdict is Verdict.A:
        # both modes were measured without flushes, so neither is what it would be with them
        decision = Decision(Verdict.INSUFFICIENT, unsent, decision.findings, True)
    # what one difference stands for: a pair, or the pairs of a replicate
    unit = design.pairs_per_unit
    pairs_max = min((record.setup.pairs_max or sequential.HORIZON) // unit, sequential.HORIZON)
    decided = decision.verdict is not Verdict.INSUFFICIENT
    # beyond this experiment's own budget, too: it is what another one would need
    open_ended = verdict_of(measured, options.margin) is Verdict.INSUFFICIENT
    needed = None
    # fewer than a first look asks for have no spread to tell by
    if not decided and open_ended and measured.n >= FIRST_LOOK:
        needed = sequential.pairs_needed(measured, options.margin, sequential.HORIZON)
    if needed is not None:
        needed = unit * max(needed - measured.n, 1)
    fixed = summary.fixed_interval(seen.whole, SAME_ALPHA)
    odd = [seen.indexes[i] for i in sequential.odd_ones(seen.whole)]
    if odd:
        pairs = "pair" if len(odd) == 1 else "pairs"
        named = ", ".join(str(index + 1) for index in odd)  # people count from 1
        warnings.append(f"outliers, kept: {pairs} {named}")
    warnings += _circumstances(record)
    price, commit, setup = pin_price_us(record, used), commit_us(record, used), record.setup
    findings = list(decision.findings)
    too_fast = any(code is FindingCode.FLUSH_TOO_FAST for code, _ in findings)
    if unsent:
        findings.append((FindingCode.FLUSH_MISSING, unsent))
    elif used and not too_fast and unproven(record, used):
        findings.append((FindingCode.FLUSH_NOT_COUNTED, NOT_COUNTED))
        if decision.verdict is Verdict.A:
            warnings.append(NOT_COUNTED)
    result: Dict[str, Any] = {
        "format": RESULT_FORMAT,
        "version": RESULT_VERSION,
        "record_id": record.record_id,
        "verdict": arms.said(decision.verdict),
        "why": decision.why,
        "seems_same": abs(measured.mean) < options.margin,
        "stop": decided or measured.n >= pairs_max or decision.hopeless,
        "pairs": unit * measured.n,
        "pairs_max": unit * pairs_max,
        "pairs_needed_more": needed,
        **sequential.ratios(seen.whole),
        "ratio_low_fixed_95": ratio(fixed[0]),
        "ratio_high_fixed_95": ratio(fixed[1]),
        "log_ratio": rounded(measured.mean),
        # of one pair, so that pair_sd / sqrt(pairs) is the error of the mean
        "pair_sd": rounded(measured.sd * math.sqrt(unit)),
        "statistic": f"log mean of {counter}" if counter else "median log latency",
        **_tail(seen, unit, options, arms),
        "interaction": None
        if effects is None
        else factorial.as_plain(effects, used, counter, options),
        "per_mode": pairing.per_arm(used, counter, arms),
        "counters": pairing.counter_ratios(used),
        "odd_pairs": odd,
        "settling": codec.to_plain(record.settling),
        "warnings": warnings,
        "findings": [{"code": code.value, "detail": text} for code, text in findings],
        "material_ratio": options.material_ratio,
        "seconds": rounded(record.seconds),
        "bytes_written": record.bytes_written,
        "subject": {
            "fsid": setup.fsid, "hostname": setup.hostname, "osd_id": setup.osd_id,
            "domain_id": setup.domain_id, "drive_id": setup.drive_id,
        },
        "alike": alike(record),
        # what it would be, were its power-loss protection proven
        "if_plp_trusted": trusted and {"verdict": arms.said(trusted.verdict), "why": trusted.why},
        "pin_price_us": rounded(price) if price is not None else None,
        "write_through_commit_us": rounded(commit) if commit is not None else None,
        "missed_preconditions": [item.value for item in record.missed_preconditions],
        "forced": record.forced,
    }
    if setup.option is not None:
        result["compared"] = codec.to_plain(setup.option)
    return result


def _also_too_fast(
    record: Record, used: Sequence[Pair], decision: Decision
) -> Tuple[Decision, Optional[Decision]]:
    """A decision that does not rest on flushes that are too fast, with that finding, and without.

    The latter is None where there is no such finding.
    """
    fast = fast_at_any_load(record, used)
    if not fast:
        return decision, None
    found = (*decision.findings, (FindingCode.FLUSH_TOO_FAST, fast))
    return replace(decision, findings=found), decision


def alike(record: Record) -> Dict[str, Any]:
    """The fields in which records must agree to be pooled.

    Of the Ceph version only the release: a flush more or less per commit came with those.
    """
    setup = record.setup
    # a field of theirs alone: results of before it was known are like those without
    slow = Precondition.NO_SLOW_OPS in record.missed_preconditions
    return {
        **({"meanwhile": "slow operations"} if slow else {}),
        **({"compared": str(setup.option)} if setup.option is not None else {}),
        "load_point": setup.load_point.value,
        "drive_model": str(setup.drive_model),
        "transport": setup.transport.value,
        "role": setup.role.value,
        "apart_from_block": ", ".join(role.value for role in setup.apart),
        "device_class": setup.device_class,
        "ceph_release": setup.ceph_version.split(".")[0],
        "rotational": setup.rotational,
        "simulated": setup.simulated,
        "throwaway": setup.throwaway,
    }


def _tail(
    seen: Differences, unit: int, options: Materiality, arms: Arms
) -> Dict[str, Any]:
    """The p90 ratio with its 99% interval; None where periods hold too few samples."""
    if not seen.tail:
        return dict.fromkeys((
            "tail_ratio", "tail_ratio_low", "tail_ratio_high", "tail_log_ratio", "tail_pair_sd",
            "tail_material_ratio", "tail_verdict",
        ))
    spread = sequential.spread(seen.tail)
    verdict = verdict_of(spread, options.margin + seen.tail_slack)
    if verdict is Verdict.NO_DIFFERENCE and seen.tail_slack:
        verdict = Verdict.INSUFFICIENT  # buckets hide a difference
    found = sequential.interval(spread, DECIDE_ALPHA)
    return {
        "tail_ratio": ratio(found.mean),
        "tail_ratio_low": ratio(found.low),
        "tail_ratio_high": ratio(found.high),
        "tail_log_ratio": rounded(spread.mean),
        "tail_pair_sd": rounded(spread.sd * math.sqrt(unit)),
        # what its interval must lie beyond to count
        "tail_material_ratio": ratio(options.margin + seen.tail_slack),
        "tail_verdict": arms.said(verdict),
    }
