"""Every Python file of ours parses as Python 3.9, the oldest we run on (EL9 images)."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_file_parses_as_python_3_9():
    folders = ("mgr_module", "osd_probe", "cli", "qa", "vstart-tests")
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    assert files
    for path in files:
        ast.parse(path.read_text(), filename=str(path), feature_version=(3, 9))
