"""Which OSDs a trial of a larger target is made on, and whether there is room for it.

An OSD tells what it uses itself.  The kernel kills by what all processes of a control group
use, and a limit may be lowered at any time, so the probe is asked again and again.
"""

from __future__ import annotations

from typing import AbstractSet, List, NamedTuple, Optional, Sequence, Tuple

from ....core.cluster import in_turns
from ....core.errors import ConflictError, MalformedError, NotReadyError
from ....core.hardware import HostMemory
from ....core.text import amount, named
from ....engine.under_way import touched_by_run
from ....engine.world import World
from ..advice import why_not
from ..facts import Facts, HostFacts, OsdFacts
from ..reading import EDGES_DEFAULT_S, STEP_BYTES, MemoryOptions
from ..trial import TargetTrial

# A trial ends where so much of a limit is used, ...
LIMIT_SHARE = 0.9
# ... or where so little of the host's RAM is available.
AVAILABLE_SHARE_MIN = 0.05
# It ends where an OSD has so much more than the larger target.
OVER_SHARE = 1.2
RAISE = 1.5


def choose(
    trial_id: str, world: World, facts: Facts, device_class: str, target_bytes: Optional[int],
    most: int, *, among: Optional[AbstractSet[int]] = None, plan_id: str = "",
    period_s: Optional[int] = None, blocks: int = 1,
) -> TargetTrial:
    """Return a trial on at most so many OSDs that have one target and room for more.

    `among` are the OSDs of a plan that they are chosen from.
    """
    chosen: List[Tuple[HostFacts, OsdFacts]] = []
    why = f"no OSD of class {device_class[:40]} has reported its memory yet"
    alike = [
        (host, item) for host in facts.hosts for item in host.osds
        if item.osd.device_class == device_class
        and (among is None or item.osd.osd_id in among)
    ]
    ill = world.cluster.illness(item.osd.osd_id for _, item in alike)
    well = [each for each in alike if each[1].osd.osd_id not in ill]
    if ill and not well:
        why = named([f"osd.{osd_id} {said}" for osd_id, said in ill.items()], 3)
    for host, item in _in_order(well, world):
        said = why_not(host)
        if len(chosen) >= most:
            break
        if said or item.rates is None or item.reading is None:
            why = said or why
        elif not chosen or item.target_bytes == chosen[0][1].target_bytes:
            chosen.append((host, item))
    if not chosen:
        raise NotReadyError(f"nothing can be tried: {why}", "see `ceph wcache memory status`")
    low = chosen[0][1].target_bytes
    high = int(low * RAISE) // STEP_BYTES * STEP_BYTES if target_bytes is None else target_bytes
    most_bytes = most_of_trial(chosen, low, facts.limits)
    if most_bytes.target_bytes <= low:
        raise ConflictError(
            f"no target above {amount(low)} can be tried: {most_bytes.why}",
            "choose fewer --osds" if most_bytes.fewer
            else "see `ceph wcache memory recommend` for what the host has left",
        )
    if not low < high <= most_bytes.target_bytes:
        why = "" if high <= low else f": {most_bytes.why}"
        fewer = ", or fewer --osds" if high > low and most_bytes.fewer else ""
        raise MalformedError(
            f"the target of a trial must be larger than {amount(low)} and at most "
            f"{amount(most_bytes.target_bytes)}{why}",
            f"choose --target-bytes={most_bytes.target_bytes} or less{fewer}",
        )
    reach_s = max(
        (b.edges_s[-1] for _, i in chosen if i.reading for b in i.reading.bins),
        default=EDGES_DEFAULT_S[-1],
    )
    # what a process may use before the trial is ended, below what the kernel would kill at
    own = [host.limit_of(item.osd.osd_id) for host, item in chosen]
    return TargetTrial(
        trial_id, world.now_s, device_class,
        tuple(item.osd.osd_id for _, item in chosen),
        tuple(
            int(OVER_SHARE * high) if limit is None
            else min(int(OVER_SHARE * high), int(LIMIT_SHARE * limit)) for limit in own
        ), low, high,
        float(period_s or max(1, int(reach_s))), reach_s,
        world.options.of(MemoryOptions).memory_step_s, blocks, plan_id=plan_id,
    )


