"""One small file for each way to a drive: how its cache is read, pinned, flushed, switched."""
