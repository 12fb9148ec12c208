"""Findings as Ceph health checks: one check per code, with what to do in its detail."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..core.model import Finding, FindingCode, Severity
from ..core.text import counted
from ..knobs.registry import ADVICE, advice_on

DETAILS_MAX = 50


def health_checks(
    findings: Sequence[Finding], headlines: Optional[Mapping[FindingCode, str]] = None
) -> Dict[str, Dict[str, Any]]:
    """The argument of MgrModule.set_health_checks; infos are left to `status`.

    A headline is told in place of the summary that a code has.
    """
    by_code: Dict[FindingCode, List[Finding]] = {}
    for finding in findings:
        if finding.severity is not Severity.INFO:
            by_code.setdefault(finding.code, []).append(finding)
    checks: Dict[str, Dict[str, Any]] = {}
    for code, group in sorted(by_code.items(), key=lambda item: item[0].value):
        summary = ADVICE[code][0]
        shown = _from_each_host(group)[:DETAILS_MAX]
        details = [f"{item.subject}: {item.detail}" for item in shown]
        if len(group) > DETAILS_MAX:
            details.append(f"and {len(group) - DETAILS_MAX} more; see `ceph wcache status`")
        worst = any(item.severity is Severity.ERROR for item in group)
        checks[code.value] = {
            "severity": "error" if worst else "warning",
            "summary": (headlines or {}).get(code) or counted(summary, len(group)),
            "count": len(group),
            "detail": [*details, *(f"what to do: {todo}" for todo in _advice(group))],
        }
    return checks


def _advice(group: Sequence[Finding]) -> List[str]:
    """What is to be done about these findings, each cure once."""
    return list(dict.fromkeys(advice_on(item) for item in group))


def _from_each_host(group: Sequence[Finding]) -> List[Finding]:
    """One host's findings must not hide another's: a first of each, then a second, ...

    What a host's findings are about begins with its name.
    """
    seen: Dict[str, int] = {}
    ranks: List[Tuple[int, int]] = []
    for index, item in enumerate(group):
        name = item.subject.partition(" ")[0]
        seen[name] = seen.get(name, 0) + 1
        ranks.append((seen[name], index))
    return [group[index] for _, index in sorted(ranks)]
