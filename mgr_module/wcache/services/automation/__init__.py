"""What goes on by itself, and what verdicts of other clusters add."""
