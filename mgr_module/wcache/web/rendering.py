"""Templates to HTML: everything that comes from outside is escaped, cut short, made harmless.

jinja2 is imported here only, when the page is switched on: a mgr may lack it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Dict

import jinja2
from markupsafe import Markup

from ..core.drive.manual import pin_word
from ..core.figures.lines import Geometry
from ..core.model import load_name
from ..core.text import amount, cell, duration, latency, many, ratio, relative, roughly, when

TEMPLATES = Path(__file__).with_name("templates")
CHARS_MAX = 400  # of one value: the longest that the module itself says is shorter
# Marks that turn the direction of text round, and control characters: a name could make the text
# around it read as something else (Unicode TR 36).
_UNSEEN = re.compile("[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e"
                     "\u2060-\u2069\ufeff]")


def shown(value: Any) -> Any:
    """A value as it may stand in the page; text is cut short, and stands for itself alone."""
    if isinstance(value, (Markup, Geometry)):
        return value
    if value is None:
        return "-"
    if isinstance(value, str):
        short = value if len(value) <= CHARS_MAX else f"{value[:CHARS_MAX]}..."
        return _UNSEEN.sub("\ufffd", short)
    return value


def drive_model(plain: Dict[str, Any]) -> str:
    """A drive model in words."""
    return " ".join(str(part) for part in plain.values() if part) or "(unnamed)"


class Renderer:
    """Makes pages of templates."""

    def __init__(self) -> None:
        self._environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(str(TEMPLATES)), autoescape=True,
            undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
            finalize=shown, auto_reload=False,
        )
        self._environment.filters.update(
            amount=amount, cell=cell, drive_model=drive_model, duration=duration,
            latency=latency, load_name=load_name, many=many, pin_word=pin_word, ratio=ratio,
            relative=relative, roughly=roughly, when=when,
        )

    def __call__(self, template: str, values: Dict[str, Any]) -> str:
        """The text of a page."""
        return self._environment.get_template(template).render(values)
