"""Verdicts of other clusters: a file that carries them, and what they may shorten here."""
