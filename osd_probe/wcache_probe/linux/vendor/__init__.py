"""What vendors' tools tell of drives and controllers: read, bounded, never told to change."""
