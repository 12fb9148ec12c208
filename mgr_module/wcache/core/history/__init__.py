"""Who changed what, when, from what to what, on what evidence, and what came of it."""
