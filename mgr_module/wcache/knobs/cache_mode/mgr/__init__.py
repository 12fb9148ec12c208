"""What plans changes of cache modes in a mgr."""
