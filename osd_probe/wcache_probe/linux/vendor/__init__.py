"""What vendors' tools tell of hardware: read, bounded, never told to change."""
