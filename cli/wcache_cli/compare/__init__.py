"""`wcache compare`: latencies that other tools measured, and all that only this needs."""
