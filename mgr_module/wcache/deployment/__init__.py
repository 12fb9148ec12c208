"""How a probe gets onto a host: its key, and what an admin applies or runs for it."""
