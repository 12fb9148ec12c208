"""What is kept on the mons, with the log of who did what."""
