"""`wcache-probe witness write`: writes as an OSD does, and tells each acknowledgement at once."""

from __future__ import annotations

import mmap
import os
import random
import secrets
import socket
import time
from contextlib import closing
from typing import Callable

from wcache.core.drive.safety import not_flushing, refused
from wcache.core.errors import RefusalKind, RefusedError, StorageError
from wcache.core.model import CacheMode, DriveReport, Transport

from ..linux.block.host_files import HostFiles, read_text
from ..matrix.scratch import Scratch
from ..stop_signal import StopSignal
from .blocks import BATCH_MAX, BLOCK_BYTES, BLOCKS_MAX, RUN_ID_BYTES, Written, encode, place_of
from .wire import Channel, WitnessRun, check_run, parse_address, parse_token

ANSWER_S = 30.0
CHECK_S = 1.0  # how often it is looked whether somebody else has taken the device
SAY_S = 10.0


def write(
    scratch: Scratch, *, to: str, token: str, hostname: str, stop: StopSignal,
    say: Callable[[str], None],
) -> int:
    """Write until stopped or the power is gone; 0 where at least one write was acknowledged."""
    run = WitnessRun(
        secrets.token_hex(RUN_ID_BYTES), hostname, boot_id(scratch.files), scratch.drive.drive_id,
        scratch.drive.drive_model, scratch.drive.mode, _blocks(scratch), time.time(),
    )
    dropping = not_flushing(scratch.drive.state)
    if dropping and scratch.drive.mode is not CacheMode.WRITE_THROUGH:
        raise RefusedError(
            f"the kernel drops flushes at {', '.join(dropping)}, so what is lost would not be "
            "the drive's fault",
            "pin the drive first: see WCACHE_UNSAFE in doc/troubleshooting.md",
        )
    address, key = parse_address(to), parse_token(token)
    with scratch.held():
        scratch.claim()
        try:
            connection = socket.create_connection(address, timeout=ANSWER_S)
        except OSError as error:
            raise StorageError(
                f"{to} does not answer ({error.strerror or error})",
                "run `wcache-probe witness listen` there first",
            ) from None
        with closing(connection):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            channel = Channel(connection, key)
            channel.wait_at_most(ANSWER_S)
            channel.send_run(run)
            channel.receive_number(b"kept")
            return _write_all(scratch, channel, run, stop, say)


def refuse_shared(drive: DriveReport) -> None:
    """Raise RefusedError where something else uses the drive, or may do so and is not seen.

    An exclusive open is no proof: who opened the device before, and not exclusively, keeps it.
    A loop device is a file of whoever made it.
    """
    permitted = set(RefusalKind) - {RefusalKind.SHARED, RefusalKind.UNSEEN}
    if drive.transport is Transport.LOOP:
        permitted.add(RefusalKind.UNSEEN)
    why = refused(drive, permitted)
    if why:
        raise RefusedError(
            f"{drive.dev_name}: {why}; the data of others would be overwritten, and nothing was "
            "written",
            "end that, or give a drive that nothing else uses",
        )


def _write_all(
    scratch: Scratch, channel: Channel, run: WitnessRun, stop: StopSignal,
    say: Callable[[str], None],
) -> int:
    run_id = check_run(run)
    draw = random.Random(run.run_id)
    number = 0
    check_at = say_at = time.monotonic()
    with scratch.opened() as fd, mmap.mmap(-1, BLOCK_BYTES) as block:
        while not stop.is_set():
            if time.monotonic() >= check_at:
                scratch.check()
                check_at = time.monotonic() + CHECK_S
            if time.monotonic() >= say_at:
                say(f"{number} writes acknowledged; pull the plug at any time")
                say_at = time.monotonic() + SAY_S
            batch = range(number, number + draw.randint(1, BATCH_MAX))
            with scratch.writing(f" after {number} were acknowledged"):
                for one in batch:
                    place = place_of(one, run.blocks)
                    block[:] = encode(Written(run_id, one, place))
                    os.pwritev(fd, [block], scratch.start + place * BLOCK_BYTES)
                os.fdatasync(fd)
            number = batch.stop
            # the next batch waits for it: no more than one is ever beyond what is witnessed
            channel.send_number(b"acknowledged", number)
            channel.receive_number(b"kept")
    say(f"stopped after {number} acknowledged writes; the plug was not pulled, so this test "
        "shows nothing; next: start both sides again, and pull it while this writes")
    return 0 if number else 1


def _blocks(scratch: Scratch) -> int:
    blocks = BLOCKS_MAX
    while blocks * BLOCK_BYTES > scratch.span:
        blocks //= 2
    return blocks


def boot_id(files: HostFiles) -> str:
    """Which boot of the host this is; empty where the kernel does not say."""
    return read_text(os.path.join(files.proc, "sys/kernel/random/boot_id")) or ""
