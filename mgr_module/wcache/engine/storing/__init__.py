"""What is kept on the mons, and the log of who did what."""
