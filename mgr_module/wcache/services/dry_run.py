"""What `--dry-run` answers: nothing is changed, and this is what would be."""

from __future__ import annotations

from typing import Any, Dict, Iterable


def would(lines: Iterable[str]) -> Dict[str, Any]:
    """The fields of an answer; each line goes on from "would"."""
    return {"changed": False, "dry_run": True, "would": list(lines)}
