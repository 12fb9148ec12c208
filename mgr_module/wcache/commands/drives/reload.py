"""`drive reload`: the script that loads volumes anew which would drop flushes."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional

from ...core import codec
from ...core.errors import NotFoundError
from ...core.fleet.loaded_off import reloads
from ...core.scope import parse_scope
from ...deployment.form import Form
from ...deployment.scripts import reloading
from ...engine.world import World

_ROOK = (
    "Rook runs it: run `wcache-probe prepare` there, and drain and boot the node, after which its "
    "volumes are loaded on pinned disks"
)


def reload(world: World, scope: Optional[str] = None) -> Dict[str, Any]:
    """OSDs whose volumes drop flushes above drives that are off, and the script for them."""
    wanted = parse_scope(scope)
    if wanted.hostname and wanted.hostname not in world.reports:
        raise NotFoundError(f"no probe reports from {wanted.hostname[:60]!r}")
    by_hand = {name: _ROOK for name, one in world.deployments.items() if one.form is Form.ROOK}
    reports = world.believed_real
    covered = {
        (report.hostname, use.osd_id) for report in reports for drive in report.drives
        if wanted.covers(report, drive, world.cluster) for use in drive.uses
        if wanted.has_one(use.osd_id, world.cluster)
    }
    items = tuple(
        one for one in reloads(reports, by_hand) if (one.hostname, one.osd_id) in covered
    )
    return {
        "osds": [codec.to_plain(item) for item in items],
        "script": reloading(items, world.cluster.fsid) if items else "",
    }


def render(data: Mapping[str, Any]) -> str:
    """The script itself, to be read and then handed to `sh`."""
    return str(data["script"]) or "# no OSD's volumes have to be loaded anew"
