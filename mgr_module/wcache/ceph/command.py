"""Commands from the mgr to an OSD or a mon, whose answer is waited for with a time-out."""

from __future__ import annotations

import json
import queue
import threading
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Optional, Protocol

from ..core import codec
from ..core.errors import MalformedError

COMMAND_TIMEOUT_S, OPTION_TIMEOUT_S = 30.0, 10.0
ANSWER_BYTES_MAX = 2**28  # `config dump` of a hundred thousand OSDs is tens of megabytes
_LOOK_EVERY_S = 0.5
EINVAL = 22


class StandbyMgr(Protocol):
    """What is used of MgrStandbyModule (Ceph, mgr_module.py), and of MgrModule too."""

    def get_mgr_id(self) -> str:
        """Its name."""

    def get_mgr_ip(self) -> str:
        """Its address."""

    def get_store(self, key: str) -> Optional[str]:
        """A value of this module's, from the mgr's copy."""


class Mgr(StandbyMgr, Protocol):
    """What is used of MgrModule (Ceph, mgr_module.py), by all that talks to Ceph."""

    module_name: str

    @property
    def version(self) -> str:
        """Ceph's version text."""

    def get(self, data_name: str) -> Any:
        """One of the mgr's structures; may be shared and read-only."""

    def get_ceph_option(self, key: str) -> Any:
        """An option as the mgr has it."""

    def get_foreign_ceph_option(self, entity: str, key: str) -> Any:
        """An option as a daemon has it; KeyError where the release has none."""

    def get_module_option_ex(self, module: str, key: str, default: Any = None) -> Any:
        """An option of another module."""

    def get_store_prefix(self, key_prefix: str) -> Dict[str, str]:
        """All keys that start with a prefix, with their values."""

    def list_servers(self) -> List[Dict[str, Any]]:
        """Hosts with their daemons."""

    def remote(self, module_name: str, method_name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of another module; raises where that one is off."""

    def send_command(
        self, result: Any, svc_type: str, svc_id: str, command: str, tag: str
    ) -> None:
        """Send a command; `complete(r, outb, outs)` of `result` is called once."""

    def set_uri(self, uri: str) -> None:
        """Say in the mgr map where the web page is."""


class CommandFailed(Exception):
    """A command that went wrong; its text is the one line for the admin.

    `code` is the mons' own (a negative errno), or 0 where they said none.
    """

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = code


class NoAnswer(CommandFailed):
    """Nobody has answered in time: whether it was done is not known."""


class Reply:
    """A completion with a time-out, which CommandResult lacks."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.code = 0
        self.out = ""
        self.error = ""

    def complete(self, r: int, outb: str, outs: str) -> None:
        """Called by the mgr from a thread of its own."""
        self.code, self.out, self.error = r, outb, outs
        self._event.set()

    def wait(self, timeout_s: float) -> bool:
        return self._event.wait(timeout_s)


class InTurn:
    """Does one thing after the other, in a thread that begins with the first and does not end."""

    def __init__(self, name: str) -> None:
        self._lock = threading.Lock()
        self._due: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, daemon=True, name=name)

    def put(self, work: Callable[[], None]) -> None:
        """Have something done that raises nothing; returns at once."""
        with self._lock:
            if self._thread.ident is None:
                self._thread.start()
        self._due.put(work)

    def _work(self) -> None:
        while True:
            self._due.get()()


class Sender(InTurn):
    """Sends in one thread.

    A completion runs on the Python thread state of the thread that sent its command, to its very
    end (MonCommandCompletion in src/mgr/BaseMgrModule.cc keeps PyThreadState_Get(), and Gil::~Gil
    releases through it after `complete` has returned).  A thread that sent a command, took its
    answer and ended could be gone by then: the mgr died of a segmentation fault.
    """

    def send(self, mgr: Any, reply: Any, kind: str, who: str, command: str) -> None:
        """As MgrModule.send_command; what it raises completes the reply as a failure."""

        def once() -> None:
            try:
                mgr.send_command(reply, kind, who, command, "")
            except Exception as error:  # the thread must live on
                reply.complete(-EINVAL, "", repr(error))

        self.put(once)


_SENDER = Sender("wcache-sender")


