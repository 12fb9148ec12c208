"""`ceph wcache evidence ...`: verdicts that one cluster hands to another."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping

from ..core import codec
from ..core.errors import NotFoundError, NotReadyError, RefusedError
from ..core.scope import Scope
from ..core.text import many, table, when
from ..core.verdict.foreign import Evidence, export, is_new, parse
from ..engine.engine import Engine
from ..engine.world import World
from ..services.guards import require_store, would
from .tables import model_of


class EvidenceService:
    """Takes verdicts out and in; what is kept of them is the engine's."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def export(self) -> Evidence:
        """`evidence export`: the verdicts of this cluster's drive models, as a file."""
        world = self._engine.world()
        found = export(
            world.cluster.fsid, world.recommendations, tuple(world.results.values()), world.now_s
        )
        if not found.verdicts:
            raise NotReadyError(
                "nothing was measured on real drives, so there is nothing to export",
                "measure with `ceph wcache campaign start`",
            )
        return found

    def take(self, inbuf: str, dry_run: bool = False) -> Dict[str, Any]:
        """`evidence import -i FILE`: keep what another cluster found; it decides nothing."""
        world = self._engine.world()
        found = parse(inbuf, world.now_s)
        require_store(world)
        if found.cluster == world.cluster.fsid:
            raise RefusedError(
                "this file is of this cluster, which has its verdicts already",
                "see `ceph wcache recommend`",
            )
        if dry_run:
            return {
                "cluster": found.cluster, "verdicts": len(found.verdicts),
                **would(_would_take(world, found)),
            }
        with self._engine.orders() as orders:
            new = orders.import_evidence(found)
            if new:
                orders.note(
                    "admin", f"cluster {found.cluster}",
                    f"imported {many(len(found.verdicts), 'verdict')}, checksum "
                    f"{found.sha256[:12]}; they are not authenticated and decide nothing",
                )
        return {
            "changed": new, "cluster": found.cluster, "verdicts": len(found.verdicts),
            "note": "not authenticated: shown as foreign, and decides nothing until measuring "
                    "here confirms it (`ceph wcache campaign start --recheck`)",
        }

    def drop(self, cluster: str, dry_run: bool = False) -> Dict[str, Any]:
        """`evidence rm`: forget what came from a cluster."""
        there = self._engine.world().foreign.get(cluster)
        if there is None:
            raise NotFoundError(
                f"nothing was imported from cluster {cluster[:40]!r}",
                "see `ceph wcache evidence ls`",
            )
        if dry_run:
            return {"cluster": cluster, **would(
                [f"forget {many(len(there.verdicts), 'verdict')} of cluster {cluster}"]
            )}
        with self._engine.orders() as orders:
            orders.drop_evidence(cluster)
            orders.note("admin", f"cluster {cluster}", "imported verdicts dropped")
        return {"changed": True, "cluster": cluster}

    def ls(self) -> Dict[str, Any]:
        """`evidence ls`: what was imported."""
        files = self._engine.world().foreign.values()
        return {
            "imported": [
                {
                    "cluster": file.cluster, "exported_at_s": file.exported_at_s,
                    "sha256": file.sha256, "verdicts": codec.to_plain(file.verdicts),
                } for file in sorted(files, key=lambda item: item.cluster)
            ],
        }


def foreign(world: World, scope: Scope) -> List[Dict[str, Any]]:
    """List the imported verdicts on drive models in a scope, with where they are from."""
    measured = {
        (result.device_class, str(result.drive_model)) for result in world.results.values()
    }
    here = {
        str(drive.drive_model) for report in world.reports.values() for drive in report.drives
    }
    everywhere = not scope.hostname and scope.osd_id is None
    there = {
        str(drive.drive_model) for report in world.reports.values() for drive in report.drives
        if scope.has_host(report.hostname) and scope.has_osd(*(use.osd_id for use in drive.uses))
    }
    return [
        {
            "cluster": cluster, **codec.to_plain(verdict),
            "measured_here": verdict.key in measured,
            "drives_here": str(verdict.drive_model) in here,
        }
        for cluster, verdict in world.foreign_verdicts
        if scope.has_class(verdict.device_class) and scope.has_model(verdict.drive_model)
        and (everywhere or str(verdict.drive_model) in there)
    ]


def _would_take(world: World, found: Evidence) -> List[str]:
    old = world.foreign.get(found.cluster)
    if not is_new(world.foreign, found):
        return []
    instead = f" in place of {many(len(old.verdicts), 'older one')}" if old is not None else ""
    return [
        f"keep {many(len(found.verdicts), 'verdict')} of cluster {found.cluster}{instead}: "
        + ", ".join(sorted({str(item.drive_model) for item in found.verdicts})[:8])
    ]


def evidence_text(data: Mapping[str, Any]) -> str:
    """Word what was imported."""
    if not data["imported"]:
        return "nothing is imported: `ceph wcache evidence import -i FILE` takes a file"
    rows = [
        (file["cluster"], when(file["exported_at_s"]), row["device_class"], model_of(row),
         row["verdict"], row["drives"], row["hosts"])
        for file in data["imported"] for row in file["verdicts"]
    ]
    heads = ("FROM CLUSTER", "EXPORTED (UTC)", "CLASS", "DRIVE MODEL", "VERDICT", "DRIVES", "HOSTS")
    return table(heads, rows) + "\nforeign and not authenticated: none of it decides anything here"
