"""The cache mode as a knob."""

from __future__ import annotations

from ..knob import Knob

CACHE_MODE = Knob("cache_mode", "the cache mode of drives")
