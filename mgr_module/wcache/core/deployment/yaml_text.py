"""Plain data as YAML, by the standard library alone: every text is quoted as in JSON."""

from __future__ import annotations

import json
from typing import Any, List

_INDENT = "  "


def yaml_lines(value: Any, indent: int = 0) -> List[str]:
    """Lines of block YAML for dicts, lists and scalars.

    A quoted text of JSON is one of YAML 1.2, so no text can become anything else.
    """
    pad = _INDENT * indent
    lines: List[str] = []
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, (dict, list)) and item:
                lines += [f"{pad}{_key(key)}:", *yaml_lines(item, indent + 1)]
            else:
                lines.append(f"{pad}{_key(key)}: {json.dumps(item)}")
    else:
        for item in value:
            if isinstance(item, (dict, list)) and item:
                first, *rest = yaml_lines(item, indent + 1)
                lines += [f"{pad}- {first.lstrip()}", *rest]
            else:
                lines.append(f"{pad}- {json.dumps(item)}")
    return lines


def _key(key: str) -> str:
    return key if key.replace("_", "").isalpha() else json.dumps(key)
