"""Settings: each has a value, is given another one, then gets the first one back."""
