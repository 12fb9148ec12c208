"""The rules that keep acknowledged data: which states are unsafe, which changes are refused.

State is a pair: is the device cache volatile, and does the kernel flush?  *Volatile and
not flushing* loses acknowledged writes at the next power cut.  No change of ours may
enter that state, so every change is made with the kernel view pinned at `write back`:
drivers/scsi/sd.c (cache_type_store) takes "temporary write back" as a change of the
kernel's belief alone, and keeps it over later rescans.  Pinned, every order of steps,
every crash and every drive reset is safe; the price is one no-op flush per commit.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import AbstractSet, Iterator, Mapping, Optional, Sequence, Set, Tuple

from ..errors import Refusal, RefusalKind, RefusedError, left, told
from ..host_report import HostReport
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
from ..options.option import SharedCache, caches_of, drive_words, shared_cache
from ..text import typed

ROLL_BACK_FIRST = "where wcache turned it off, roll that back first"
DROPS = "a loop device in write through drops the OSD's flushes"
TOLD_MAX = 4  # drives of a domain, or users of a drive, that a refusal names
# What the boot rule is for: a drive that is off.  It lacks nothing where a cache comes on again,
# or where a drive that loses data goes off.
FOR_THE_NEXT_BOOT = frozenset((RefusalKind.NOT_PREPARED, RefusalKind.JOURNAL_LOST))
_OF_A_TRIAL = FOR_THE_NEXT_BOOT | {
    RefusalKind.UNPROVEN, RefusalKind.FLUSH_UNPROVEN, RefusalKind.TURNS_ON, RefusalKind.DISOBEYED,
}
# What is doubted of a drive, and makes it no worse where data rested on it before.
_RESTED = frozenset((RefusalKind.LOST_WRITES, RefusalKind.FLUSH_UNPROVEN))
_OF_FLUSHES = _RESTED | {
    RefusalKind.LOSES_DATA, RefusalKind.LAYER_DROPS_FLUSHES, RefusalKind.KERNEL_VIEW_UNKNOWN,
}


class Safety(str, Enum):
    """What can be said of a drive's state."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    AFTER_RESET = "unsafe after a reset"  # off now, may wake on, and a layer drops flushes
    UNKNOWN = "unknown"


def not_flushing(state: DriveState) -> Tuple[str, ...]:
    """Names of the layers that drop flushes; the disk itself is named "disk"."""
    return _viewed_as(KernelView.WRITE_THROUGH, state)


def not_known(state: DriveState) -> Tuple[str, ...]:
    """Names of the layers whose kernel view could not be read."""
    return _viewed_as(KernelView.UNKNOWN, state)


def _viewed_as(view: KernelView, state: DriveState) -> Tuple[str, ...]:
    names = ["disk"] if state.kernel_view is view else []
    names += [layer.name for layer in state.layers if layer.kernel_view is view]
    return tuple(dict.fromkeys(names))


def _of_the_disk(state: DriveState) -> Set[str]:
    """Names of the layers that share the disk's own view; a hidden NVMe path has its own."""
    return {layer.name for layer in state.layers if layer.kind is LayerKind.PARTITION}


def lost_after_reset(state: DriveState) -> Tuple[str, ...]:
    """Names of the layers that would drop flushes once a reset has turned a cache on.

    Layers that are stacked on the disk: a table keeps the view it was loaded with, while the
    view of the disk itself can be raised at any time.
    """
    if state.page.stays_off:
        return ()
    own = {"disk", *_of_the_disk(state)}
    return tuple(name for name in not_flushing(state) if name not in own)


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


def pinnable(transport: Transport) -> bool:
    """Whether the kernel view of a disk can be held at write back.

    SCSI disks (SATA under libata included) have `scsi_disk/*/cache_type`.  NVMe needs no
    pin: nvme_set_queue_limits() reads VWC at scan and the view never follows feature 06h.
    A loop device has nothing but its kernel view, so there is nothing to hold.
    """
    return transport.by_mode_page or transport in (
        Transport.SATA, Transport.SATA_HBA, Transport.SIMULATED,
    )


