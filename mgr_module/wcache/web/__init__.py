"""The module's web page: it reads what the commands answer, and can change nothing."""
