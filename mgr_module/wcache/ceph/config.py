"""The mons' config database, read or changed by commands; cephadm's host labels with it."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from typing import (
    Any,
    Callable,
    Collection,
    Dict,
    FrozenSet,
    List,
    Mapping,
    Optional,
    Tuple,
)

from ..core.config_database import LABELS_OF, ConfigEdit, Entry, parse_dump
from ..core.errors import NotReadyError, RefusedError
from .command import (
    CommandFailed,
    Mgr,
    NoAnswer,
    Osds,
    Reply,
    ask_mon,
    config_key,
    parse,
    send,
)
from .surroundings import CephSurroundings

# Where cephadm keeps its hosts (mgr/cephadm/inventory.py, Inventory).
INVENTORY = "mgr/cephadm/inventory"
LABEL = "label"  # what the value of a label is called, where it stands
# Of this module's own options: how long a command waits for the mons, and how often they are asked.
OWN_TIMEOUT_S, OWN_EVERY_S = 3.0, 60.0
OWN_TRIES = 3  # of a command, where options go on to change while the mons answer
ANSWERED_S = 2.0  # after which a command's answer has gone out
_DUMP = {"prefix": "config dump"}


class _Waking(Reply):
    """A completion that also wakes who goes on with it."""

    def __init__(self, wake: Callable[[], None]) -> None:
        super().__init__()
        self._wake = wake

    def complete(self, r: int, outb: str, outs: str) -> None:
        super().complete(r, outb, outs)
        self._wake()


class OwnOptions:
    """Which options of this module the mons have a value of.

    A mon sends a mgr the values that there are (MConfig), and PyModuleRegistry::handle_config()
    forgets one only where it comes with an empty value.  So of an option that was removed a module
    is told nothing but that something changed, and `get_module_option` goes on with the old value.
    ceph.conf and config-key have no options of modules: md_config_t::set_mon_vals() alone calls
    handle_config().  So all of them are in `config dump`.

    An answer counts where it was asked for after the last change of an option, and after the
    answer that counted before.  Questions are numbered; those up to `_outdated` are too old.
    """

    def __init__(self, mgr: Any, wake: Callable[[], None] = lambda: None) -> None:
        self._mgr = mgr
        self._wake = wake
        self._names: Optional[FrozenSet[str]] = None
        self._then: Dict[str, Any] = {}  # what Ceph had of those that the mons had no value of
        self._lock = threading.Lock()  # changes are told, and commands come, by other threads
        self._number = self._outdated = 0
        self._asked: Optional[Reply] = None
        self._asked_number = 0
        self._next_s = 0.0
        self._in_vain = False

    def ask(self) -> None:
        """Ask the mons, for a moment; where they do not answer, what was known stands.

        After one who waited in vain nobody waits until they have answered: polls of probes are
        answered by the same thread, one after the other.
        """
        if self._in_vain:
            return
        try:
            for _ in range(OWN_TRIES):
                number = self._next_number()
                if self._take(ask_mon(self._mgr, _DUMP, timeout_s=OWN_TIMEOUT_S), number):
                    return
        except NoAnswer:
            self._in_vain = True
            self.changed()
        except CommandFailed:
            return

    def changed(self) -> None:
        """Have the mons asked by the next look: Ceph says that some option changed."""
        with self._lock:
            self._outdated = self._number
        self._next_s = 0.0
        self._wake()

    def look(self, now_s: float) -> bool:
        """Ask them now and then, waiting for nothing; whether an answer came."""
        reply, told = self._asked, False
        if reply is not None and reply.wait(0.0):
            self._asked, self._in_vain = None, False
            if reply.code == 0:
                with contextlib.suppress(CommandFailed):
                    told = self._take(reply.out, self._asked_number)
        if now_s >= self._next_s:
            self._next_s, self._asked = now_s + OWN_EVERY_S, _Waking(self._wake)
            self._asked_number = self._next_number()
            send(self._mgr, self._asked, "mon", "", json.dumps({**_DUMP, "format": "json"}))
        return told

    def is_set(self, name: str, value: Any) -> bool:
        """Whether the mons have a value of an option for this mgr; `value` is what Ceph has.

        True where they have not said, and where Ceph has got another value since they said.
        """
        mine = f"{self._mgr.module_name}/"
        names = (f"mgr/{mine}{name}", f"mgr/{mine}{self._mgr.get_mgr_id()}/{name}")
        if self._names is None or not self._names.isdisjoint(names):
            return True
        return bool(self._then.setdefault(name, value) != value)

    def drop(self) -> int:
        """Remove all values of this module's options from the mons; how many there were.

        Raises NotReadyError or RefusedError.
        """
        found = [
            row for row in _rows(_ask(self._mgr, _DUMP, as_json=True))
            if str(row.get("name")).startswith(f"mgr/{self._mgr.module_name}/")
        ]
        for row in found:
            mask = str(row.get("mask") or "")
            who = f"{row.get('section')}/{mask}" if mask else str(row.get("section"))
            _ask(self._mgr, {"prefix": "config rm", "who": who, "name": str(row["name"])})
        return len(found)

    def _next_number(self) -> int:
        with self._lock:
            self._number += 1
            return self._number

    def _take(self, text: str, number: int) -> bool:
        """Go by an answer to this question; False where it is too old and was dropped."""
        rows = parse(text, "config dump")
        mine = ("global", "mgr", f"mgr.{self._mgr.get_mgr_id()}")
        with self._lock:
            if number <= self._outdated:
                return False
            self._outdated = number
            if isinstance(rows, list):
                self._names = frozenset(
                    str(row.get("name")) for row in _rows(rows) if row.get("section") in mine
                )
                self._then = {}
            return True


def disable_soon(mgr: Mgr, log: logging.Logger, after_s: float = ANSWERED_S) -> threading.Timer:
    """Have the mons disable this module, once the answer of the command at hand has gone out.

    All mgrs start anew for it, and what they had still to answer is lost.
    """

    def disable() -> None:
        try:
            ask_mon(mgr, {"prefix": "mgr module disable", "module": mgr.module_name})
        except CommandFailed as failure:
            log.error("the module is still enabled: %s", failure)

    timer = threading.Timer(after_s, disable)
    timer.daemon = True
    timer.start()
    return timer


def _rows(plain: Any) -> List[Dict[str, Any]]:
    """The rows of a list that is said to have some."""
    return [row for row in plain if isinstance(row, dict)] if isinstance(plain, list) else []


def _ask(mgr: Mgr, command: Mapping[str, Any], as_json: bool = False) -> Any:
    try:
        text = ask_mon(mgr, command)
        return parse(text, command["prefix"]) if as_json else text
    except NoAnswer as failure:
        raise NotReadyError(str(failure)) from None
    except CommandFailed as failure:
        raise RefusedError(str(failure)) from None


class CephConfig:
    """The `ConfigDatabase` port over a mgr module; `names` are the options that it reads."""

    def __init__(
        self, mgr: Mgr, names: Collection[str], *, orchestrator: CephSurroundings,
        osds: Osds,
    ) -> None:
        self._mgr = mgr
        self._names = frozenset(names)
        self._orchestrator = orchestrator
        self._osds = osds

    def read(self) -> Tuple[Entry, ...]:
        """`ceph config dump`."""
        found = parse_dump(_ask(self._mgr, _DUMP, as_json=True), self._names)
        if self._orchestrator.orchestrator() != "cephadm":
            return found
        return (*found, *labels_of(config_key(self._mgr, INVENTORY)))

    def osd_value(self, osd_id: int, name: str) -> Optional[str]:
        """`ceph tell osd.N config get`."""
        try:
            return self._osds.option(osd_id, name)
        except CommandFailed:
            return None

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
            _ask(self._mgr, {"prefix": "config rm", "who": edit.who, "name": edit.name})
            return
        _ask(self._mgr, {
            "prefix": "config set", "who": edit.who, "name": edit.name, "value": edit.value,
        })


def labels_of(text: str) -> Tuple[Entry, ...]:
    """The labels in cephadm's inventory; nothing where it is of another shape."""
    try:
        plain = parse(text, INVENTORY)
    except CommandFailed:
        return ()
    found: List[Entry] = []
    for host, item in plain.items() if isinstance(plain, dict) else ():
        labels = item.get("labels") if isinstance(item, dict) else None
        for label in labels if isinstance(labels, list) else ():
            if isinstance(label, str) and len(label) <= 100:
                found.append(Entry(f"{str(host)[:255]}{LABELS_OF}", label, LABEL))
    return tuple(found)
