"""Whole experiments against simulated drives: how often the verdict is right, at what cost."""
