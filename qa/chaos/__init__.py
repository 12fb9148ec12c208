"""Work on a real cluster with faults in it, round by round, and a look at what is left of both."""
