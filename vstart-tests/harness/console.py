"""A fast line to the cluster: one librados client that stays connected."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from pathlib import Path
from typing import Any, Callable, Dict, Optional, Union

from .errors import CommandError

INSIDE = Path(__file__).with_name("console_inside.py")
CONNECT_TIMEOUT_S = 30

# Starts the argument list in the release and returns the process, with pipes.
Spawn = Callable[..., "subprocess.Popen[bytes]"]


class Console:
    """Commands to mon, mgr and OSDs at half a millisecond each; reconnects by itself.

    For polling and set-up.  A test of what an admin sees calls the real `ceph` instead.
    """

    def __init__(self, spawn: Spawn, python: str, conf: Path) -> None:
        self._spawn = spawn
        self._argv = [python, str(INSIDE), str(conf), str(CONNECT_TIMEOUT_S)]
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._buffer = b""

    def command(
        self,
        prefix: str,
        *,
        target: Union[str, int] = "mon",
        data: str = "",
        timeout_s: float = 30.0,
        **arguments: Any,
    ) -> Any:
        """Run a command and return its JSON reply, or its text where that is not JSON.

        `target` is "mon", "mgr" or the number of an OSD.  Raises CommandError.
        """
        command = {"prefix": prefix, "format": "json", **arguments}
        answer = self._ask({"target": target, "command": command, "data": data}, timeout_s)
        if answer["rc"] != 0:
            raise CommandError(f"{prefix}: {answer['message'] or answer['rc']}", answer["rc"])
        try:
            return json.loads(answer["out"])
        except ValueError:
            return answer["out"] or answer["message"]

    def _ask(self, request: Dict[str, Any], timeout_s: float) -> Dict[str, Any]:
        if self._process is None or self._process.poll() is not None:
            self._connect()
        stdin = self._process.stdin if self._process is not None else None
        assert stdin is not None
        try:
            stdin.write(json.dumps(request).encode() + b"\n")
            stdin.flush()
        except OSError as error:
            self.close()
            raise CommandError(f"the line to the cluster broke: {error}") from error
        return self._read_line(timeout_s)

    def _connect(self) -> None:
        self._buffer = b""
        self._process = self._spawn(
            self._argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._read_line(CONNECT_TIMEOUT_S + 5)

    def _read_line(self, timeout_s: float) -> Dict[str, Any]:
        stdout = self._process.stdout if self._process is not None else None
        assert stdout is not None
        end_s = time.monotonic() + timeout_s
        while b"\n" not in self._buffer:
            left_s = end_s - time.monotonic()
            ready = left_s > 0 and select.select([stdout], [], [], left_s)[0]
            chunk = os.read(stdout.fileno(), 1 << 20) if ready else b""
            if not chunk:
                self.close()
                why = "refused or lost" if ready else f"no answer in {timeout_s:.0f} s"
                raise CommandError(f"the line to the cluster: {why}")
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        reply: Dict[str, Any] = json.loads(line)
        return reply

    def close(self) -> None:
        """End the client."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