def send(mgr: Any, reply: Any, kind: str, who: str, command: str) -> None:
    """Send a command by the thread of this process; returns at once."""
    _SENDER.send(mgr, reply, kind, who, command)


@dataclass
class Osds:
    """Commands to OSDs; `is_up` says which of them run.

    The error code of an OSD is lost on its way to a module, so no output is a failure.
    """

    mgr: Mgr
    is_up: Callable[[int], bool] = lambda osd_id: True

    def put(self, osd_id: int, command: Mapping[str, Any]) -> Reply:
        """Send a command; what is returned has its answer once that has come."""
        reply = Reply()
        send(self.mgr, reply, "osd", str(osd_id), json.dumps({**command, "format": "json"}))
        return reply

    def ask(
        self, osd_id: int, command: Mapping[str, Any], timeout_s: float = COMMAND_TIMEOUT_S
    ) -> str:
        """The output of a command; raises CommandFailed."""
        reply, name = self.put(osd_id, command), command["prefix"]
        deadline = time.monotonic() + timeout_s
        while not reply.wait(_LOOK_EVERY_S):
            if not self.is_up(osd_id):
                raise CommandFailed(f"osd.{osd_id} is not up and in since `{name}`")
            if time.monotonic() > deadline:
                raise CommandFailed(
                    f"osd.{osd_id} gave no answer to `{name}` within {timeout_s:.0f} s"
                )
        if not reply.out:
            code = "" if reply.code == 0 else f" (error {reply.code})"
            raise CommandFailed(f"osd.{osd_id} did not answer `{name}`: {reply.error}{code}")
        return reply.out

    def read(
        self, osd_id: int, command: Mapping[str, Any], timeout_s: float = COMMAND_TIMEOUT_S
    ) -> Mapping[str, Any]:
        """The same as a JSON object, which is empty where the answer is something else."""
        return parse_object(self.ask(osd_id, command, timeout_s), command["prefix"])

    def option(
        self, osd_id: int, name: str, timeout_s: float = OPTION_TIMEOUT_S
    ) -> Optional[str]:
        """An option as the OSD goes by it; None where it does not say."""
        command = {"prefix": "config get", "var": name}
        return value_text(self.read(osd_id, command, timeout_s).get(name))


def ask_mon(
    mgr: Mgr, command: Mapping[str, Any], *, timeout_s: float = COMMAND_TIMEOUT_S
) -> str:
    """The output of a mon's command; raises CommandFailed."""
    reply, name = Reply(), command["prefix"]
    send(mgr, reply, "mon", "", json.dumps({**command, "format": "json"}))
    if not reply.wait(timeout_s):
        raise NoAnswer(f"the mons gave no answer to `{name}` within {timeout_s:.0f} s")
    if reply.code != 0:
        raise CommandFailed(
            f"the mons refused `{name}`: {reply.error} (error {reply.code})", reply.code
        )
    return reply.out


def config_key(
    mgr: Mgr, key: str, timeout_s: float = COMMAND_TIMEOUT_S
) -> str:
    """A value of the mons' store; "" where they have none, or do not say."""
    try:
        return ask_mon(mgr, {"prefix": "config-key get", "key": key}, timeout_s=timeout_s)
    except CommandFailed:
        return ""


def put_config_key(mgr: Mgr, key: str, value: Optional[str], timeout_s: float) -> None:
    """Set a value of this module's in the mons' store, or remove it; raises CommandFailed."""
    command = {"prefix": "config-key rm", "key": f"mgr/{mgr.module_name}/{key}"}
    if value is not None:
        command.update(prefix="config-key set", val=value)
    ask_mon(mgr, command, timeout_s=timeout_s)


def parse(text: str, what: str) -> Any:
    """The JSON of an answer, bounded as all that comes from outside; raises CommandFailed."""
    try:
        return codec.parse_json(text, bytes_max=ANSWER_BYTES_MAX, what=what)
    except MalformedError as error:
        raise CommandFailed(error.message) from None


def parse_object(text: str, what: str) -> Mapping[str, Any]:
    """The same, of which no more is known than that it should be an object."""
    return codec.as_object(parse(text, what))


def value_text(value: Any) -> Optional[str]:
    """A value as `config set` takes it; booleans and numbers come as such."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)[:200]
