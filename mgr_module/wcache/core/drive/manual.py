"""The commands an admin would type to make a change by hand, for each transport.

Shown beside every recommendation and planned change, so that nothing here is magic.
"""

from __future__ import annotations

import shlex
from typing import Mapping, Sequence, Tuple

from ..model import CacheMode, DriveReport, Transport
from .safety import may_rest_on


def commands(drive: DriveReport, mode: CacheMode) -> Tuple[str, ...]:
    """Shell commands for the drive's host, in order; device names are quoted.

    SCSI and SATA are pinned first: "temporary write back" changes the kernel's belief
    only (drivers/scsi/sd.c), so the kernel goes on flushing whatever the drive does.
    """
    dev = shlex.quote(drive.dev_name)
    on = mode is CacheMode.WRITE_BACK
    if drive.transport.by_mode_page:
        verb = "--set=WCE" if on else "--clear=WCE"
        return (pin(dev), f"sdparm {verb} /dev/{dev}")
    if drive.transport in (Transport.SATA, Transport.SATA_HBA):
        return (pin(dev), f"hdparm -W{int(on)} /dev/{dev}")
    if drive.transport is Transport.NVME:
        return (f"nvme set-feature --feature-id=6 --value={int(on)} /dev/{_controller(drive)}",)
    if drive.transport is Transport.LOOP:
        return (f'echo "{mode.value}" > /sys/block/{dev}/queue/write_cache',)
    return ()


def by_hand(
    drive: DriveReport, mode: CacheMode, lost: Mapping[str, str] = {}
) -> Tuple[str, ...]:
    """All of a change by hand: make it, read it back, have it last, and undo it.

    Each line is a command with a comment that says what it is for.  There are none where what is
    acknowledged may not rest on the drive then.
    """
    made = commands(drive, mode)
    on = mode is CacheMode.WRITE_BACK
    if not made or (on and may_rest_on(drive, lost, on=True, pinned_first=True)):
        return ()
    lines = [*made, *(f"{line}  # read it back" for line in _read_back(drive))]
    saving = _saving(drive, mode)
    if saving:
        lines.append(f"{saving}  # have it last over a power cycle, once it has proven itself")
    elif drive.transport is not Transport.LOOP:
        lines.append(
            "ceph wcache plan --persist  # have it last: the drive saves no mode of its own, so "
            "a udev rule sets it at each boot"
        )
    before = drive.mode
    if before is not None and before is not mode:
        undo = _saving(drive, before) or commands(drive, before)[-1]
        lines.append(f"{undo}  # undo it")
    return tuple(lines)


def _read_back(drive: DriveReport) -> Tuple[str, ...]:
    """What shows the drive's side of the cache, and the kernel's."""
    dev = shlex.quote(drive.dev_name)
    view = f"cat /sys/block/{dev}/queue/write_cache"
    if drive.transport.by_mode_page:
        return (f"sdparm --get=WCE /dev/{dev}", view)
    if drive.transport is Transport.SATA:
        return (f"hdparm -W /dev/{dev}", view)
    if drive.transport is Transport.NVME:
        return (f"nvme get-feature --feature-id=6 /dev/{_controller(drive)}", view)
    return (view,)


def _saving(drive: DriveReport, mode: CacheMode) -> str:
    """What makes a mode last where the drive itself saves it; '' where it does not."""
    dev, on = shlex.quote(drive.dev_name), mode is CacheMode.WRITE_BACK
    page = drive.state.page
    if page.saved is None or page.by_rule:
        return ""
    if drive.transport.by_mode_page:
        return f"sdparm --save {'--set=WCE' if on else '--clear=WCE'} /dev/{dev}"
    if drive.transport is Transport.NVME:
        return f"nvme set-feature --feature-id=6 --value={int(on)} --save /dev/{_controller(drive)}"
    return ""


def _controller(drive: DriveReport) -> str:
    return shlex.quote(drive.dev_name.rpartition("n")[0] or drive.dev_name)


def turn_off(hostname: str, drives: Sequence[DriveReport]) -> str:
    """What to do about drives that lose acknowledged writes, in words with the exact commands."""
    lines = [line for drive in drives for line in commands(drive, CacheMode.WRITE_THROUGH)]
    where = f"on {hostname}" if hostname else "on its host"
    return f"turn the cache off {where}: `{'; '.join(lines)}`" if lines else "turn the cache off"


def pin(dev: str) -> str:
    """What has the kernel flush a SCSI or SATA disk, whatever its cache is."""
    return (
        f'for f in /sys/block/{dev}/device/scsi_disk/*/cache_type; do '
        'echo "temporary write back" > "$f"; done'
    )
