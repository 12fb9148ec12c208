"""What an admin may plan, a folder for each; its `mgr/` runs in a mgr only."""
