"""What of the knob `options` runs in a mgr."""
