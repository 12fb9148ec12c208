"""The host: its OSDs, the block devices below them, the switches of drives, udev's rules."""
