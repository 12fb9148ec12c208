"""How a probe gets onto a host: its key, with what an admin applies or runs for it."""
