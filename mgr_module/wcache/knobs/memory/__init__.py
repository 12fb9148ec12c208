"""osd_memory_target: what OSDs use, what a host can give, who should have how much."""
