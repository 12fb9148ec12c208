"""Which examples hypothesis tries a property with, by WCACHE_EXAMPLES.

`make check` and `make test` try a quarter of them, the same ones each time, so a commit passes or
fails whenever it is run.  `make test-all` tries all, others each time ("random").
"""

from __future__ import annotations

import os
from typing import Any, Dict

from hypothesis import HealthCheck, settings

WANTED = os.environ.get("WCACHE_EXAMPLES", "quarter")
ALL = WANTED == "random"


def examples(number: int = 100, **more: Any) -> settings:
    """Settings with so many examples in `make test-all`; how long one takes says nothing."""
    return settings(**_values(number), **more)


def by_default() -> None:
    """The same for properties that name no settings: 100 examples."""
    settings.register_profile("wcache", **_values(100))
    settings.load_profile("wcache")


def _values(number: int) -> Dict[str, Any]:
    return {
        "max_examples": number if ALL else max(5, number // 4),
        "derandomize": not ALL, "deadline": None,
        "suppress_health_check": [HealthCheck.too_slow],
    }
