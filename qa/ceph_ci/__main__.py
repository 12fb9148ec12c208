"""`make ceph-series`: write the series of patches against Ceph's source, and say its sizes."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from .series import write_series
from .source import source_of

RELEASE = 20


def main(out: Path) -> int:
    """Write the patches to a folder; returns the exit code."""
    with tempfile.TemporaryDirectory(prefix="wcache-series-") as work:
        written = write_series(source_of(RELEASE), Path(work) / "ceph", out)
    for path in written:
        text = path.read_text(encoding="utf-8")
        added = sum(line.startswith("+") and line[:3] != "+++" for line in text.splitlines())
        print(f"{added:6} lines, {len(text) // 1024:5} KiB  {path.name}")
    print(f"{len(written)} patches in {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/ceph-series").absolute()))
