"""`wcache-probe matrix` as a process on a real loop device, with folders of its own."""

import os
import subprocess
import sys
import time
from pathlib import Path

from wcache.core import codec
from wcache.core.experiment.matrix import Matrix


class Bench:
    """A blank loop device, and the command on it with folders of its own."""

    def __init__(self, root, name, with_fio=False):
        self.root = root
        self.with_fio = with_fio
        (root / "state").mkdir()
        self.path = f"/dev/{name}"
        self.backing = root / "scratch.img"
        self.out = root / "matrix.json"
        self.cache = Path(f"/sys/block/{name}/queue/write_cache")

    @property
    def view(self):
        return self.cache.read_text().strip()

    def content(self):
        """What is on the device.

        Another program that looks at all devices may hold it open, and then what was written
        is not in its file when the writer closes it.
        """
        with open(self.path, "rb") as device:
            os.fsync(device.fileno())
        return self.backing.read_bytes()

    def words(self, verb, *more):
        folders = ["--state-dir", str(self.root / "state"), "--run-dir", str(self.root / "run")]
        data = ["--osd-data", str(self.root / "osds" / "*"), "--hostname", "h1"]
        return [sys.executable, "-m", "wcache_probe", verb, *folders, *data, *more]

    def start(self, *more):
        words = ["--scratch", self.path, "--seconds", "0.1", "--out", str(self.out), *more]
        return subprocess.Popen(
            # whoever starts the tests by nohup makes children that ignore SIGHUP
            ["/usr/bin/env", "--default-signal=HUP", *self.words("matrix", *words)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env=self.environment(),
        )

    def run(self, *more):
        """Exit code, output and errors of a matrix."""
        process = self.start(*more)
        out, error = process.communicate(timeout=120)
        return process.returncode, out, error

    def environment(self):
        path = os.environ["PATH"] if self.with_fio else str(self.root / "nothing here")
        return {**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join(sys.path)}

    def reach(self, process, view):
        """Wait until the kernel view is this one."""
        deadline = time.monotonic() + 60
        while self.view != view:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.005)

    def status(self, *more):
        words = self.words("status", *more)
        start = words.index("--osd-data")  # it and --hostname are not of this command
        done = subprocess.run(
            words[:start] + words[start + 4 :], env=self.environment(), capture_output=True,
            text=True, timeout=60, check=True,
        )
        return done.stdout

    def restore(self):
        return subprocess.run(
            self.words("restore", "--all"), env=self.environment(), capture_output=True,
            text=True, timeout=60, check=False,
        )

    def found(self):
        text = self.out.read_text()
        return codec.loads(Matrix, text, bytes_max=10**7, what="matrix")
