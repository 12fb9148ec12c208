"""What reads the memory of OSDs again and again, and what carries out a trial."""
