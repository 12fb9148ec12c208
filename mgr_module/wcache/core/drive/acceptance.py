"""Journal entries that an admin gave up, until the probe has dropped them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Tuple


@dataclass(frozen=True)
class Acceptance:
    """One cache domain that is taken as it is; `owners` are the runs and plans it owed."""

    hostname: str
    domain_id: str
    keys: Tuple[str, ...] = field(default=(), metadata={"max_items": 64})
    owners: Tuple[str, ...] = ()


@dataclass(frozen=True)
class Acceptances:
    """All of them, as they are stored."""

    VERSION: ClassVar[int] = 1
    items: Tuple[Acceptance, ...] = field(default=(), metadata={"max_items": 100_000})
