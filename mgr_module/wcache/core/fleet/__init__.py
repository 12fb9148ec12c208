"""What looks at the whole fleet at once: all hosts, drives, runs, plans."""
