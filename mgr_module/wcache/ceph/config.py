"""Reads and writes the mons' config database."""

from __future__ import annotations

from typing import Any, Collection, Mapping, Tuple

from ..core.config_database import ConfigEdit, Entry, parse_dump
from ..core.errors import NotReadyError, RefusedError
from .command import CommandFailed, NoAnswer, SendsCommands, ask_mon, parse


class CephConfig:
    """The `ConfigDatabase` port over a mgr module; `names` are the options that it reads."""

    def __init__(self, mgr: SendsCommands, names: Collection[str]) -> None:
        self._mgr = mgr
        self._names = frozenset(names)

    def read(self) -> Tuple[Entry, ...]:
        """`ceph config dump`."""
        return parse_dump(self._ask({"prefix": "config dump"}, json=True), self._names)

    def write(self, edit: ConfigEdit) -> None:
        """`ceph config set` or `rm`."""
        if edit.value is None:
            self._ask({"prefix": "config rm", "who": edit.who, "name": edit.name})
            return
        self._ask({
            "prefix": "config set", "who": edit.who, "name": edit.name, "value": edit.value,
        })

    def _ask(self, command: Mapping[str, Any], json: bool = False) -> Any:
        try:
            text = ask_mon(self._mgr, command)
            return parse(text, command["prefix"]) if json else text
        except NoAnswer as failure:
            raise NotReadyError(str(failure)) from None
        except CommandFailed as failure:
            raise RefusedError(str(failure)) from None
