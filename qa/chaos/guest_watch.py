"""In the guest: what each drive and the kernel say of its cache, five times a second.

    python3 guest_watch.py OUT JOURNAL sda:scsi sdb:scsi nvme0n1:nvme

A line a look and drive: seconds, name, drive before, kernel, drive after, files of the journal.
It asks by ioctl(2), as sdparm and nvme do, and uses nothing of wcache.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import sys
import time
from typing import Optional

EACH_S = 0.2
SG_IO, SG_DXFER_FROM_DEV = 0x2285, -3
NVME_ADMIN_CMD, GET_FEATURES, WRITE_CACHE = 0xC0484E41, 0x0A, 6
MODE_SENSE_10, CACHING_PAGE, ANSWER_BYTES = 0x5A, 8, 64


class SgHeader(ctypes.Structure):
    """struct sg_io_hdr."""

    _fields_ = (
        ("interface_id", ctypes.c_int), ("dxfer_direction", ctypes.c_int),
        ("cmd_len", ctypes.c_ubyte), ("mx_sb_len", ctypes.c_ubyte),
        ("iovec_count", ctypes.c_ushort), ("dxfer_len", ctypes.c_uint),
        ("dxferp", ctypes.c_void_p), ("cmdp", ctypes.c_void_p), ("sbp", ctypes.c_void_p),
        ("timeout", ctypes.c_uint), ("flags", ctypes.c_uint), ("pack_id", ctypes.c_int),
        ("usr_ptr", ctypes.c_void_p), ("status", ctypes.c_ubyte),
        ("masked_status", ctypes.c_ubyte), ("msg_status", ctypes.c_ubyte),
        ("sb_len_wr", ctypes.c_ubyte), ("host_status", ctypes.c_ushort),
        ("driver_status", ctypes.c_ushort), ("resid", ctypes.c_int),
        ("duration", ctypes.c_uint), ("info", ctypes.c_uint),
    )


class NvmeCommand(ctypes.Structure):
    """struct nvme_admin_cmd."""

    _fields_ = (
        ("opcode", ctypes.c_ubyte), ("flags", ctypes.c_ubyte), ("rsvd1", ctypes.c_ushort),
        ("nsid", ctypes.c_uint), ("cdw2", ctypes.c_uint), ("cdw3", ctypes.c_uint),
        ("metadata", ctypes.c_uint64), ("addr", ctypes.c_uint64),
        ("metadata_len", ctypes.c_uint), ("data_len", ctypes.c_uint),
        ("cdw10", ctypes.c_uint), ("cdw11", ctypes.c_uint), ("cdw12", ctypes.c_uint),
        ("cdw13", ctypes.c_uint), ("cdw14", ctypes.c_uint), ("cdw15", ctypes.c_uint),
        ("timeout_ms", ctypes.c_uint), ("result", ctypes.c_uint),
    )


def scsi_on(descriptor: int) -> Optional[bool]:
    """WCE of the caching page; None where the drive does not answer."""
    command = (ctypes.c_ubyte * 10)(
        MODE_SENSE_10, 8, CACHING_PAGE, 0, 0, 0, 0, 0, ANSWER_BYTES, 0
    )
    answer, sense = (ctypes.c_ubyte * ANSWER_BYTES)(), (ctypes.c_ubyte * 32)()
    header = SgHeader(
        interface_id=ord("S"), dxfer_direction=SG_DXFER_FROM_DEV, cmd_len=10, mx_sb_len=32,
        dxfer_len=ANSWER_BYTES, dxferp=ctypes.addressof(answer), cmdp=ctypes.addressof(command),
        sbp=ctypes.addressof(sense), timeout=5000,
    )
    fcntl.ioctl(descriptor, SG_IO, header)
    if header.status or header.host_status:
        return None  # a unit attention: the next look has it
    page = 8 + (answer[6] << 8 | answer[7])
    return bool(answer[page + 2] & 4)


def nvme_on(descriptor: int) -> Optional[bool]:
    """The feature of the volatile write cache."""
    command = NvmeCommand(opcode=GET_FEATURES, cdw10=WRITE_CACHE)
    if fcntl.ioctl(descriptor, NVME_ADMIN_CMD, command) != 0:
        return None
    return bool(command.result & 1)


def files(journal: str) -> int:
    """How many entries there are."""
    try:
        return sum(name.endswith(".json") for name in os.listdir(journal))
    except OSError:
        return 0


def main(out: str, journal: str, *drives: str) -> None:
    """Look until killed."""
    asked = []
    for drive in drives:
        name, kind = drive.split(":")
        path = "/dev/" + (name if kind == "scsi" else name.rpartition("n")[0])
        # not for writing: closing it would have udev read the mode again
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        asked.append((name, scsi_on if kind == "scsi" else nvme_on, descriptor))
    with open(out, "a", encoding="ascii", buffering=1) as log:
        while True:
            for name, is_on, descriptor in asked:
                try:
                    before = is_on(descriptor)
                    with open(f"/sys/block/{name}/queue/write_cache", encoding="ascii") as file:
                        kernel = file.read().strip()
                    count = files(journal)
                    after = is_on(descriptor)
                except OSError as error:
                    log.write(f"{time.time():.1f} {name} error {error.errno}\n")
                    continue
                words = [{True: "on", False: "off", None: "?"}[each] for each in (before, after)]
                view = kernel.replace(" ", "-")
                log.write(f"{time.time():.1f} {name} {words[0]} {view} {words[1]} {count}\n")
            time.sleep(EACH_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
