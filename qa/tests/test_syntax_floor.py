"""Every Python file of ours parses as Python 3.9, the oldest we run on (EL9 images)."""

import ast
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_file_parses_as_python_3_9():
    listed = subprocess.run(
        ["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split()
    files = [ROOT / name for name in listed if (ROOT / name).exists()]
    assert files
    for path in files:
        ast.parse(path.read_text(), filename=str(path), feature_version=(3, 9))
