"""The journal: what was there before a change, on stable storage."""
