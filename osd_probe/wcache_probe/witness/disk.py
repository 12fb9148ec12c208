"""`wcache-probe witness` on the drive's host: writes as an OSD does, then checks what is lost."""

from __future__ import annotations

import argparse
import mmap
import os
import random
import secrets
import socket
import time
from contextlib import closing
from typing import Callable, Tuple

from wcache.core.drive.manual import pin, turn_off
from wcache.core.drive.safety import not_flushing, pinnable, refused
from wcache.core.errors import ConflictError, RefusalKind, RefusedError
from wcache.core.host_report import PowerCut
from wcache.core.model import CacheMode, DriveReport, Transport
from wcache.core.text import named, ticked

from ..evidence import POWER_CUT, EvidenceFolder
from ..linux.block.host_files import HostFiles
from ..linux.host import LinuxDriveHost
from ..matrix.scratch import MARK, Scratch, find
from ..safe_files import failure
from ..stop_signal import StopSignal
from .wire import (
    BATCH_MAX,
    BLOCK_BYTES,
    BLOCKS_MAX,
    RUN_ID_BYTES,
    Channel,
    WitnessRun,
    Written,
    check_run,
    encode,
    judge,
    parse_address,
    parse_token,
    place_of,
    read_log,
)

ANSWER_S = 30.0
CHECK_S = 1.0  # how often it is looked whether somebody else has taken the device
SAY_S = 10.0


def write(
    scratch: Scratch, *, to: str, token: str, hostname: str, stop: StopSignal,
    say: Callable[[str], None],
) -> int:
    """Write until stopped or the power is gone; 0 where at least one write was acknowledged."""
    blocks = BLOCKS_MAX
    while blocks * BLOCK_BYTES > scratch.span:
        blocks //= 2
    run = WitnessRun(
        secrets.token_hex(RUN_ID_BYTES), hostname, scratch.files.boot_id, scratch.drive.drive_id,
        scratch.drive.drive_model, scratch.drive.mode, blocks, time.time(),
    )
    refuse_dropping(scratch.drive)
    address, key = parse_address(to), parse_token(token)
    with scratch.held():
        scratch.claim()
        with failure(f"{to} does not answer", "run `wcache-probe witness listen` there first"):
            connection = socket.create_connection(address, timeout=ANSWER_S)
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


def refuse_dropping(drive: DriveReport) -> None:
    """Raise RefusedError where flushes do not reach a drive whose cache is on."""
    dropping = not_flushing(drive.state)
    if not dropping or drive.mode is CacheMode.WRITE_THROUGH:
        return
    cure = turn_off("", [drive])
    if pinnable(drive.transport):
        cure = f"pin the drive first: {ticked(pin(drive.dev_name))}"
        cure += ", then load the layers above it anew" if dropping != ("disk",) else ""
    raise RefusedError(
        f"the kernel drops flushes at {', '.join(dropping)}, so what is lost would not be the "
        "drive's fault", cure,
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


PIECE_BYTES = 2**20
NUMBERS_SHOWN = 8


def check(scratch: Scratch, log: str) -> Tuple[PowerCut, Tuple[int, ...]]:
    """Compare a drive with what a witness kept; nothing is written to the drive."""
    run, acknowledged = read_log(log)
    if run.drive_id != scratch.drive.drive_id:
        raise ConflictError(
            f"the log is of {run.drive_id}, and {scratch.device.name} is "
            f"{scratch.drive.drive_id}", "give the drive that was written to",
        )
    if not acknowledged:
        raise RefusedError(
            "no write was acknowledged in that test",
            "start both sides again, and pull the plug once the writer counts writes",
        )
    if scratch.start + run.blocks * BLOCK_BYTES > scratch.start + scratch.span:
        raise ConflictError(
            f"the log has more blocks than {scratch.path}",
            "give the same device, partition or LV that was given to `witness write`",
        )
    with scratch.held(), scratch.opened_to_read() as fd:
        head = scratch.read(fd, 0, BLOCK_BYTES)
        if head != MARK and any(head):
            raise RefusedError(
                f"somebody else has written to {scratch.path} since, so this test shows nothing",
                "find out what did; then make it blank and pull the plug in a new test, with "
                "`witness check` before anything else uses the drive",
            )
        size = run.blocks * BLOCK_BYTES
        region = b"".join(
            scratch.read(fd, scratch.start + at, min(PIECE_BYTES, size - at))
            for at in range(0, size, PIECE_BYTES)
        )
    checked, lost = judge(
        check_run(run), acknowledged, run.blocks,
        lambda place: region[place * BLOCK_BYTES : (place + 1) * BLOCK_BYTES],
    )
    now = scratch.files.boot_id
    return PowerCut(
        run.run_id, run.drive_id, run.drive_model, run.mode, acknowledged, checked,
        len(lost), time.time(), bool(run.boot_id and now and run.boot_id != now),
    ), lost


def tell(cut: PowerCut, numbers: Tuple[int, ...], out: Callable[[str], None]) -> None:
    """The answer in words."""
    mode = cut.mode.value if cut.mode else "an unknown cache mode"
    out(f"{cut.drive_model} ({cut.drive_id}), in {mode}:")
    lost = f"{cut.lost} LOST" if cut.lost else "none lost"
    out(f"{cut.acknowledged} writes acknowledged, the last {cut.checked} of them checked: {lost}")
    if numbers:
        out(f"lost numbers: {named(list(map(str, numbers)), NUMBERS_SHOWN)}")
        out(f"this drive model must not be used with its cache in {mode}: it acknowledges what "
            "it has not kept; next: `ceph wcache drive-model ls` shows which drives are of it")
    elif not cut.host_booted:
        out("the host was not booted since: this is a result only if the drive itself lost its "
            "power while the writer ran; if it did not, start again and pull the plug")


def witness(
    options: argparse.Namespace, host: Callable[[argparse.Namespace], LinuxDriveHost],
    say: Callable[[str], None],
) -> int:
    """0 where a run was witnessed or nothing is lost, 1 where not."""
    if options.verb == "listen":
        from .wire import listen

        return listen(options.at, options.log, options.idle, say)
    # a mode is not changed, so no boot pin and no rule is asked for
    scratch = find(
        HostFiles(), host(options), options.device, span_max=BLOCKS_MAX * BLOCK_BYTES
    )
    if options.verb == "write":
        refuse_shared(scratch.drive)
        return write(
            scratch, to=options.to, token=options.token, hostname=options.hostname,
            stop=StopSignal().install(), say=say,
        )
    cut, numbers = check(scratch, options.log)
    tell(cut, numbers, print)
    path = EvidenceFolder(options.state_dir).put(f"{POWER_CUT}{cut.run_id}", cut)
    print(f"kept in {path}; the probe of this host reports it to the mgr")
    return 1 if cut.lost else 0
