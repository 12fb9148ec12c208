"""The host side of wcache: reads and toggles write caches under a lease."""

VERSION = "0.1.0"
