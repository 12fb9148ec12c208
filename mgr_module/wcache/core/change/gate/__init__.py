"""The gate: are clients worse off for a change, by treated OSDs beside unchanged ones?"""
