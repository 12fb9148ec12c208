"""`python3 -m wcache_cli` is `wcache`."""

import sys

from .main import main

sys.exit(main())
