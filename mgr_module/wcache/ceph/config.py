"""Reads and writes the mons' config database, and hosts' labels at cephadm as part of it."""

from __future__ import annotations

import json
from typing import Any, Callable, Collection, List, Mapping, Optional, Protocol, Tuple

from ..core.config_database import LABELS_OF, ConfigEdit, Entry, parse_dump
from ..core.errors import NotReadyError, RefusedError
from .command import CommandFailed, NoAnswer, SendsCommands, ask_mon, ask_osd, parse

# Where cephadm keeps its hosts (mgr/cephadm/inventory.py, Inventory).
INVENTORY = "mgr/cephadm/inventory"
LABEL = "label"  # what the value of a label is called, where it stands
OSD_TIMEOUT_S = 10.0


class Orchestrator(Protocol):
    """Who has hosts with labels: CephOrchestrator."""

    def backend(self) -> str:
        """What `ceph orch status` names as backend; empty where there is none."""

    def ask(self, method: str, *args: Any) -> Any:
        """The result of one of its methods; raises CommandFailed."""


class CephConfig:
    """The `ConfigDatabase` port over a mgr module; `names` are the options that it reads."""

    def __init__(
        self, mgr: SendsCommands, names: Collection[str], *, orchestrator: Orchestrator,
        is_up: Callable[[int], bool] = lambda osd_id: True,
    ) -> None:
        self._mgr = mgr
        self._names = frozenset(names)
        self._orchestrator = orchestrator
        self._is_up = is_up

    def read(self) -> Tuple[Entry, ...]:
        """`ceph config dump`."""
        found = parse_dump(self._ask({"prefix": "config dump"}, as_json=True), self._names)
        return (*found, *self._labels())

    def _labels(self) -> Tuple[Entry, ...]:
        if self._orchestrator.backend() != "cephadm":
            return ()
        try:
            text = ask_mon(self._mgr, {"prefix": "config-key get", "key": INVENTORY})
        except CommandFailed:
            return ()
        return labels_of(text)

    def osd_value(self, osd_id: int, name: str) -> Optional[str]:
        """`ceph tell osd.N config get`."""
        try:
            text = ask_osd(
                self._mgr, osd_id, {"prefix": "config get", "var": name}, is_up=self._is_up,
                timeout_s=OSD_TIMEOUT_S,
            )
            plain = parse(text, name)
        except CommandFailed:
            return None
        value = plain.get(name) if isinstance(plain, Mapping) else None
        return value if isinstance(value, str) else None

    def write(self, edit: ConfigEdit) -> None:
        """`ceph config set` or `rm`, or a host's label at cephadm."""
        if edit.who.endswith(LABELS_OF):
            method = "remove_host_label" if edit.value is None else "add_host_label"
            try:
                self._orchestrator.ask(method, edit.who[: -len(LABELS_OF)], edit.name)
            except CommandFailed as failure:
                raise RefusedError(str(failure)) from None
            return
        if edit.value is None:
            self._ask({"prefix": "config rm", "who": edit.who, "name": edit.name})
            return
        self._ask({
            "prefix": "config set", "who": edit.who, "name": edit.name, "value": edit.value,
        })

    def _ask(self, command: Mapping[str, Any], as_json: bool = False) -> Any:
        try:
            text = ask_mon(self._mgr, command)
            return parse(text, command["prefix"]) if as_json else text
        except NoAnswer as failure:
            raise NotReadyError(str(failure)) from None
        except CommandFailed as failure:
            raise RefusedError(str(failure)) from None


def labels_of(text: str) -> Tuple[Entry, ...]:
    """The labels in cephadm's inventory; nothing where it is of another shape."""
    try:
        plain = json.loads(text)
    except ValueError:
        return ()
    found: List[Entry] = []
    for host, item in plain.items() if isinstance(plain, dict) else ():
        labels = item.get("labels") if isinstance(item, dict) else None
        for label in labels if isinstance(labels, list) else ():
            if isinstance(label, str) and len(label) <= 100:
                found.append(Entry(f"{str(host)[:255]}{LABELS_OF}", label, LABEL))
    return tuple(found)
