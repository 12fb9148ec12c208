"""Findings as Ceph health checks: one check per code, with what to do in its detail."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

from .core.findings import ADVICE
from .core.model import Finding, FindingCode, Severity

DETAILS_MAX = 50


def health_checks(findings: Sequence[Finding]) -> Dict[str, Dict[str, Any]]:
    """The argument of MgrModule.set_health_checks; infos are left to `status`."""
    by_code: Dict[FindingCode, List[Finding]] = {}
    for finding in findings:
        if finding.severity is not Severity.INFO:
            by_code.setdefault(finding.code, []).append(finding)
    checks: Dict[str, Dict[str, Any]] = {}
    for code, group in sorted(by_code.items(), key=lambda item: item[0].value):
        summary, advice = ADVICE[code]
        details = [f"{item.subject}: {item.detail}" for item in group[:DETAILS_MAX]]
        if len(group) > DETAILS_MAX:
            details.append(f"and {len(group) - DETAILS_MAX} more; see `ceph wcache status`")
        worst = any(item.severity is Severity.ERROR for item in group)
        checks[code.value] = {
            "severity": "error" if worst else "warning",
            "summary": f"{len(group)}: {summary}",
            "count": len(group),
            "detail": [*details, f"what to do: {advice}"],
        }
    return checks
