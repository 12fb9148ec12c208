"""`python3 -m wcache_probe`."""

import sys

from .main import main

sys.exit(main())
