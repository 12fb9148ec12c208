"""The write+sync matrix of scratch space: `wcache-probe matrix`."""
