"""Commands in the guest, through qemu-guest-agent on a virtio serial port.

    python3 -m drive_lab.agent FOLDER/agent.sock 'lsblk; dmesg | tail'

The agent is a C program: a round trip costs milliseconds, where a Python server in a guest
without KVM would cost fourteen times what it does outside.  Commands run side by side.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Sequence

from .processes import LabError, connect

POLL_S = 0.004
HANG_S = 900.0  # for a command that says nothing else: what takes longer hangs
SENTINEL = b"\xff"
FIRST_PATIENCE_S = 0.3
MOST_PATIENCE_S = 10.0
ANSWERS_S = 300.0  # a guest that is up


@dataclass(frozen=True)
class Result:
    """How a command in the guest ended; ``returncode`` is 128 + n after signal n."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str

    def checked(self) -> str:
        """Return what it printed; raise LabError when it failed."""
        if self.returncode != 0:
            said = (self.stderr or self.stdout).strip().splitlines()[-4:]
            raise LabError(
                f"in the guest, {' '.join(self.argv)[:200]}: exit {self.returncode}: "
                + " | ".join(said)
            )
        return self.stdout


class GuestProcess:
    """A command still running in the guest."""

    def __init__(self, agent: GuestAgent, pid: int, argv: tuple[str, ...]) -> None:
        self._agent = agent
        self.pid = pid
        self.argv = argv
        self._result: Result | None = None

    def poll(self) -> Result | None:
        if self._result is None:
            status = self._agent.command("guest-exec-status", pid=self.pid)
            if status["exited"]:
                code = status.get("exitcode")
                self._result = Result(
                    argv=self.argv,
                    returncode=code if code is not None else 128 + status.get("signal", 0),
                    stdout=_text(status.get("out-data")),
                    stderr=_text(status.get("err-data")),
                )
        return self._result

    def wait(self, timeout_s: float) -> Result:
        """Wait for its end; kill it and raise LabError when it takes longer."""
        deadline = time.monotonic() + timeout_s
        while True:
            result = self.poll()
            if result is not None:
                return result
            if time.monotonic() > deadline:
                self.kill()
                raise LabError(
                    f"in the guest, {' '.join(self.argv)[:200]}: not done in {timeout_s:g} s"
                )
            time.sleep(POLL_S)

    def kill(self, signal: str = "KILL") -> None:
        self._agent.run(["kill", f"-{signal}", str(self.pid)])


class GuestAgent:
    """The host's end of the agent's port."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._socket: socket.socket | None = None
        self._buffer = b""

    def connect(self, timeout_s: float) -> None:
        """Wait until the agent of a booting guest answers; raise LabError when it does not.

        Each try waits twice as long as the one before: the guest of a busy machine may take
        longer than any fixed time, and what it answers after a try has ended is lost.
        """
        deadline = time.monotonic() + timeout_s
        patience_s = FIRST_PATIENCE_S
        while not self._answers(timeout_s, patience_s):
            if time.monotonic() > deadline:
                raise LabError(f"the guest did not answer in {timeout_s:g} s")
            patience_s = min(2 * patience_s, MOST_PATIENCE_S)

    def _answers(self, timeout_s: float, patience_s: float) -> bool:
        self.close()
        self._socket = connect(self._path, timeout_s)
        self._socket.settimeout(patience_s)
        token = int.from_bytes(os.urandom(4), "big")
        try:
            # the sentinel makes the agent drop what an earlier boot left half said
            self._send({"execute": "guest-sync-delimited", "arguments": {"id": token}})
            self._buffer = self._until(SENTINEL)
            answered: bool = self._receive().get("return") == token
        except (socket.timeout, ConnectionError):
            return False
        self._socket.settimeout(60.0)
        return answered

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._buffer = b""

    def command(self, name: str, **arguments: Any) -> Any:
        """Send one command of qemu-ga's own protocol."""
        try:
            self._send({"execute": name, "arguments": arguments})
            reply = self._receive()
        except (socket.timeout, ConnectionError) as error:
            raise LabError(f"the guest no longer answers ({name}): see console.log") from error
        if "error" in reply:
            raise LabError(f"the guest refused {name}: {reply['error'].get('desc')}")
        return reply["return"]

    def spawn(
        self, argv: Sequence[str], *, env: dict[str, str] | None = None, stdin: str = ""
    ) -> GuestProcess:
        """Start a program; ``env`` is added to the agent's own environment."""
        words = tuple(argv)
        if env:
            words = ("/usr/bin/env", *(f"{name}={value}" for name, value in env.items()), *words)
        arguments: dict[str, Any] = {
            "path": words[0], "arg": list(words[1:]), "capture-output": True,
        }  # fmt: skip
        if stdin:
            arguments["input-data"] = base64.b64encode(stdin.encode()).decode()
        started = self.command("guest-exec", **arguments)
        return GuestProcess(self, started["pid"], tuple(argv))

    def run(
        self,
        argv: Sequence[str],
        *,
        env: dict[str, str] | None = None,
        stdin: str = "",
        timeout_s: float = HANG_S,
    ) -> Result:
        """Run a program to its end."""
        return self.spawn(argv, env=env, stdin=stdin).wait(timeout_s)

    def sh(self, script: str, *, timeout_s: float = HANG_S) -> Result:
        """Run a few lines of shell in the guest; the first failing one ends it."""
        return self.run(["/bin/sh", "-euc", script], timeout_s=timeout_s)

    def settle(self) -> None:
        """Wait until udev, where it runs, has done all events.

        udevd now and then closes the connection of a ``udevadm settle`` half way ("Broken
        pipe"), which says nothing of its events; so it is asked again.
        """
        self.sh(
            "[ -e /run/udev/control ] || exit 0\n"
            "for attempt in 1 2 3; do udevadm settle --timeout=60 && exit 0; done; exit 1",
            timeout_s=190.0,
        ).checked()

    def _send(self, message: dict[str, Any]) -> None:
        if self._socket is None:
            raise LabError("the guest is not running")
        self._socket.sendall(json.dumps(message).encode() + b"\n")

    def _receive(self) -> dict[str, Any]:
        line = self._until(b"\n")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def _until(self, mark: bytes) -> bytes:
        """Return what came before a mark (or, for the sentinel, keep what came after)."""
        assert self._socket is not None
        while mark not in self._buffer:
            part = self._socket.recv(1 << 16)
            if not part:
                raise ConnectionResetError("the agent's port was closed")
            self._buffer += part
        before, _, after = self._buffer.partition(mark)
        if mark == SENTINEL:
            return after
        self._buffer = after
        return before


def _text(encoded: str | None) -> str:
    return base64.b64decode(encoded).decode(errors="replace") if encoded else ""


def main(words: Sequence[str]) -> int:
    """Do one line of shell in a guest that was left running; returns its exit code."""
    if len(words) != 2:
        print("usage: python3 -m drive_lab.agent FOLDER/agent.sock COMMAND", file=sys.stderr)
        return 2
    agent = GuestAgent(Path(words[0]))
    try:
        agent.connect(ANSWERS_S)
        done = agent.sh(words[1])
    except (LabError, OSError) as error:
        print(f"guest: {error}", file=sys.stderr)
        return 1
    finally:
        agent.close()
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
