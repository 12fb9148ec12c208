"""A fresh host, as an admin types at it: each command is printed with the seconds it took."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import List

from harness.access import PROJECT, leads_to_project
from harness.errors import HarnessError
from harness.processes import MARKER
from harness.roots import SYSTEM_PATH, Root

SHOWN_CHARS_MAX = 150
# Stand-ins for what a root has no use for: all hosts of the guide are this one.
SSH = """#!/bin/sh
# every host is this one
[ "$1" = -n ] && shift
shift
exec /bin/bash -c "$*"
"""


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    text: str  # all that it printed
    seconds: float


class Host:
    """A root with packages in a folder of its own; `folder` is seen under the same path inside."""

    home = "/root/typed-in"  # a clone that lay here would cover it

    def __init__(self, root: Root, folder: Path) -> None:
        self._root = root
        self._folder = folder
        self.write("/usr/local/bin/ssh", SSH, 0o755)
        self._teach_the_host_name()
        # what packages ask for before they start or stop a service
        self.path("/run/systemd/system").mkdir(parents=True)

    def _teach_the_host_name(self) -> None:
        """The stand-in for systemctl knows what %h is in a unit, and not %H."""
        stand_in = self.path("/usr/bin/systemctl")
        text = stand_in.read_text(encoding="utf-8")
        known = 'confs["h"] = HOME\n'
        if text.count(known) != 1:
            raise HarnessError(f"{stand_in} is not the stand-in for systemctl that is known")
        taught = f'{known}            confs["H"] = os.uname().nodename\n'
        stand_in.write_text(text.replace(known, taught), encoding="utf-8")

    def path(self, inside: str) -> Path:
        """A file of the host, from outside."""
        return self._root.inside(inside)

    def write(self, inside: str, text: str, mode: int = 0o644) -> None:
        """Make a file on the host."""
        path = self.path(inside)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)

    def copy(self, files: List[Path]) -> None:
        """Bring files into the folder that commands are typed in, in place of what was there."""
        home = self.path(self.home)
        home.mkdir(parents=True, exist_ok=True)
        for old in home.iterdir():
            old.unlink()
        for path in files:
            (home / path.name).write_bytes(path.read_bytes())

    def try_to(self, command: str, *, timeout_s: float = 300.0, quiet: bool = False) -> Done:
        """Type a command, whatever comes of it; `quiet` where it is only asked again."""
        argv = ["/bin/bash", "-c", f"cd {self.home} 2>/dev/null || cd /\n{command}"]
        environment = {
            "PATH": f"/usr/local/bin:{SYSTEM_PATH}", "HOME": "/root", "LC_ALL": "C.UTF-8",
            "PYTHONWARNINGS": "ignore", MARKER: str(self._folder),
            "DEBIAN_FRONTEND": "noninteractive", "TERM": "dumb",
        }
        began_s = time.monotonic()
        try:
            done = subprocess.run(
                self._root.wrap(argv, project=PROJECT, folder=self._folder), env=environment,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                timeout=timeout_s, check=False,
            )
        except subprocess.TimeoutExpired as late:
            said = (late.output or b"").decode("utf-8", "replace")
            raise HarnessError(f"{command}: not done in {timeout_s:.0f} s\n{said}") from None
        text = done.stdout.decode("utf-8", "replace")
        result = Done(done.returncode, text, time.monotonic() - began_s)
        if quiet:
            return result
        shown = " ".join(command.split())[:SHOWN_CHARS_MAX]
        failed = f", exit {result.code}" if result.code else ""
        print(f"  {result.seconds:6.1f} s  # {shown}{failed}", flush=True)
        return result

    def type(self, command: str, *, timeout_s: float = 300.0) -> str:
        """Type a command that must work; what it printed."""
        done = self.try_to(command, timeout_s=timeout_s)
        if done.code:
            raise HarnessError(f"{command} ended with {done.code}:\n{done.text}")
        return done.text

    def files_named(self, word: str) -> List[str]:
        """Every path of the host with a word in its name, but for caches and what a test brings."""
        found = self.type(f"find / -xdev -name '*{word}*' -not -path '/tmp/*' -not -path '/proc/*'")
        # the stand-in for systemctl has locks of its own
        kept = (f"{self.home}/", "/var/cache/apt/", "/var/log/", "/run/systemd/")
        return [
            path for path in found.splitlines()
            if not path.startswith(kept) and not leads_to_project(path)
        ]
