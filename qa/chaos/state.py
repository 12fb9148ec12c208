"""What is set in a cluster, read by Ceph's tools, sysfs, sdparm and nvme: what a round must leave.
"""

from __future__ import annotations

import json
from typing import Any, Dict, List, Mapping

from .looks import queue_of
from .stage import Stage

# What wcache keeps of what it has found out and done (doc/architecture.md), which grows.
OWN_KEYS = "mgr/wcache/"
# What each mgr and module of Ceph itself writes again and again.
CEPHS_KEYS = (
    "mgr/progress/", "mgr/devicehealth/", "mgr/telemetry/", "mgr/crash/", "config-history/",
)
# They count or name what a restart makes anew.
VOLATILE_QUEUE = ("io_poll_delay",)
Taken = Dict[str, str]


def take(stage: Stage) -> Taken:
    """All of it now, flat: what is set, and to what."""
    cluster = stage.cluster
    found: Taken = {}
    for row in cluster.command("config dump"):
        found[f"config {row['section']} {row.get('mask', '')} {row['name']}"] = row["value"]
    for key in cluster.command("config-key ls"):
        found[f"key {key}"] = "is there"
    for row in cluster.command("auth ls")["auth_dump"]:
        found[f"auth {row['entity']}"] = json.dumps(row["caps"], sort_keys=True)
    for flag in cluster.command("osd dump")["flags_set"]:
        found[f"flag {flag}"] = "set"
    for osd_id in cluster.osd_ids():
        for name, values in _overridden(cluster.command("config diff", target=osd_id)).items():
            found[f"osd.{osd_id} {name}"] = values
    for native in stage.native:
        for osd_id, name in native.devices().items():
            for attribute, value in queue_of(name).items():
                if attribute not in VOLATILE_QUEUE:
                    found[f"osd.{osd_id} queue {attribute}"] = value
    for guest in stage.guest:
        for drive in guest.lab.drives:
            handle = guest.lab.drive(drive.name)
            disk = handle.disk()
            found[f"guest {drive.name} drive"] = str(disk.device_cache_on())
            found[f"guest {drive.name} machine"] = str(handle.qmp_writeback())
            found[f"guest {drive.name} kernel"] = disk.kernel_view()
    for host in stage.hosts.values():
        found[f"journal {host.name}"] = ", ".join(host.journal())
    return found


def _overridden(diff: Mapping[str, Any]) -> Dict[str, str]:
    """What was set in a running OSD only, as a lease of memory is."""
    return {
        name: str(values["override"]) for name, values in diff["diff"].items()
        if isinstance(values, dict) and "override" in values
    }


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> List[str]:
    """What is otherwise than before, but for what wcache and Ceph keep for themselves."""
    found = []
    for what in sorted({*before, *after}):
        was, is_now = before.get(what), after.get(what)
        if was == is_now or _kept(what):
            continue
        found.append(f"{what}: was {was!r}, is {is_now!r}")
    return found


def _kept(what: str) -> bool:
    kind, _, name = what.partition(" ")
    return kind == "key" and (name.startswith(CEPHS_KEYS) or _own(name))


def _own(name: str) -> bool:
    return name.startswith(OWN_KEYS)
