"""The host side of wcache: reads and toggles write caches under a lease."""
