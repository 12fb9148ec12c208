"""A real `wcache-probe` process on simulated drives, with a mgr in a folder.

Run as a program it is that process: `main` of simulated drives with a link to the folder in
`FAKE_MGR` and, with a number N in front, a hook that kills it with SIGKILL after step N of a
change.  What it starts to restore an entry is this program too.  A change of a drive that a file
in `FAKE_HANGS` names hangs until the file is removed, and so does each fsync for a file `fsync`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Optional, Sequence

from wcache_probe.restoring.restorer import Started, start_command

HERE = Path(__file__).resolve()


class ProbeProcess:
    """One probe with its folders below `root`; starts again on what it left.

    `packages` are folders with packages of another version, which it starts with.
    """

    packages: Sequence[str] = ()

    def __init__(self, root: Path, drives: str) -> None:
        self.mgr_folder = root / "mgr"
        self.mgr_folder.mkdir(parents=True)
        self.state = root / "state"
        self.run_dir = root / "run"
        self.drive_file = root / "drives.toml"
        self.drive_file.write_text(drives)
        self.log = root / "probe.log"
        self.hangs = root / "hangs"
        self.hangs.mkdir()
        self.process: Optional[subprocess.Popen] = None

    def words(self, command: str) -> list:
        folders = ["--state-dir", str(self.state), "--run-dir", str(self.run_dir)]
        return [command, *folders, "--hostname", "sim1"]

    def program(self, number: int = 0) -> list:
        """This program on its drives; with a number it is killed after that step."""
        return [sys.executable, str(HERE), str(number), str(self.drive_file)]

    def start(self, crash_after: int = 0) -> None:
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*self.program(crash_after), *self.words("run")],
                env=self.environment(), stdout=log, stderr=log, stdin=subprocess.DEVNULL,
            )

    def environment(self) -> dict:
        return {
            **os.environ, "PYTHONPATH": os.pathsep.join([*self.packages, *sys.path]),
            "FAKE_MGR": str(self.mgr_folder), "FAKE_HANGS": str(self.hangs),
        }

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(timeout=20)

    def stop(self, seconds: float = 20.0) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=seconds)

    def wait(self) -> int:
        """The return code, once it has ended by itself."""
        assert self.process is not None
        return self.process.wait(timeout=20)

    def command(self, *words: str) -> subprocess.CompletedProcess:
        """Another command of the probe, with no mgr."""
        return subprocess.run(
            [*self.program(), *words], env=self.environment(), capture_output=True, text=True,
            timeout=30, check=False,
        )

    def restore_all(self, *more: str) -> subprocess.CompletedProcess:
        return self.command(*self.words("restore"), "--all", *more)


def _crash_after(number: int, step: object) -> None:
    drive = getattr(step, "drive", None)
    while drive is not None and (HANGS / drive.drive_id).exists():
        time.sleep(0.01)
    if number == CRASH_AFTER:
        os.kill(os.getpid(), signal.SIGKILL)


def _start_this(words: Sequence[str]) -> Started:
    return start_command([sys.executable, str(HERE), *sys.argv[1:3], *words])


def _fsync(fd: int) -> None:
    while (HANGS / "fsync").exists():
        time.sleep(0.01)


if __name__ == "__main__":
    HANGS = Path(os.environ["FAKE_HANGS"])
    os.fsync = _fsync
    from fake_mgr import FolderMgr
    from wcache_sim.probe import main

    CRASH_AFTER = int(sys.argv[1])
    sys.exit(main(sys.argv[2:], link=FolderMgr(Path(os.environ["FAKE_MGR"])),
                  after_step=_crash_after, start=_start_this))
