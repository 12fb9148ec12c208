"""Carries out what the machines of the core ask for, and keeps what must survive."""
