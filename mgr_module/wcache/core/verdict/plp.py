"""Power-loss protection: hints of drives, models that an admin vouches for.

A drive with power-loss protection may answer a flush at once and keep its promise, so a flush
that looks too fast is no doubt about a drive model that is trusted.  Nothing that a drive says of
itself proves the protection: only an admin's word, with a reason, lifts the doubt.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import AbstractSet, ClassVar, Sequence, Tuple

from ..model import FindingCode, PlpHint
from .result import Result

REASON_CHARS_MAX = 200
MODELS_MAX = 1000
TRUSTED_WARNING = (
    "its flushes look too fast to be true; an admin vouches for its power-loss protection"
)


@dataclass(frozen=True)
class TrustedModel:
    """One drive model (vendor, model and firmware, as `str(DriveModel)` has them)."""

    drive_model: str
    reason: str = field(metadata={"max_chars": REASON_CHARS_MAX})
    since_s: float = 0.0  # wall clock


@dataclass(frozen=True)
class TrustedModels:
    """All of them, as they are stored."""

    VERSION: ClassVar[int] = 1
    items: Tuple[TrustedModel, ...] = field(default=(), metadata={"max_items": MODELS_MAX})


def lifted(result: Result, trusted: AbstractSet[str]) -> Result:
    """The result with FLUSH_TOO_FAST lifted where its drive model is trusted."""
    fast = [item for item in result.findings if item.code is FindingCode.FLUSH_TOO_FAST]
    if not fast or str(result.drive_model) not in trusted:
        return result
    findings = tuple(item for item in result.findings if item not in fast)
    trusted_as = result.if_trusted
    if trusted_as is None:  # the analysis that raised it did not say
        return result
    return replace(
        result, verdict=trusted_as.verdict, why=trusted_as.why, findings=findings,
        warnings=(*result.warnings, TRUSTED_WARNING),
    )


def hint_words(hints: Sequence[PlpHint], trusted: bool) -> str:
    """Say in one cell what is known: an admin's word, else the first hint with its source."""
    if trusted:
        return "trusted"
    for hint in hints:
        return f"{'hinted' if hint.protected else 'denied'}: {hint.source}"
    return "unknown"
