"""Runs a tool that only reads: bounded in time and output, with no shell and no terminal."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from typing import Callable, Optional, Sequence

from wcache.core.errors import NotReadyError

OUTPUT_BYTES_MAX = 4_000_000  # storcli: about 6 KB for each drive
POLL_S = 0.02
# Vendors put their tools beside the usual places.
PLACES = (
    "/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/sbin", "/usr/local/bin",
    "/opt/MegaRAID/storcli", "/opt/MegaRAID/perccli", "/opt/lsi/storcli",
    "/opt/MegaRAID/storcli2", "/opt/MegaRAID/perccli2",
    "/opt/smartstorageadmin/ssacli/bin", "/usr/Arcconf", "/opt/Arcconf",
)

Run = Callable[[Sequence[str], float], str]
"""Runs a command for so many seconds; its output, or NotReadyError."""


def find(name: str, path: str = os.pathsep.join(PLACES)) -> Optional[str]:
    """Where a tool is; None where it is not installed."""
    return shutil.which(name, path=path)


def run(command: Sequence[str], seconds_max: float) -> str:
    """What the tool prints; its exit code says little (smartctl: a bit for each finding).

    Raises NotReadyError where it does not start, takes too long or prints too much.
    """
    name = os.path.basename(command[0])
    with tempfile.TemporaryFile() as output:
        try:
            child = subprocess.Popen(
                list(command), stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.DEVNULL, cwd="/", start_new_session=True,
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"},
            )
        except OSError as error:
            raise NotReadyError(f"{name} does not start ({error.strerror})") from None
        try:
            ends_at_s = time.monotonic() + seconds_max
            while child.poll() is None:
                if os.fstat(output.fileno()).st_size > OUTPUT_BYTES_MAX:
                    raise NotReadyError(f"{name} prints more than {OUTPUT_BYTES_MAX} bytes")
                if time.monotonic() > ends_at_s:
                    raise NotReadyError(f"{name} took more than {seconds_max:g} s")
                time.sleep(POLL_S)
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)  # a session of its own
                # one that hangs in the kernel cannot be waited for
                with suppress(subprocess.TimeoutExpired):
                    child.wait(1.0)
        output.seek(0)
        text = output.read(OUTPUT_BYTES_MAX + 1)
    if len(text) > OUTPUT_BYTES_MAX:
        raise NotReadyError(f"{name} prints more than {OUTPUT_BYTES_MAX} bytes")
    return text.decode("utf-8", "replace")
