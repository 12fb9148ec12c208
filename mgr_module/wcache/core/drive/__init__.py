"""What may happen to a drive: safety rules, the journal, prior states, what was proven."""
