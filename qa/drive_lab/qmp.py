"""QMP: the machine's own word about its drives, and the hand on its plugs."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from .processes import LabError, connect


class Qmp:
    """One QMP connection; commands are answered one at a time, events are kept."""

    def __init__(self, path: Path, timeout_s: float = 30.0) -> None:
        self._socket = connect(path, timeout_s)
        self._socket.settimeout(timeout_s)
        self._lines = self._socket.makefile("r", encoding="utf-8")
        self._events: list[dict[str, Any]] = []
        self._read()  # the greeting
        self.command("qmp_capabilities")

    def command(self, name: str, **arguments: Any) -> Any:
        """Run one command; raise LabError with QEMU's own words when it is refused.

        An underscore in an argument stands for QMP's hyphen; names of commands have both.
        """
        message: dict[str, Any] = {"execute": name}
        if arguments:
            message["arguments"] = {key.replace("_", "-"): arguments[key] for key in arguments}
        self._socket.sendall(json.dumps(message).encode() + b"\n")
        while True:
            reply = self._read()
            if "event" in reply:
                self._events.append(reply)
            elif "error" in reply:
                raise LabError(f"QEMU refused {name}: {reply['error'].get('desc')}")
            else:
                return reply["return"]

    def wait_event(self, name: str, *, device: str, timeout_s: float) -> bool:
        """Wait for an event about a device; False when it does not come in time."""
        deadline = time.monotonic() + timeout_s
        while True:
            for event in self._events:
                if event["event"] == name and event.get("data", {}).get("device") == device:
                    self._events.remove(event)
                    return True
            if time.monotonic() > deadline:
                return False
            # any command makes QEMU deliver what is pending
            self.command("query-status")
            time.sleep(0.02)

    def close(self) -> None:
        self._lines.close()
        self._socket.close()

    def _read(self) -> dict[str, Any]:
        line = self._lines.readline()
        if not line:
            raise LabError("the guest's machine has gone: see qemu.log")
        reply: dict[str, Any] = json.loads(line)
        return reply
