"""One command: what it is called with, what it calls, and how its answer looks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Tuple

from . import tables
from .service import Service
from .views import Views

FORMAT = "name=format,type=CephChoices,strings=plain|json|yaml,req=false"
EACH = "name=all,type=CephBool,req=false"
DRY_RUN = "name=dry_run,type=CephBool,req=false"
SCOPE = "name=scope,type=CephString,req=false"

Answer = Tuple[int, str, str]
Renderer = Callable[[Mapping[str, Any]], str]


@dataclass(frozen=True)
class Command:
    """One command: its prefix, arguments, permission, help, what it calls and how it looks."""

    prefix: str
    arguments: Tuple[str, ...]
    perm: str
    help: str
    call: Callable[[Service, Views, Dict[str, Any]], Any]
    render: Renderer = tables.would
    whole: Optional[Renderer] = None  # with --all: what `render` groups
    tables: Mapping[str, Sequence[tables.Column]] = field(default_factory=dict)  # for the page

    def spec(self) -> Dict[str, Any]:
        """The command as an entry of a mgr module's COMMANDS."""
        return {
            "cmd": " ".join((self.prefix, *self.arguments, FORMAT)),
            "desc": self.help, "perm": self.perm, "poll": False,
        }
