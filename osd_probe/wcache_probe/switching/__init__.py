"""Change what a drive is set to, and back: the order of steps, sans-I/O, and the lease it needs."""
