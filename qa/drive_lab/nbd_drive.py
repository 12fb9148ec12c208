"""nbdkit plugin: serves one modelled drive.  Run by nbdkit, never imported.

Keys on nbdkit's command line: ``spec`` (JSON written by the lab) and ``control`` (a unix
socket on which the host says ``cut``).  ``can_fua`` is native because a drive whose cache is
off is one that gets every write with FUA: emulated, it would come as write and flush.
"""

from __future__ import annotations

import ctypes
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import nbdkit  # type: ignore[import-not-found]

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "qa"), str(ROOT / "osd_probe"), str(ROOT / "mgr_module")]

from drive_lab.backend import BackendSpec, open_drive  # noqa: E402
from drive_lab.modelled_drive import ModelledDrive  # noqa: E402

API_VERSION = 2
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
    # threads inherit it; the default of 50 us would be added to every modelled time
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    drives.append(open_drive(BackendSpec.read(Path(settings["spec"]))))
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(settings["control"])
    listener.listen(4)
    threading.Thread(target=serve_control, args=(listener,), daemon=True).start()


def serve_control(listener: socket.socket) -> None:
    while True:
        connection, _ = listener.accept()
        with connection:
            command = connection.recv(64)
            if command == b"cut":
                connection.sendall(str(drives[0].power_cut()).encode())


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
