"""nbdkit plugin: serves one modelled drive.  Run by nbdkit, never imported.

Keys on nbdkit's command line: ``spec`` (JSON written by the lab) and ``control`` (a unix
socket on which the host says ``cut``, ``off`` or ``on``).  ``can_fua`` is native because a
drive whose cache is off is one that gets every write with FUA: emulated, it would come as
write and flush.
"""

from __future__ import annotations

import ctypes
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import nbdkit  # type: ignore[import-not-found]

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "qa"), str(ROOT / "osd_probe"), str(ROOT / "mgr_module")]

from drive_lab.drives.backend import BackendSpec, open_drive  # noqa: E402
from drive_lab.drives.modelled_drive import ModelledDrive  # noqa: E402

API_VERSION = 2
PR_SET_PDEATHSIG = 1
PR_SET_TIMERSLACK = 29

settings: dict[str, str] = {}
drives: list[ModelledDrive] = []


def config(key: str, value: str) -> None:
    settings[key] = value


def config_complete() -> None:
    if set(settings) != {"spec", "control"}:
        raise RuntimeError("nbd_drive needs spec=FILE control=SOCKET and nothing else")


def thread_model() -> Any:
    return nbdkit.THREAD_MODEL_PARALLEL


def after_fork() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    # threads inherit it; the default of 50 us would be added to every modelled time
    libc.prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    spec = BackendSpec.read(Path(settings["spec"]))
    # nbdkit has set it to SIGTERM, also without --exit-with-parent (seen in 1.32 with strace)
    libc.prctl(PR_SET_PDEATHSIG, 0 if spec.outlives_parent else signal.SIGKILL, 0, 0, 0)
    drives.append(open_drive(spec))
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(settings["control"])
    listener.listen(4)
    threading.Thread(target=serve_control, args=(listener,), daemon=True).start()


def serve_control(listener: socket.socket) -> None:
    drive = drives[0]
    commands = {b"cut": drive.power_cut, b"off": drive.power_off, b"on": drive.power_on}
    while True:
        connection, _ = listener.accept()
        with connection:
            command = commands.get(connection.recv(64))
            if command is not None:
                connection.sendall(str(command()).encode())


def open(readonly: bool) -> int:
    return 1


def get_size(handle: int) -> int:
    return drives[0].size_bytes


def can_fua(handle: int) -> Any:
    return nbdkit.FUA_NATIVE


def can_flush(handle: int) -> bool:
    return True


def can_multi_conn(handle: int) -> bool:
    return False


def pread(handle: int, buffer: bytearray, offset: int, flags: int) -> None:
    buffer[:] = drives[0].read(offset, len(buffer))


def pwrite(handle: int, buffer: bytearray, offset: int, flags: int) -> None:
    drives[0].write(offset, bytes(buffer), fua=bool(flags & nbdkit.FLAG_FUA))


def flush(handle: int, flags: int) -> None:
    drives[0].flush()
