"""Templates to HTML: everything that comes from outside is escaped, cut short, made harmless.

jinja2 is imported here only, when the page is switched on: a mgr may lack it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from ..commands.tables import Column
from ..core.figures.geometry import Geometry
from ..core.model import load_name
from ..core.text import amount, cell, duration, many, roughly, when
from ..core.verdict.result import turned_off
from .pages import NAVIGATION, ROWS_MAX

TEMPLATES = Path(__file__).with_name("templates")
# What a cell says that stands out.
LOUD = {
    "safe": "safe", "unsafe": "unsafe", "error": "error", "warning": "warning",
    "NOT CONFIRMED": "error",
}
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


def look(column: Column, value: Any = None) -> Markup:
    """The class of a cell in the style sheet, or of its column's heading, as its attribute."""
    found = "" if column.look.startswith("/") else column.look
    found = LOUD.get(value, found) if isinstance(value, str) else found
    return Markup(' class="{}"').format(found) if found else Markup("")


def code(text: str) -> Markup:
    """Words of our own, with what stands in backticks as code."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(shown(text)))))  # noqa: S704


class Renderer:
    """Makes pages of templates."""

    def __init__(self) -> None:
        self._environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(str(TEMPLATES)), autoescape=True,
            undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
            finalize=shown, auto_reload=False,
        )
        self._environment.filters.update(
            amount=amount, cell=cell, code=code, duration=duration, load_name=load_name,
            look=look, many=many, roughly=roughly, turned_off=turned_off, when=when,
        )
        self._environment.globals.update(
            rows_max=ROWS_MAX, navigation=NAVIGATION, user="", read_at_s=0.0
        )

    def __call__(self, template: str, **values: Any) -> str:
        """The text of a page."""
        return self._environment.get_template(template).render(values)
