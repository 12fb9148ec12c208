"""What was shown of hardware on this host: kept beside the journal, told to the mgr."""
