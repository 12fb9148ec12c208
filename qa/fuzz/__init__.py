"""Fuzzing of every parser of outside input: see `doc/testing.md`."""
