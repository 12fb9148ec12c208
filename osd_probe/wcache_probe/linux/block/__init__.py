"""What the host says of its block devices: sysfs, the stack of layers, the OSDs on top.

Everything is read below injectable roots and bounded, so that fake trees test it and a
hostile string in a model name or a symlink stays a string.
"""
