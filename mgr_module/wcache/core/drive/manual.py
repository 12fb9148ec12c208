"""The commands an admin would type to make a change by hand, for each transport.

Shown beside every recommendation and planned change, so that nothing here is magic.
"""

from __future__ import annotations

from typing import Mapping, Optional, Sequence, Tuple

from ..model import CacheMode, DriveReport, Transport
from ..text import CommandLine, chained, command, commented, ticked
from .safety import may_rest_on, pinnable


def commands(drive: DriveReport, mode: CacheMode) -> Tuple[CommandLine, ...]:
    """Shell commands for the drive's host, in order.

    SCSI and SATA are pinned first: "temporary write back" changes the kernel's belief
    only (drivers/scsi/sd.c), so the kernel goes on flushing whatever the drive does.
    """
    dev = drive.dev_name
    on = mode is CacheMode.WRITE_BACK
    if drive.transport.by_mode_page:
        set_it = command("sdparm --set=WCE /dev/{}" if on else "sdparm --clear=WCE /dev/{}", dev)
        return (pin(dev), set_it)
    if drive.transport in (Transport.SATA, Transport.SATA_HBA):
        return (pin(dev), command("hdparm -W{} /dev/{}", int(on), dev))
    if drive.transport is Transport.NVME:
        return (command(
            "nvme set-feature --feature-id=6 --value={} /dev/{}", int(on), _controller(drive)
        ),)
    if drive.transport is Transport.LOOP:
        return (command("echo {} > /sys/block/{}/queue/write_cache", mode.value, dev),)
    return ()


def by_hand(
    drive: DriveReport, mode: CacheMode, lost: Mapping[str, str] = {}
) -> Tuple[CommandLine, ...]:
    """All of a change by hand: make it, read it back, have it last, and undo it.

    Each line is a command with a comment that says what it is for.  There are none where what is
    acknowledged may not rest on the drive then.
    """
    made = commands(drive, mode)
    on = mode is CacheMode.WRITE_BACK
    if not made or (on and may_rest_on(drive, lost, on=True, pinned_first=True)):
        return ()
    lines = [*made, *(commented(line, "read it back") for line in _read_back(drive))]
    saving = _saving(drive, mode)
    if saving:
        lines.append(commented(
            saving, "have it last over a power cycle, once it has proven itself"
        ))
    elif drive.transport is not Transport.LOOP:
        lines.append(commented(
            command("ceph wcache plan --persist"),
            "and apply --persist: a udev rule sets it at each boot, the drive saves no mode",
        ))
    before = drive.mode
    if before is not None and before is not mode:
        *first, last = commands(drive, before)  # it may be pasted long after, with no pin there
        undo = [*first, _saving(drive, before) or last]
        lines.append(commented(chained(undo, " && "), "undo it"))
    return tuple(lines)


def _read_back(drive: DriveReport) -> Tuple[CommandLine, ...]:
    """What shows the drive's side of the cache, and the kernel's."""
    dev = drive.dev_name
    view = command("cat /sys/block/{}/queue/write_cache", dev)
    if drive.transport.by_mode_page:
        return (command("sdparm --get=WCE /dev/{}", dev), view)
    if drive.transport is Transport.SATA:
        return (command("hdparm -W /dev/{}", dev), view)
    if drive.transport is Transport.NVME:
        return (command("nvme get-feature --feature-id=6 /dev/{}", _controller(drive)), view)
    return (view,)


def _saving(drive: DriveReport, mode: CacheMode) -> Optional[CommandLine]:
    """What makes a mode last where the drive itself saves it; None where it does not."""
    on = mode is CacheMode.WRITE_BACK
    page = drive.state.page
    if page.saved is None or page.by_rule:
        return None
    if drive.transport.by_mode_page:
        return command(
            "sdparm --save --set=WCE /dev/{}" if on else "sdparm --save --clear=WCE /dev/{}",
            drive.dev_name,
        )
    if drive.transport is Transport.NVME:
        return command(
            "nvme set-feature --feature-id=6 --value={} --save /dev/{}", int(on), _controller(drive)
        )
    return None


def _controller(drive: DriveReport) -> str:
    return drive.dev_name.rpartition("n")[0] or drive.dev_name


def turn_off(hostname: str, drives: Sequence[DriveReport]) -> str:
    """What to do about drives that lose acknowledged writes, in words with the exact commands."""
    lines = [line for drive in drives for line in commands(drive, CacheMode.WRITE_THROUGH)]
    where = f"on {hostname}" if hostname else "on its host"
    if not lines:
        return "turn the cache off"
    return f"turn the cache off {where}: {ticked(chained(lines))}"


def pin(dev: str) -> CommandLine:
    """What has the kernel flush a SCSI or SATA disk, whatever its cache is."""
    return command(
        "for f in /sys/block/{}/device/scsi_disk/*/cache_type; do "
        'echo "temporary write back" > "$f"; done', dev,
    )


def pin_word(transport: str, pinned: Optional[bool]) -> str:
    """Whether a drive is pinned, for a table; "-" where there is nothing to pin.

    The kernel does not tell: only the process that has pinned a disk knows.
    """
    if pinned is None:
        return "unknown" if pinnable(Transport(transport)) else "-"
    return "yes" if pinned else "no"
