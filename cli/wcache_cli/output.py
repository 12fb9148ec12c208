"""How results are printed: plain for people, JSON for programs."""

from __future__ import annotations

import argparse
import json
from typing import Any


def add_format(parser: argparse.ArgumentParser) -> None:
    """Declare `--format plain|json`."""
    parser.add_argument(
        "--format", choices=("plain", "json"), default="plain", help="default: %(default)s"
    )


def print_json(value: Any) -> None:
    """Print JSON with a stable layout; floats are the shortest that read back the same."""
    print(json.dumps(value, indent=2, allow_nan=False))
