"""What wcache may begin by itself: when, how much of it, on which drives.  Pure."""
