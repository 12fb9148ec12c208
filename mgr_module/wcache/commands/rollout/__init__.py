"""Plans and their rollouts: their rows of the table, their answers and their text."""
