"""doc/mgr/wcache.rst: what stands in `tree/`, and the module's options, which Ceph renders."""

from __future__ import annotations

from pathlib import Path

from wcache.options import module_options

PAGE = Path(__file__).parent / "tree/doc/mgr/wcache.rst"


def module_page() -> str:
    """The page, with a directive for each option of the module."""
    lines = [f".. confval:: {option['name']}" for option in module_options()]
    return PAGE.read_text(encoding="utf-8") + "\n".join(lines) + "\n"
