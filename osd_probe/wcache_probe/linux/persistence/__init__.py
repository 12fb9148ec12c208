"""What survives a power-on: udev rules of ours, and the rules of others that set caches.

A drive that can save its caching page keeps the mode itself; for all others a rule sets
pin and device each time the drive appears.
"""
