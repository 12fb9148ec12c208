"""`make demo`: the main job, step by step, on a real cluster that is started for it."""
