"""The rules that keep acknowledged data: which states are unsafe, which changes are refused.

State is a pair: is the device cache volatile, and does the kernel flush?  *Volatile and
not flushing* loses acknowledged writes at the next power cut.  No change of ours may
enter that state, so every change is made with the kernel view pinned at `write back`:
drivers/scsi/sd.c (cache_type_store) takes "temporary write back" as a change of the
kernel's belief alone, and keeps it over later rescans.  Pinned, every order of steps,
every crash and every drive reset is safe; the price is one no-op flush per commit.
"""

from __future__ import annotations

from enum import Enum
from typing import Mapping, Optional, Sequence, Tuple

from ..errors import RefusedError
from ..model import (
    CacheMode,
    DeviceCache,
    DriveReport,
    DriveState,
    FindingCode,
    KernelView,
    LayerKind,
    Transport,
)

ROLL_BACK_FIRST = "where wcache turned it off, roll that back first"
DROPS = "a loop device in write through drops the OSD's flushes"


class Safety(str, Enum):
    """What can be said of a drive's state."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    AFTER_RESET = "unsafe after a reset"  # off now, may wake on, and a layer drops flushes
    UNKNOWN = "unknown"


def not_flushing(state: DriveState) -> Tuple[str, ...]:
    """Names of the layers that drop flushes; the disk itself is named "disk"."""
    names = ["disk"] if state.kernel_view is KernelView.WRITE_THROUGH else []
    names += [
        layer.name for layer in state.layers if layer.kernel_view is KernelView.WRITE_THROUGH
    ]
    return tuple(dict.fromkeys(names))


def not_known(state: DriveState) -> Tuple[str, ...]:
    """Names of the layers whose kernel view could not be read."""
    names = ["disk"] if state.kernel_view is KernelView.UNKNOWN else []
    names += [layer.name for layer in state.layers if layer.kernel_view is KernelView.UNKNOWN]
    return tuple(dict.fromkeys(names))


def lost_after_reset(state: DriveState) -> Tuple[str, ...]:
    """Names of the layers that would drop flushes once a reset has turned a cache on.

    Layers that are stacked on the disk: a table keeps the view it was loaded with, while the
    view of the disk itself can be raised at any time.
    """
    if state.page.stays_off:
        return ()
    kinds = (LayerKind.DISK, LayerKind.PARTITION)
    own = {layer.name for layer in state.layers if layer.kind in kinds}
    return tuple(name for name in not_flushing(state) if name not in ("disk", *own))


def judge(state: DriveState) -> Safety:
    """Whether acknowledged data would survive a power cut in this state."""
    if state.device_cache is DeviceCache.NONE:
        return Safety.SAFE
    if state.device_cache is DeviceCache.WRITE_THROUGH:
        return Safety.AFTER_RESET if lost_after_reset(state) else Safety.SAFE
    if not_flushing(state):
        known = state.device_cache is DeviceCache.WRITE_BACK
        return Safety.UNSAFE if known else Safety.UNKNOWN
    # every layer flushes: then it does not matter what the device cache is
    return Safety.UNKNOWN if not_known(state) else Safety.SAFE


def pin_word(transport: str, pinned: Optional[bool]) -> str:
    """Whether a drive is pinned, for a table; "-" where there is nothing to pin.

    The kernel does not tell: only the process that has pinned a disk knows.
    """
    if pinned is None:
        return "unknown" if pinnable(Transport(transport)) else "-"
    return "yes" if pinned else "no"


def pinnable(transport: Transport) -> bool:
    """Whether the kernel view of a disk can be held at write back.

    SCSI disks (SATA under libata included) have `scsi_disk/*/cache_type`.  NVMe needs no
    pin: nvme_set_queue_limits() reads VWC at scan and the view never follows feature 06h.
    A loop device has nothing but its kernel view, so there is nothing to hold.
    """
    return transport.by_mode_page or transport in (
        Transport.SATA, Transport.SATA_HBA, Transport.SIMULATED,
    )


def boots_with_rule(transport: Transport) -> bool:
    """Whether a drive's pin has to be put in place anew each time the drive appears.

    A simulated drive's host never boots.
    """
    return pinnable(transport) and transport is not Transport.SIMULATED


def may_rest_on(
    drive: DriveReport, lost: Mapping[str, str], *, on: bool = False, pinned_first: bool = False,
    rested: bool = False,
) -> str:
    """Why what was acknowledged may not rest on a drive alone; "" where it may.

    Asked wherever acknowledged data comes to rest: a cache that is turned on or saved as on, and
    the cache device of a bcache device that is put into writeback, also by hand.  `lost` says by
    drive model what a power cut has shown of it.  `on`: with its cache on, whatever it is now;
    `pinned_first`: its own kernel view is held at write back before.  `rested`: it rested there
    so before, so what is doubted of its flushes makes it no worse.
    """
    state = drive.state
    shown = lost.get(str(drive.drive_model), "") if str(drive.drive_model) else ""
    if shown and not rested:
        return f"its drive model was shown to lose writes: {shown}"
    if not on:
        if state.device_cache is DeviceCache.NONE:
            return ""
        if state.device_cache is DeviceCache.UNKNOWN:
            return "whether its cache is volatile is unknown"
        if state.device_cache is DeviceCache.WRITE_THROUGH:
            names = ", ".join(lost_after_reset(state))
            if names:
                return f"its cache is off, but a reset may turn it on, and {names} does not flush"
            wakes = flush_unproven(drive) and not state.page.stays_off
            return f"a reset may turn its cache on, and {_swallows(drive)}" if wakes else ""
    dropping = dropping_above(drive) if pinned_first else not_flushing(state)
    if dropping and on:
        return (
            f"{', '.join(dropping)} does not flush, so the device cache must stay off; `ceph "
            "wcache drive reload` prints the plan to load it anew"
        )
    if dropping:
        return f"its cache is volatile and {', '.join(dropping)} does not flush"
    if not_known(state):
        return f"the kernel view of {', '.join(not_known(state))} is unknown"
    if flush_unproven(drive) and not rested:
        return _swallows(drive)
    return ""


def _swallows(drive: DriveReport) -> str:
    return f"{drive.host_driver} may not pass flushes on"


def may_toggle(
    drives: Sequence[DriveReport],
    mode: CacheMode,
    *,
    throwaway: bool,
    consent_turn_on: bool,
    experiment: bool = True,
    began: bool = False,
    lasts: bool = False,
    lost: Mapping[str, str] = {},
) -> Optional[str]:
    """None where the cache domain may be put into `mode`, else the reason why not.

    Called with freshly read drives before the first touch; what it refuses is left as is.
    An experiment goes to both modes and back, so both must be safe; of one that began, the
    prior state was found to be safe.  A decided change to
    write through is the cure of an unsafe drive: of the state of the flushes it asks nothing.
    `lasts`: the mode is saved too.  `lost`: see `may_rest_on`.
    """
    if not drives:
        return "no drive of this cache domain is on the host any more"
    for drive in drives:
        reason = _may_toggle_one(
            drive, mode, throwaway=throwaway, consent_turn_on=consent_turn_on or began,
            experiment=experiment, began=began, lasts=lasts, lost=lost,
        )
        if reason:
            return f"{drive.dev_name}: {reason}"
    return None


def _may_toggle_one(
    drive: DriveReport, mode: CacheMode, *, throwaway: bool, consent_turn_on: bool,
    experiment: bool, began: bool, lasts: bool, lost: Mapping[str, str],
) -> Optional[str]:
    if drive.foreign_uses:
        return f"shared with {drive.foreign_uses[0]}, which is not an OSD"
    if drive.toggle_refusal:
        return drive.toggle_refusal
    current = drive.mode
    if current is None:
        return f"its cache state is {drive.state.device_cache.value}, so it could not be restored"
    if drive.transport is Transport.LOOP:
        return None if throwaway else DROPS
    if mode is CacheMode.WRITE_THROUGH and not experiment:
        return None
    if judge(drive.state) is Safety.UNSAFE:
        layers = ", ".join(not_flushing(drive.state))
        return f"its cache is volatile and {layers} does not flush; cure that first"
    if CacheMode.WRITE_BACK in (mode, current):
        # an experiment finds it on and has it on again; what is saved is on anew
        rested = began or (current is CacheMode.WRITE_BACK and not lasts)
        why = may_rest_on(drive, lost, on=True, pinned_first=True, rested=rested)
        if why and current is CacheMode.WRITE_THROUGH and flush_unproven(drive):
            return f"its cache is off, and {why}, so it stays off; {ROLL_BACK_FIRST}"
        if why:
            return why
    elif not_known(drive.state):
        return f"the kernel view of {', '.join(not_known(drive.state))} is unknown"
    elif flush_unproven(drive) and not began:
        return f"its cache is off, and {_swallows(drive)}, so it stays off; {ROLL_BACK_FIRST}"
    if mode is CacheMode.WRITE_BACK and current is not mode and not consent_turn_on:
        return "its cache is off, and turning it on needs its own consent"
    return None


def not_named(drive: DriveReport) -> bool:
    """Whether all that keeps a drive from being toggled is that the boot rule lacks it."""
    return any(item.code is FindingCode.NOT_PREPARED for item in drive.findings)


def flush_unproven(drive: DriveReport) -> bool:
    """Whether an adapter may swallow its flushes: then no pin helps a cache that is turned on.

    One that is found on may go off and on again: that is what it was.
    """
    return any(item.code is FindingCode.FLUSH_UNPROVEN for item in drive.findings)


def require_ours(drives: Sequence[DriveReport]) -> None:
    """Raise RefusedError where a cache that comes on is not that of OSDs alone, or not followed.

    The boot rule is for drives that are off, so one that it does not name may come on.
    """
    for drive in drives:
        reason = "" if not_named(drive) else drive.toggle_refusal
        if drive.foreign_uses:
            reason = f"it is shared with {drive.foreign_uses[0]}, which is not an OSD"
        if reason:
            raise RefusedError(
                f"{drive.dev_name}: {reason}, so no cache of its domain is turned on",
                "cure that, or accept the drive as it is",
            )


def require_throwaway(
    drives: Sequence[DriveReport], modes: Mapping[str, CacheMode], *, throwaway: bool
) -> None:
    """Raise RefusedError where a way back would have a loop device drop the OSD's flushes.

    `modes` is where each drive goes, by its id.  Back to write back is a cure and needs no word.
    """
    for drive in drives:
        mode = modes.get(drive.drive_id)
        drops = drive.transport is Transport.LOOP and mode is CacheMode.WRITE_THROUGH
        if drops and drive.mode is not mode and not throwaway:
            raise RefusedError(
                f"{drive.dev_name}: {DROPS}",
                "leave it as it is, and accept that: see `wcache-probe accept`",
            )


def dropping_above(drive: DriveReport) -> Tuple[str, ...]:
    """Names of the layers that drop flushes also with the disk's own view at write back.

    A partition shares its disk's queue, so pinning the disk cures it too.
    """
    cured = {"disk", drive.dev_name} if pinnable(drive.transport) else set()
    own = {
        layer.name for layer in drive.state.layers if layer.kind.value in ("disk", "partition")
    }
    if cured:
        cured |= own
    return tuple(name for name in not_flushing(drive.state) if name not in cured)
