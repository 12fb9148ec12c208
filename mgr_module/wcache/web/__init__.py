"""The module's web page: it reads what the commands answer; it can change nothing."""
