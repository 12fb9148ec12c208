"""Rows of the table of commands, by what they are about; `commands.py` has the table."""
