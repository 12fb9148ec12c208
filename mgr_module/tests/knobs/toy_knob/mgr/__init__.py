"""What of the toy runs in a mgr."""
