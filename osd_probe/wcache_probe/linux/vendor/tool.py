"""Runs a tool that only reads: bounded in time and output, with no shell and no terminal.

The probe is root, so it runs no program that another user may change or put in place.
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from contextlib import suppress
from typing import Callable, Optional, Sequence

from wcache.core.errors import NotReadyError

from ... import safe_files

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

    Raises NotReadyError where others may change it, and where it does not start, takes too long
    or prints too much.
    """
    name = os.path.basename(command[0])
    others = _why_others_change(command[0])
    if others:
        raise NotReadyError(f"{name} is not run: {others}")
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


def _why_others_change(program: str) -> str:
    """Who else may decide what a program does; "" where only root and we may.

    What cannot be looked at does not start either.
    """
    try:
        handle = safe_files.find(program, safe_files.own_users())
    except safe_files.UntrustedError as error:
        return str(error.strerror)
    except OSError:
        return ""
    with safe_files.closing_fd(handle):
        mode = os.fstat(handle).st_mode
    by_others = mode & (stat.S_IWGRP | stat.S_IWOTH)
    return f"others may write to {program}: chmod go-w takes that from them" if by_others else ""
