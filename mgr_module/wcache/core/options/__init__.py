"""Options beside the cache mode: what each is, with the values it may have."""
