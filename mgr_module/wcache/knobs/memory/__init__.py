"""osd_memory_target: what OSDs use, what a host can give, and who should have how much."""
