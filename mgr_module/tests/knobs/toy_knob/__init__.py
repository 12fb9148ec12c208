"""A toy knob: the depth of a queue that exists in tests only (doc/add-a-setting.md)."""
