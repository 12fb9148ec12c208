"""What was there before a change, on stable storage, and who may touch a drive now."""
