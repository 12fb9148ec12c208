"""What hosts, drives and controllers tell of themselves: memory, bcache, vendors' tools."""
