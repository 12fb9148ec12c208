"""What Ceph shows of wcache: findings as health checks, what is under way as progress events.

A check for each code, with what to do in its detail.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Protocol, Sequence, Tuple

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


class Remote(Protocol):
    """Calls another mgr module; raises where that module is off."""

    def remote(self, module_name: str, method_name: str, *args: Any, **kwargs: Any) -> Any:
        """As MgrModule.remote."""


class CephProgress:
    """Tells the `progress` module what changed since the last call."""

    def __init__(self, mgr: Remote) -> None:
        self._mgr = mgr
        self._shown: Dict[str, Tuple[str, float]] = {}

    def show(
        self, under_way: Mapping[str, Tuple[str, float]],
        failed: Callable[[str], str] = lambda event_id: "",
    ) -> None:
        """`under_way`: id to (message, fraction done); what is missing now has ended.

        `failed` says why it came to nothing; '' where it is complete.
        """
        for event_id, (message, exact) in under_way.items():
            fraction = round(exact, 3)  # time passes at every look
            if self._shown.get(event_id) != (message, fraction):
                self._call("update", event_id, message, fraction, [], True)
                self._shown[event_id] = message, fraction
        for event_id in set(self._shown) - set(under_way):
            why = failed(event_id)
            if why:
                self._call("fail", event_id, why)
            else:
                self._call("complete", event_id)
            del self._shown[event_id]

    def _call(self, method: str, *args: Any) -> None:
        try:
            self._mgr.remote("progress", method, *args)
        except Exception:
            return  # ImportError in 16, RuntimeError later: the progress module is off
