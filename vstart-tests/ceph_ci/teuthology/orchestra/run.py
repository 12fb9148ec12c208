"""What `teuthology.orchestra.run` offers that our tests use."""

import subprocess

PIPE = subprocess.PIPE