def may_be_pinned(drive: DriveReport) -> bool:
    """Whether a pin makes a drive safer, and not each of its flushes fail."""
    return pinnable(drive.transport) and not any(
        one.kind is RefusalKind.NO_FLUSH for one in drive.refusals
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
    found = _against_resting(drive, lost, on, pinned_first)
    return told(left(found, _RESTED if rested else frozenset()))


def doubted(drive: DriveReport, lost: Mapping[str, str]) -> str:
    """What is doubted of a cache that comes on whatever is read of it; "" where nothing is."""
    found = _against_resting(drive, lost, on=True, pinned_first=True)
    return told(left(found, frozenset(RefusalKind) - _RESTED))


def _against_resting(
    drive: DriveReport, lost: Mapping[str, str], on: bool, pinned_first: bool
) -> Iterator[Refusal]:
    state = drive.state
    shown = lost.get(str(drive.drive_model), "") if str(drive.drive_model) else ""
    if shown:
        yield Refusal(
            RefusalKind.LOST_WRITES, f"its drive model was shown to lose writes: {shown}"
        )
    swallows = f"{drive.host_driver} may not pass flushes on"
    if not on and state.device_cache is DeviceCache.NONE:
        return
    if not on and state.device_cache is DeviceCache.UNKNOWN:
        yield Refusal(RefusalKind.STATE_UNKNOWN, "whether its cache is volatile is unknown")
        return
    if not on and state.device_cache is DeviceCache.WRITE_THROUGH:
        names = ", ".join(lost_after_reset(state))
        if names:
            yield Refusal(
                RefusalKind.LAYER_DROPS_FLUSHES,
                f"its cache is off, but a reset may turn it on, and {names} does not flush",
            )
        if flush_unproven(drive) and not state.page.stays_off:
            yield Refusal(
                RefusalKind.FLUSH_UNPROVEN, f"a reset may turn its cache on, and {swallows}"
            )
        return
    dropping = ", ".join(dropping_above(drive) if pinned_first else not_flushing(state))
    if dropping:
        yield Refusal(
            RefusalKind.LAYER_DROPS_FLUSHES,
            f"{dropping} does not flush, so the device cache must stay off; {raised_by(drive)}"
            if on else f"its cache is volatile and {dropping} does not flush",
        )
    if not_known(state):
        yield Refusal(
            RefusalKind.KERNEL_VIEW_UNKNOWN,
            f"the kernel view of {', '.join(not_known(state))} is unknown",
        )
    if flush_unproven(drive):
        off = drive.mode is CacheMode.WRITE_THROUGH
        yield Refusal(
            RefusalKind.FLUSH_UNPROVEN,
            f"its cache is off, and {swallows}, so it stays off; {ROLL_BACK_FIRST}" if off
            else swallows,
        )


def raised_by(drive: DriveReport) -> str:
    """What has the layers of a drive flush again: a hidden path of an NVMe drive is written to."""
    if drive.dropping_path:
        raised = typed(
            "echo {} > /sys/block/{}/queue/write_cache", "write back", drive.dropping_path
        )
        return f"{raised} has it flush"
    return "`ceph wcache drive reload` prints the plan to load it anew"


def writeback_refusal(
    report: HostReport, drives: Sequence[DriveReport], lost: Mapping[str, str],
    agreed: Optional[SharedCache] = None,
) -> str:
    """Why bcache above backing drives of a host may not be put into writeback; "" where it may.

    Each cache device is asked by `may_rest_on`, and named with the reason.  `agreed` is what an
    admin agreed to: it is void where another device is the cache by now, or serves others too.
    """
    why = [
        f"the cache device {drive_words(one)} may not hold alone what is acknowledged: {reason}"
        for one in caches_of(report, drives) for reason in [may_rest_on(one, lost)] if reason
    ]
    why += [
        f"{one.name}: {one.without_cache}" for drive in drives for one in drive.bcache
        if not one.is_cache and one.without_cache
    ]
    try:
        now = shared_cache(report, drives)
    except RefusedError as error:
        return "; ".join([*why, error.message])
    if agreed is not None and now != replace(agreed, hostname=now.hostname, all_copies=False):
        why.append(f"its cache device is {now.words} now, which nobody has agreed to")
    return "; ".join(why)


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
    """None where the cache domain may be put into `mode`, else all the reasons why not.

    Called with freshly read drives before the first touch; what it refuses is left as is.
    An experiment goes to both modes and back, so both must be safe; of one that began, the
    prior state was found to be safe.  `lasts`: the mode is saved too.  `lost`: see `may_rest_on`.
    """
    if not drives:
        return "no drive of this cache domain is on the host any more"
    permitted: Set[RefusalKind] = set()
    if consent_turn_on:
        permitted.add(RefusalKind.TURNS_ON)
    if began:
        permitted |= {RefusalKind.TURNS_ON, *_RESTED}
    if mode is CacheMode.WRITE_THROUGH and not experiment:
        # off is safe whatever flushes, and the cure of a drive that loses data
        permitted |= _OF_FLUSHES
        if any(judge(drive.state) is Safety.UNSAFE for drive in drives):
            # one that did not obey once is asked again: to fail at the cure makes it no worse
            permitted |= {RefusalKind.NOT_PREPARED, RefusalKind.DISOBEYED}
            permitted |= set() if lasts else FOR_THE_NEXT_BOOT
    if throwaway:
        permitted.add(RefusalKind.OF_THROWAWAY)
    lines = [
        f"{drive.dev_name}: {reason}" for drive in drives
        for reason in [refused(drive, permitted, mode, lasts=lasts, lost=lost)] if reason
    ]
    if len(lines) > TOLD_MAX:
        lines[TOLD_MAX:] = [f"and {len(lines) - TOLD_MAX} more drives of its cache domain"]
    return "; ".join(lines) or None


def refused(
    drive: DriveReport, permitted: AbstractSet[RefusalKind] = frozenset(),
    mode: Optional[CacheMode] = None, *, lasts: bool = False, lost: Mapping[str, str] = {},
) -> str:
    """All that is left against changing a drive once what is permitted is taken out.

    With a `mode` that is the one it is to be put into; without one it is left in its own.
    """
    found = [*drive.refusals]
    if not any(one.kind is RefusalKind.DISOBEYED for one in found):
        found += [
            Refusal(RefusalKind.DISOBEYED, item.detail) for item in drive.findings
            if item.code is FindingCode.TOGGLE_INEFFECTIVE
        ]
    if drive.foreign_uses:
        users = ", ".join(drive.foreign_uses[:TOLD_MAX])
        found.append(Refusal(RefusalKind.SHARED, f"shared with {users}, which is not an OSD"))
    if mode is not None:
        found += _against(drive, mode, lasts, lost)
    return told(left(found, permitted))


def _against(
    drive: DriveReport, mode: CacheMode, lasts: bool, lost: Mapping[str, str]
) -> Iterator[Refusal]:
    """What its state has against putting a drive into a mode, now or for the next power cycle."""
    current = drive.mode
    if current is None:
        yield Refusal(
            RefusalKind.STATE_UNKNOWN,
            f"its cache state is {drive.state.device_cache.value}, so it could not be restored",
        )
        return
    if drive.transport is Transport.LOOP:
        yield Refusal(RefusalKind.OF_THROWAWAY, DROPS)
        return
    if judge(drive.state) is Safety.UNSAFE:
        layers = ", ".join(not_flushing(drive.state))
        yield Refusal(
            RefusalKind.LOSES_DATA,
            f"its cache is volatile and {layers} does not flush; cure that first",
        )
    found = left(_against_resting(drive, lost, on=True, pinned_first=True), frozenset())
    if current is CacheMode.WRITE_BACK and not lasts:
        # an experiment finds it on and has it on again; what is saved is on anew
        found = left(found, _RESTED)
    elif CacheMode.WRITE_BACK not in (mode, current):
        found = left(found, {RefusalKind.LAYER_DROPS_FLUSHES, RefusalKind.LOST_WRITES})
    yield from found
    if mode is CacheMode.WRITE_BACK and current is not mode:
        yield Refusal(
            RefusalKind.TURNS_ON, "its cache is off, and turning it on needs its own consent"
        )


def why_not_tried(drive: DriveReport) -> str:
    """All that is against trying a drive whose translation or flushes are not proven.

    Who tries it has the consent of an admin, journals it, pins it, and puts it back; what the next
    boot has of that is asked at each touch.
    """
    mode = drive.mode
    return refused(drive, _OF_A_TRIAL, mode and mode.other)


def not_named(drive: DriveReport) -> bool:
    """Whether all that keeps a drive from being toggled is what the next boot lacks."""
    return bool(drive.refusals) and not left(drive.refusals, FOR_THE_NEXT_BOOT)


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
        # nor is a way back kept from a drive that has once refused one
        reason = refused(drive, FOR_THE_NEXT_BOOT | {RefusalKind.DISOBEYED})
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
    cured: Set[str] = set()
    if pinnable(drive.transport):
        cured = {"disk", drive.dev_name, *_of_the_disk(drive.state)}
    return tuple(name for name in not_flushing(drive.state) if name not in cured)
