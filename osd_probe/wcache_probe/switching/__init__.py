"""Change what a drive is set to, or back: the order of steps, sans-I/O, under its lease."""
