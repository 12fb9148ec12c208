"""Plans and their rollouts: answers and text."""
