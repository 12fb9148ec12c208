"""Notes what unit tests have the module ask of Ceph and read of its answers.

`install` puts a watch between the adapters (`wcache/ceph`) and whatever plays the mgr for them.
`problems` collects what no contract has; `used` is what was asked and read.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import pkgutil
from typing import Any, Callable, Dict, List, Set, Tuple

from .contract_tree import Tree, below, tree_of
from .contracts import CALLS, COMMANDS, METHODS, REMOTE

_CONTEXT = ("format",)  # every command takes it

problems: List[str] = []
used: Set[str] = set()


_COMMANDS: Dict[Tuple[str, Tuple[str, ...]], Tree] = {}
for _whom, _command, _paths in COMMANDS:
    _COMMANDS[_whom, (_command["prefix"], *sorted(_command))] = tree_of(_paths)
_ANSWERS: Dict[Tuple[Any, ...], Tree] = {
    (name, *args) if name == "get" else (name,): tree_of(paths) for name, args, paths in CALLS
}


def _note(what: str) -> None:
    if what not in problems:
        problems.append(what)


def check() -> None:
    """Raises AssertionError with what was asked or read without a contract since the last time."""
    found, problems[:] = list(problems), []
    if found:
        raise AssertionError("not in qa/mgr_fakes/contracts.py: " + "; ".join(found))


# ---- what is read of an answer


class Text(str):
    """An answer that may be JSON, with its contract."""

    tree: Tree
    path: str


def traced(value: Any, tree: Tree, path: str) -> Any:
    """The value; what is read of it is noted."""
    if not isinstance(tree, dict):
        return value
    if isinstance(value, dict):
        return _Object(value, tree, path)
    if isinstance(value, (list, tuple)):
        return _List(value, tree, path)
    if isinstance(value, str):
        text = Text(value)
        text.tree, text.path = tree, path
        return text
    return value


def _read(tree: Tree, path: str, word: Any, value: Any) -> Any:
    lower = below(tree, str(word))
    named = word if isinstance(tree, str) or str(word) in tree else "*"
    where = f"{path}/{named}"
    if lower is None:
        _note(f"reads {path}/{word}, which no contract has")
        return value
    used.add(where)
    return traced(value, lower, where)


class _Object(dict):  # type: ignore[type-arg]
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: Any, tree: Tree, path: str) -> None:
        super().__init__(value)
        self._tree, self._path = tree, path

    def __getitem__(self, key: Any) -> Any:
        return _read(self._tree, self._path, key, super().__getitem__(key))

    def get(self, key: Any, default: Any = None) -> Any:
        found = _read(self._tree, self._path, key, super().get(key))
        return found if key in self.keys() else default

    def items(self) -> Any:
        """Whoever asks for whatever is there has read what contracts have."""
        return [(key, self._each(key)) for key in self]

    def values(self) -> Any:
        """See items."""
        return [self._each(key) for key in self]

    def __eq__(self, other: object) -> bool:
        self.items()
        return super().__eq__(other)

    def _each(self, key: Any) -> Any:
        value, known = super().__getitem__(key), below(self._tree, str(key)) is not None
        return _read(self._tree, self._path, key, value) if known else value


class _List(list):  # type: ignore[type-arg]
    def __init__(self, value: Any, tree: Tree, path: str) -> None:
        super().__init__(value)
        self._tree, self._path = tree, path

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        if isinstance(index, slice):
            return _List(found, self._tree, self._path)
        return _read(self._tree, self._path, "[]", found)

    def __contains__(self, item: object) -> bool:
        return any(each == item for each in self)

    def __iter__(self) -> Any:
        return (_read(self._tree, self._path, "[]", item) for item in super().__iter__())


# ---- what is asked


class Mgr:
    """A mgr for an adapter: only what MgrModule has goes through, and is noted."""

    def __init__(self, mgr: Any) -> None:
        self.__dict__["_mgr"] = mgr

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._mgr, name)
        if name not in METHODS:
            _note(f"asks a mgr for {name}, which no contract has")
            return found
        used.add(name)
        return functools.partial(self._call, name, found) if callable(found) else found

    def _call(self, name: str, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if len(args) > len(METHODS[name]) and name != "remote":
            _note(f"{name} takes {METHODS[name]}, not {args}")
        if name == "remote":
            _remote(*args)
        key = (name, *args) if name == "get" else (name,)
        answer = method(*args, **kwargs)
        if name == "get" and key not in _ANSWERS:
            _note(f"asks a mgr to get {args}")
        return traced(answer, _ANSWERS.get(key, ""), " ".join(key))


def _remote(module: str, method: str, *args: Any) -> None:
    owner = module if module in REMOTE else "orchestrator"  # by the name of its backend
    if len(REMOTE[owner].get(method, ())) != len(args) or method not in REMOTE[owner]:
        _note(f"calls {module}.{method}{args}")
    used.add(f"{owner}.{method}")


class Reply:
    """A completion that hands on what can be watched."""

    def __init__(self, reply: Any, tree: Tree, path: str) -> None:
        self._reply, self._tree, self._path = reply, tree, path

    def complete(self, r: int, outb: str, outs: str) -> None:
        """As CommandResult.complete."""
        self._reply.complete(r, traced(outb, self._tree, self._path), outs)


def asked(whom: str, text: str) -> Tuple[Tree, str]:
    """The contract of a command's answer, and the command in short."""
    command = json.loads(text)
    names = sorted(set(command) - set(_CONTEXT))
    key = (whom, (command["prefix"], *names))
    name = f"{whom} {command['prefix']} ({' '.join(names)})"
    if key not in _COMMANDS:
        _note(f"sends {name}, which no contract has")
    used.add(name)
    return _COMMANDS.get(key, ""), name


# ---- between the adapters and their mgr


def install() -> None:
    """Watch from now on, in all tests of this process."""
    command = importlib.import_module("wcache.ceph.command")
    codec = importlib.import_module("wcache.core.codec")
    send, loads = command.Sender.send, json.loads
    decoder = codec._PLAIN

    def watched_send(self: Any, mgr: Any, reply: Any, kind: str, who: str, command: str) -> None:
        send(self, mgr, Reply(reply, *asked(kind, command)), kind, who, command)

    def watched_loads(text: Any, **options: Any) -> Any:
        plain = loads(text, **options)
        return traced(plain, text.tree, text.path) if isinstance(text, Text) else plain

    class Decoder:
        @staticmethod
        def decode(text: str) -> Any:
            plain = decoder.decode(text)
            return traced(plain, text.tree, text.path) if isinstance(text, Text) else plain

    command.Sender.send = watched_send
    json.loads = watched_loads
    codec._PLAIN = Decoder
    for name in _adapters():
        for _, adapter in inspect.getmembers(importlib.import_module(name), inspect.isclass):
            if adapter.__module__ == name and "mgr" in inspect.signature(adapter).parameters:
                _watch(adapter)


def _adapters() -> List[str]:
    registry = importlib.import_module("wcache.knobs.registry")
    rooms = [f"wcache.knobs.{knob.name}.mgr" for knob in registry.KNOBS]
    return [
        f"{name}.{found.name}" for name in ("wcache.ceph", *rooms)
        for found in pkgutil.iter_modules(importlib.import_module(name).__path__)
    ]


def _watch(adapter: Any) -> None:
    made = adapter.__init__

    @functools.wraps(made)
    def init(self: Any, mgr: Any, *args: Any, **kwargs: Any) -> None:
        made(self, mgr if isinstance(mgr, Mgr) else Mgr(mgr), *args, **kwargs)

    adapter.__init__ = init
