"""Which examples hypothesis tries a property with, by WCACHE_EXAMPLES.

`make check` tries a quarter of them, `make test` all.  Both try the same ones each time, so a
commit passes or fails whenever it is run; `make test-all` tries others each time ("random").
"""

from __future__ import annotations

import os
from typing import Any, Dict

from hypothesis import HealthCheck, settings

WANTED = os.environ.get("WCACHE_EXAMPLES", "quarter")
ALL = WANTED != "quarter"


def examples(number: int = 100, **more: Any) -> settings:
    """Settings with so many examples in `make test`; how long one takes says nothing."""
    return settings(**_values(number), **more)


def by_default() -> None:
    """The same for properties that name no settings: 100 examples."""
    settings.register_profile("wcache", **_values(100))
    settings.load_profile("wcache")


def _values(number: int) -> Dict[str, Any]:
    return {
        "max_examples": number if ALL else max(5, number // 4),
        "derandomize": WANTED != "random", "deadline": None,
        "suppress_health_check": [HealthCheck.too_slow],
    }
