"""dm-cache and dm-writecache above a drive: named and observed, never tuned."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional


@dataclass(frozen=True)
class DmCacheState:
    """One such device; None is unknown.  dm-writecache has one mode and no policy."""

    name: str = field(metadata={"max_chars": 128})
    kind: str = field(metadata={"max_chars": 16})
    mode: str = field(metadata={"max_chars": 16})
    policy: str = field(default="", metadata={"max_chars": 16})
    dirty_bytes: Optional[int] = None
