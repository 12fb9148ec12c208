"""The host side of wcache: reads drives' write caches, toggles them under a lease."""
