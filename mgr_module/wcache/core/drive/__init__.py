"""What may happen to a drive: safety rules, journal, lease, the order of steps of a toggle."""
