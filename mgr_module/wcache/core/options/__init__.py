"""Options beside the cache mode: what each is, and which values it may have."""
