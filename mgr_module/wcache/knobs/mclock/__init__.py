"""mClock's capacity: measured by the OSD's own recipe, recommended, set, taken back."""
