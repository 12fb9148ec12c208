"""What looks at all hosts, drives, runs and plans at once."""
