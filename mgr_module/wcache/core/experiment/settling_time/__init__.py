"""How long to settle after a toggle, chosen without knowing the mode."""
