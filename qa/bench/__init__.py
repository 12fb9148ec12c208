"""`make bench`: what wcache costs on this machine, on a real cluster; it prints, never judges."""
