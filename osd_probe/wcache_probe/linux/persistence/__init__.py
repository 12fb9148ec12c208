"""What survives a power-on: udev rules that set caches, ours or others'.

A drive that can save its caching page keeps the mode itself; for all others a rule sets
pin and device each time the drive appears.
"""
