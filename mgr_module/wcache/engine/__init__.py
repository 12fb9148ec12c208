"""Carries out what the machines of the core ask for; keeps what must survive."""
