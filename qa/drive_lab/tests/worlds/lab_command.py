"""``make lab`` as a process of its own, what it said and its result, for the tests of it."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from drive_lab.lab import PROJECT

LOADS = {
    "depth1": "osd_bench_depth1",
    "batch": "osd_bench_batch",
    "traffic": "osd_traffic",
}
SAME = "no material difference"
END_S = 7200
LAST_S = 10


class LabCommand:
    """One run of the command, in a temporary folder of its own."""

    def __init__(self, drives, folder, release, *words):
        # short: socket paths end at 107 bytes
        self.temporary = Path(tempfile.mkdtemp(prefix="wl.", dir="/tmp"))
        self.out = folder
        self.said = []
        self.network = 0
        paths = ("qa", "osd_probe", "mgr_module", "vstart-tests")
        self.process = subprocess.Popen(
            [
                # it ends, and cleans up, with us
                "setpriv", "--pdeathsig", "TERM", "--",
                sys.executable, "-m", "drive_lab", str(drives), str(folder),
                "--release", str(release), *words,
            ],
            cwd=PROJECT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,
            env={
                **os.environ,
                "TMPDIR": str(self.temporary),
                "PYTHONPATH": ":".join(str(PROJECT / path) for path in paths),
                "PYTHONUNBUFFERED": "1",
            },
        )  # fmt: skip

    def read_until(self, words):
        """Read what it says up to these words, or to its end."""
        for line in self.process.stdout:
            self.said.append(line)
            if "mon and mgr up" in line:
                self.network = os.stat(f"/proc/{self.process.pid}/ns/net").st_ino
            if words in line:
                return

    def end(self):
        """Its exit code."""
        try:
            self.read_until("\0")
            return self.process.wait(timeout=END_S)
        finally:
            if self.process.poll() is None:
                self.process.kill()

    def left_behind(self):
        """Files, loop devices, and processes in its network, which lives as long as they do.

        An analysis under way ends when it finds its killed mgr gone: that takes it a moment.
        """
        deadline = time.monotonic() + LAST_S
        while self._left() and time.monotonic() < deadline:
            time.sleep(0.2)
        left = self._left()
        if not left:
            self.temporary.rmdir()
        return left

    def _left(self):
        assert self.network, "".join(self.said)
        assert self.network != os.stat("/proc/self/ns/net").st_ino
        left = [str(path) for path in self.temporary.iterdir()]
        for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
            if str(self.temporary) in backing.read_text():
                left.append(str(backing))
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.stat(f"/proc/{pid}/ns/net").st_ino == self.network:
                    left.append(Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " "))
            except OSError:
                continue  # it has ended
        return left


class Outcome:
    """What a lab that ended well found."""

    def __init__(self, command, loads):
        self.said = "".join(command.said)
        self.loads = loads
        self.left = command.left_behind()
        self.result = json.loads((command.out / "result.json").read_text())
        self.drives = self.result["drives"]

    def load(self, drive, load):
        (row,) = [row for row in drive["loads"] if row["load_point"] == LOADS[load]]
        return row
