"""Changes: planned, made one after the other, each checked before the next, or taken back."""
