"""Settings: what has a value, is given another one, and gets the first one back."""
