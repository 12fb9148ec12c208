"""`wcache-probe witness`, and its `check`: which acknowledged writes a drive has lost."""

from __future__ import annotations

import argparse
import time
from typing import Callable, Tuple

from wcache.core.errors import ConflictError, RefusedError
from wcache.core.host_report import PowerCut
from wcache.core.text import named

from ..evidence.folder import EvidenceFolder
from ..linux.block.host_files import HostFiles
from ..linux.real_host import linux_host
from ..matrix.scratch import MARK, Scratch, find
from ..stop_signal import StopSignal
from .blocks import BLOCK_BYTES, BLOCKS_MAX, Judgement, judge
from .listen import read_log
from .wire import check_run
from .write import boot_id, refuse_shared, write

PIECE_BYTES = 2**20
NUMBERS_SHOWN = 8


def check(scratch: Scratch, log: str) -> Tuple[PowerCut, Judgement]:
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
    found = judge(
        check_run(run), acknowledged, run.blocks,
        lambda place: region[place * BLOCK_BYTES : (place + 1) * BLOCK_BYTES],
    )
    now = boot_id(scratch.files)
    return PowerCut(
        run.run_id, run.drive_id, run.drive_model, run.mode, found.acknowledged, found.checked,
        len(found.lost), time.time(), bool(run.boot_id and now and run.boot_id != now),
    ), found


def tell(cut: PowerCut, found: Judgement, out: Callable[[str], None]) -> None:
    """The answer in words."""
    mode = cut.mode.value if cut.mode else "an unknown cache mode"
    out(f"{cut.drive_model} ({cut.drive_id}), in {mode}:")
    lost = f"{cut.lost} LOST" if cut.lost else "none lost"
    out(f"{cut.acknowledged} writes acknowledged, the last {cut.checked} of them checked: {lost}")
    if found.lost:
        out(f"lost numbers: {named(list(map(str, found.lost)), NUMBERS_SHOWN)}")
        out(f"this drive model must not be used with its cache in {mode}: it acknowledges what "
            "it has not kept; next: `ceph wcache drive-model ls` shows which drives are of it")
    elif not cut.host_booted:
        out("the host was not booted since: this is a result only if the drive itself lost its "
            "power while the writer ran; if it did not, start again and pull the plug")


def witness(options: argparse.Namespace, say: Callable[[str], None]) -> int:
    """0 where a run was witnessed or nothing is lost, 1 where not."""
    if options.verb == "listen":
        from .listen import listen

        return listen(options.at, options.log, options.idle, say)
    # a mode is not changed, so no boot pin and no rule is asked for
    host = linux_host(options)
    scratch = find(HostFiles(), host, options.device, span_max=BLOCKS_MAX * BLOCK_BYTES)
    if options.verb == "write":
        refuse_shared(scratch.drive)
        return write(
            scratch, to=options.to, token=options.token, hostname=options.hostname,
            stop=StopSignal().install(), say=say,
        )
    cut, found = check(scratch, options.log)
    tell(cut, found, print)
    path = EvidenceFolder(options.state_dir).put_power_cut(cut)
    print(f"kept in {path}; the probe of this host reports it to the mgr")
    return 1 if cut.lost else 0
