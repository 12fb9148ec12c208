"""The probe on the simulated drives of a TOML file: `python3 qa/wcache_sim FILE COMMAND ...`."""

import importlib.util
import shutil
import sys
from pathlib import Path

if not __package__:  # it was started by the name of its folder, which is no place of packages
    sys.path[0] = str(Path(__file__).resolve().parents[1])
if importlib.util.find_spec("wcache_probe") is None:
    sys.path.append(shutil.which("wcache-probe") or "")  # one file with all of its packages

from wcache_sim.probe import main

sys.exit(main())
