"""How many examples hypothesis tries a property with: a quarter, or all with WCACHE_EXAMPLES=all.

`make check` tries a quarter, `make test` all.
"""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, settings

ALL = os.environ.get("WCACHE_EXAMPLES") == "all"


def examples(number: int = 100, **more: Any) -> settings:
    """Settings with so many examples in `make test`; how long one takes says nothing."""
    return settings(
        max_examples=number if ALL else max(5, number // 4), deadline=None,
        suppress_health_check=[HealthCheck.too_slow], **more,
    )
