"""Faults put into the code by hand, in a copy of the project: rounds on that must find them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, List

from mutations.__main__ import Copy, Mutation

BREAKAGES: Dict[str, Mutation] = {
    "lease": Mutation(
        why="a lease that runs out is not restored",
        file="osd_probe/wcache_probe/switching/lease.py",
        find="        if self._lease is not None and now_s >= self._expires_at_s:\n",
        replace="        if self._lease is not None and now_s >= self._expires_at_s + 3600.0:\n",
        tests=(),
    ),
    "result": Mutation(
        why="a mgr that starts counts each result a second time",
        file="mgr_module/wcache/engine/evidence/analyses.py",
        find="        self.results.update(self._archive.all(RESULT))\n",
        replace="        found = self._archive.all(RESULT)\n"
                "        again = {key + '.again': one for key, one in found.items()}\n"
                "        self.results.update({**found, **again})\n",
        tests=(),
    ),
    "journal": Mutation(
        why="a journal entry is dropped before its drive is back",
        file="osd_probe/wcache_probe/switching/toggle.py",
        find="    done = yield from _switch(found, lambda drive: modes.get(drive.drive_id))\n",
        replace="    yield RemoveJournal(entry)\n"
                "    done = yield from _switch(found, lambda drive: modes.get(drive.drive_id))\n",
        tests=(),
    ),
}


def found(name: str, words: List[str]) -> int:
    """0 where a run on a copy that is broken so leaves something."""
    with tempfile.TemporaryDirectory(prefix="wcache-broken-") as folder:
        Copy(Path(folder))
        broken = BREAKAGES[name]
        path = Path(folder) / broken.file
        path.write_text(broken.apply(path.read_text(encoding="utf-8")), encoding="utf-8")
        parts = ("qa", "osd_probe", "mgr_module", "vstart-tests")
        done = subprocess.run(
            [sys.executable, "-m", "chaos", *words], cwd=folder, check=False,
            env={**os.environ, "PYTHONPATH": ":".join(f"{folder}/{part}" for part in parts)},
        )
    print(f"{name}: {'found' if done.returncode == 1 else 'NOT FOUND'}: {broken.why}", flush=True)
    return 0 if done.returncode == 1 else 1
