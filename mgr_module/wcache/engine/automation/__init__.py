"""The automation's eyes and memory: what it sees of the engine, and what it keeps."""
