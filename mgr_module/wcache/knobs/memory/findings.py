"""Findings about memory, as far as it is known."""

from __future__ import annotations

from collections import defaultdict
from typing import Dict, Iterable, List, Sequence, Tuple

from ...core.model import Finding, FindingCode, Severity
from ...core.text import amount, named
from .advice import why_not
from .facts import FIXED_AT_START, Facts, HostFacts, Outcome, Promise, Source
from .reading import STEP_SHARE, TARGET

# An OSD above its target by more is not in a moment of growth (the tuner works every 5 s).
OVER_SHARE = 1.15
OUTSIDE_NAMED = 3
# Where a target from takes precedence over the config database.
ABOVE_DATABASE = (Source.ENVIRONMENT, *FIXED_AT_START)
# Why a target does nothing; and what would make it do something.
FIXED_SIZE = (
    "bluestore_cache_autotune is off: their caches have a fixed size, whatever the target; set it "
    "to true and restart the OSDs"
)
NO_TCMALLOC = (
    "not linked to tcmalloc: a target set while they run does nothing; use packages that are "
    "linked to it, or set the target and restart the OSDs"
)
IN_ENVIRONMENT = "set the resources in the CephCluster"
AT_START = "remove it there and restart the OSDs"
AUTOTUNED = (
    "cephadm's autotuner sets their targets, and would undo others; set its options, or take the "
    "host over with `ceph wcache plan --knob=memory --override=autotuner:{host}`"
)


def findings(facts: Facts, promises: Sequence[Promise] = ()) -> Tuple[Finding, ...]:
    """All of them; what needs a reading is silent until there is one."""
    found: List[Finding] = []
    for host in facts.hosts:
        found += _overcommit(host)
        found += _over_target(host)
        found += _not_tunable(host)
    return (*found, *_stale(facts, promises))


def _overcommit(host: HostFacts) -> Iterable[Finding]:
    room = host.room
    known = [item for item in host.osds if item.reading is not None]
    if room is None or not known:
        return
    have = room.total_bytes - room.others_bytes
    if room.limit_bytes is not None:
        have = min(have, room.limit_bytes)
    given = sum(item.target_bytes for item in known)
    if given > have:
        yield Finding(
            FindingCode.MEMORY_OVERCOMMIT, Severity.WARNING, host.name,
            f"{len(known)} OSDs are given {amount(given)} together, and {amount(have)} are there "
            f"for them ({amount(room.total_bytes)} of RAM, {amount(room.others_bytes)} for others)",
        )


def _over_target(host: HostFacts) -> Iterable[Finding]:
    for item in host.osds:
        read = item.reading
        if read is None or not read.target_bytes or not read.mapped_bytes:
            continue
        if read.mapped_bytes > OVER_SHARE * read.target_bytes:
            outside = ", ".join(
                f"{name} {amount(size)}" for name, size in read.outside[:OUTSIDE_NAMED]
            )
            yield Finding(
                FindingCode.MEMORY_OVER_TARGET, Severity.WARNING, f"osd.{read.osd_id}",
                f"it uses {amount(read.mapped_bytes)}, with a target of "
                f"{amount(read.target_bytes)}; outside of its caches: {outside or 'nothing much'}",
            )


def _not_tunable(host: HostFacts) -> Iterable[Finding]:
    why: Dict[str, List[int]] = defaultdict(list)
    for item in host.osds:
        read = item.reading
        if read is None:
            continue
        source, words = host.source_of(item)
        if read.fixed:
            why[FIXED_SIZE].append(read.osd_id)
        elif read.tunable is False:
            why[NO_TCMALLOC].append(read.osd_id)
        elif source in ABOVE_DATABASE:
            cure = IN_ENVIRONMENT if source is Source.ENVIRONMENT else AT_START
            why[
                f"their target is from their {words}, which overrides the config database; {cure}"
            ].append(read.osd_id)
    if host.autotuned:
        why[AUTOTUNED.format(host=host.name)] = [item.osd.osd_id for item in host.osds]
    for text, ids in why.items():
        osds = named([f"osd.{osd_id}" for osd_id in sorted(ids)])
        # it is so by somebody's choice: told where one looks, and no health check
        yield Finding(
            FindingCode.MEMORY_NOT_TUNABLE, Severity.INFO, host.name, f"{osds}: {text}"
        )


def outdated(
    facts: Facts, promises: Sequence[Promise]
) -> Tuple[Tuple[str, Tuple[str, ...]], ...]:
    """Hosts that were divided for others than they have now, with all their device classes.

    Or that came later and have too little for the target of a whole class.  Those of which nothing
    can be recommended now are left out.
    """
    shapes = {(item.host, item.shape) for item in promises}
    return tuple(
        (host.name, tuple(sorted({item.osd.device_class for item in host.osds})))
        for host in facts.hosts
        if not why_not(host) and (
            any(name == host.name and shape != host.shape for name, shape in shapes)
            or _is_too_small(host, promises)
        )
    )


def _is_too_small(host: HostFacts, promises: Sequence[Promise]) -> bool:
    """Whether a host was promised nothing, and gives too much by what a plan set for a class."""
    if host.room is None or any(item.host == host.name for item in promises):
        return False
    whole = {(f"osd/class:{item.device_class}", item.target_bytes) for item in promises}
    entries = [host.config.of_osd(item.osd, TARGET) for item in host.osds]
    given = sum(item.target_by(host.config) for item in host.osds)
    shared = [item.target_by(host.config) for item in host.without_own_keys]
    return (
        given * (1.0 - STEP_SHARE) > host.room.osds_bytes
        # else there is nothing to divide
        and max(shared, default=0) > host.limits.least_target_bytes
        and any(entry is not None and (entry.who, entry.number) in whole for entry in entries)
    )


def _stale(facts: Facts, promises: Sequence[Promise]) -> Iterable[Finding]:
    by_name = {host.name: host for host in facts.hosts}
    for promise in promises:
        host = by_name.get(promise.host)
        if host is None:
            continue
        if host.shape != promise.shape:
            yield Finding(
                FindingCode.MEMORY_STALE, Severity.WARNING, promise.host,
                f"its memory was divided by plan {promise.plan_id} for other OSDs and daemons "
                f"({promise.shape} then, {host.shape} now)",
            )
            continue
        outcome, misses = promise.outcome(host)
        if outcome is Outcome.BROKEN:
            yield Finding(
                FindingCode.MEMORY_STALE, Severity.WARNING, promise.host,
                f"plan {promise.plan_id} promised at most {promise.high:.0f} onode misses/s for "
                f"class {promise.device_class}, and there are {misses:.0f}/s: plan again, or roll "
                "it back",
            )