def _in_order(
    alike: Sequence[Tuple[HostFacts, OsdFacts]], world: World
) -> List[Tuple[HostFacts, OsdFacts]]:
    """One OSD of each host, then a second one.

    Those come last that move data or had slow operations in BlueStore, and after them those that
    others have for themselves or compare with.
    """
    last = world.cluster.sampled_last(item.osd.osd_id for _, item in alike)
    others = [touched for _, touched in world.taken]
    others += [touched_by_run(world.runs[run_id].spec) for run_id in world.open_runs]
    theirs = {osd_id for touched in others for osd_id in touched.osds | touched.controls}

    def rank(each: Tuple[HostFacts, OsdFacts]) -> int:
        osd_id = each[1].osd.osd_id
        return 2 if osd_id in theirs else int(osd_id in last)

    return [
        each for number in range(3)
        for each in in_turns(
            (one for one in alike if rank(one) == number), lambda one: one[0].name
        )
    ]


def crowded(osd_ids: Sequence[int], high_bytes: int, memory: HostMemory) -> str:
    """Why a trial of these OSDs, all of one host, must end; "" where it may go on.

    `high_bytes` is the larger target.
    """
    for limit in memory.limits:
        mine = sorted(set(limit.osd_ids) & set(osd_ids))
        if not mine:
            continue
        group = f"the control group of osd.{mine[0]}"
        if limit.used_bytes > LIMIT_SHARE * limit.bytes_max:
            return f"{group} uses {amount(limit.used_bytes)} of {amount(limit.bytes_max)}"
        if high_bytes * len(limit.osd_ids) > LIMIT_SHARE * limit.bytes_max:
            return (
                f"the limit of {group} is {amount(limit.bytes_max)} now: too little for the "
                "trial"
            )
    # nothing available at all is not told
    if 0 < memory.available_bytes < AVAILABLE_SHARE_MIN * memory.total_bytes:
        return (
            f"the host of osd.{osd_ids[0]} has {amount(memory.available_bytes)} of "
            f"{amount(memory.total_bytes)} available"
        )
    return ""


class Most(NamedTuple):
    """The largest target that a trial's OSDs have room for, and what keeps out a larger one.

    `fewer`: a trial of fewer of them would have room for more.
    """

    target_bytes: int
    why: str
    fewer: bool = False


def most_of_trial(
    chosen: Sequence[Tuple[HostFacts, OsdFacts]], low_bytes: int, limits: MemoryOptions
) -> Most:
    """Of OSDs that all go by `low_bytes` now, with the hosts that they are on."""
    found = [Most(limits.memory_ceiling, f"memory_ceiling is {amount(limits.memory_ceiling)}")]
    for host in dict.fromkeys(where for where, _ in chosen):
        ids = [item.osd.osd_id for where, item in chosen if where is host]
        own = min((limit for limit in map(host.limit_of, ids) if limit is not None), default=None)
        if own is not None:
            found.append(Most(
                int(own * (1.0 - limits.memory_headroom)),
                f"the cgroup limit of an OSD on host {host.name} is {amount(own)}, of which "
                f"{limits.memory_headroom:.0%} stays free (memory_headroom)",
            ))
        room = host.room
        given = sum(item.target_bytes for item in host.osds)
        free = room.osds_bytes - given if room is not None else 0
        found.append(Most(
            low_bytes + free // len(ids), f"host {host.name} does not have the memory for it",
            free >= STEP_BYTES and len(ids) > 1,
        ))
    least = min(found, key=lambda item: item.target_bytes)
    return least._replace(target_bytes=least.target_bytes // STEP_BYTES * STEP_BYTES)
