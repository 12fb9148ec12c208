"""What an admin does where cephadm or Rook sets the targets: their own settings."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Collection, Dict, List, Sequence

from ...core.shell import command
from .advice import advise, take_over
from .facts import OPT_OUT_LABEL, Facts, HostFacts, Source
from .room import others_bytes

PROBE_NOTE = (
    "a probe that cephadm runs as a container takes 1 GiB off its host's targets: cephadm counts "
    "that much for every daemon of a type that it does not know"
)


def instead(facts: Facts, names: Collection[str]) -> List[str]:
    """What to do for these hosts where somebody else sets the targets."""
    hosts = [host for host in facts.hosts if host.name in names]
    if any(host.autotuned for host in hosts):
        return cephadm_settings(facts, hosts)
    told = (item.told_source for host in hosts for item in host.osds)
    sources = {found[0] for found in told if found}
    return rook_patch(facts, hosts) if Source.ENVIRONMENT in sources else []


def cephadm_settings(facts: Facts, hosts: Sequence[HostFacts]) -> List[str]:
    """cephadm's own way to give OSDs what they should have, and the ways out of it."""
    lines: List[str] = []
    ratios = []
    for host in hosts:
        room = host.room
        if room is not None and host.osds:
            assumed = others_bytes(dict(host.daemons))
            ratios.append((room.osds_bytes + assumed) / room.total_bytes)
    if ratios:
        lines.append(
            command("ceph config set mgr mgr/cephadm/autotune_memory_target_ratio {}",
                    f"{min(0.95, *ratios):.2f}")
        )
    for host in hosts:
        lines.append(command("ceph orch host label add {} {}", host.name, OPT_OUT_LABEL))
    kinds = {kind for host in hosts for kind, _ in host.daemons}
    if "container" in kinds or "wcache-probe" in kinds:
        lines.append(PROBE_NOTE)
    return lines


def rook_patch(facts: Facts, hosts: Sequence[HostFacts]) -> List[str]:
    """The resources of the CephCluster: a request becomes the target of its OSDs."""
    free = replace(take_over(facts, [host.name for host in hosts]), hosts=tuple(
        replace(host, osds=tuple(
            replace(item, reading=replace(item.reading, source="mon") if item.reading else None)
            for item in host.osds
        )) for host in hosts
    ))
    wanted: Dict[str, int] = {}
    for group in advise(free):
        for item in group.classes:
            # one request for all OSDs of a class: what fits into each host
            known = wanted.get(item.device_class, item.target_bytes)
            wanted[item.device_class] = min(known, item.target_bytes)
    return [
        command("kubectl -n rook-ceph patch cephcluster rook-ceph --type merge -p {}",
                _patch(f"osd-{name}", f"{target // 2**20}Mi"))
        for name, target in sorted(wanted.items())
    ]


def _patch(of: str, memory: str) -> str:
    spec = {"spec": {"resources": {of: {"requests": {"memory": memory}}}}}
    return json.dumps(spec, separators=(",", ":"))
