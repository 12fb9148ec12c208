"""What wcache can recommend and change beside the cache mode, a folder for each."""
