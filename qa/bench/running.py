"""`inside.py` as a process of the release that runs until it is told to end."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Dict, List

from harness import Cluster, HarnessError

SCRIPT = Path(__file__).with_name("inside.py")


class Inside:
    """Starts timing at once; `end` stops it and returns what it saw, in us."""

    def __init__(self, cluster: Cluster, *words: str) -> None:
        self._process = cluster.popen_inside(
            [cluster.python_inside, str(SCRIPT), str(cluster.conf), *words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )

    def end(self) -> Dict[str, List[float]]:
        """Latencies by name.  Raises HarnessError when the timing itself failed."""
        try:
            out, error = self._process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise HarnessError("the timing did not end within 60 s") from None
        if self._process.returncode != 0:
            raise HarnessError(f"the timing failed: {error.decode(errors='replace')[-500:]}")
        found: Dict[str, List[float]] = json.loads(out)
        return found
