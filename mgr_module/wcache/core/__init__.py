"""The pure part: standard library only, no I/O, no clock, no Ceph."""

# The version of module, probe and tool: the one place that says it.
VERSION = "0.1.0"
