"""Bringing prior states back: each in a process of its own, whatever hangs."""
