"""What wcache may begin by itself: when, how much of it, and on which drives.  Pure."""
