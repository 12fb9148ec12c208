"""What `wcache-probe` can be told beside `run`, a file for each command."""
