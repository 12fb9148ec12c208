"""What wcache can recommend and change, a folder for each; its `mgr/` runs in a mgr only."""
