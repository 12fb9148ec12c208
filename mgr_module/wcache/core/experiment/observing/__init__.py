"""Runs that toggle nothing: what drives do in the mode they are in, as a table."""
