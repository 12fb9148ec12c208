"""The use cases behind `ceph wcache evidence ...`."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from ...core import codec
from ...core.errors import NotFoundError, RefusedError, StorageError
from ...core.output_format import FORMAT_VERSION
from ...core.text import many
from ...core.verdict.foreign.document import Evidence, export, parse
from ...engine.engine import Engine
from ..dry_run import would
from ..guards import require_store


class EvidenceService:
    """Takes verdicts out and in; thread-safe by the engine's lock."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def export(self) -> Dict[str, Any]:
        """`evidence export`: the verdicts of this cluster's drive models, as a file."""
        engine = self._engine
        with engine.lock:
            results = tuple(engine.analyses.results.values())
            found = export(
                engine.view.cluster().fsid, engine.recommendations(), results, engine.clock()
            )
        if not found.verdicts:
            raise NotFoundError(
                "nothing was measured on real drives, so there is nothing to export",
                "measure with `ceph wcache campaign start`",
            )
        plain: Dict[str, Any] = codec.to_plain(found)
        return plain

    def take(self, text: str, dry_run: bool = False) -> Dict[str, Any]:
        """`evidence import -i FILE`: keep what another cluster found; it decides nothing."""
        engine = self._engine
        found = parse(text, engine.clock())
        with engine.lock:
            require_store(engine)
            if found.cluster == engine.view.cluster().fsid:
                raise RefusedError(
                    "this file is of this cluster, which has its verdicts already",
                    "see `ceph wcache recommend`",
                )

            if dry_run:
                return {
                    "cluster": found.cluster, "verdicts": len(found.verdicts),
                    **would(self._would_take(found)),
                }

            def stored(error: Optional[StorageError]) -> None:
                if error is not None:
                    engine.persistence.failed(error)

            new = engine.analyses.foreign.add(found, stored)
            if new:
                engine.note(
                    "admin", f"cluster {found.cluster}",
                    f"imported {many(len(found.verdicts), 'verdict')}, checksum "
                    f"{found.sha256[:12]}; they are not authenticated and decide nothing",
                )
        return {
            "changed": new, "cluster": found.cluster, "verdicts": len(found.verdicts),
            "note": "not authenticated: shown as foreign, and decides nothing until measuring "
                    "here confirms it (`ceph wcache campaign start --confirm`)",
        }

    def _would_take(self, found: Evidence) -> List[str]:
        foreign = self._engine.analyses.foreign
        if not foreign.is_new(found):
            return []
        old = foreign.files.get(found.cluster)
        instead = f" in place of {many(len(old.verdicts), 'older one')}" if old is not None else ""
        return [
            f"keep {many(len(found.verdicts), 'verdict')} of cluster {found.cluster}{instead}: "
            + ", ".join(sorted({str(item.drive_model) for item in found.verdicts})[:8])
        ]

    def drop(self, cluster: str, dry_run: bool = False) -> Dict[str, Any]:
        """`evidence rm`: forget what came from a cluster."""
        engine = self._engine
        with engine.lock:
            there = engine.analyses.foreign.files.get(cluster)
            if dry_run and there is not None:
                return {"cluster": cluster, **would(
                    [f"forget {many(len(there.verdicts), 'verdict')} of cluster {cluster}"]
                )}
            if not engine.analyses.foreign.drop(cluster):
                raise NotFoundError(
                    f"nothing was imported from cluster {cluster[:40]!r}",
                    "see `ceph wcache evidence ls`",
                )
            engine.note("admin", f"cluster {cluster}", "imported verdicts dropped")
        return {"changed": True, "cluster": cluster}

    def ls(self) -> Dict[str, Any]:
        """`evidence ls`: what was imported."""
        with self._engine.lock:
            files = list(self._engine.analyses.foreign.files.values())
        return {
            "format_version": FORMAT_VERSION,
            "imported": [
                {
                    "cluster": file.cluster, "exported_at_s": file.exported_at_s,
                    "sha256": file.sha256, "verdicts": codec.to_plain(file.verdicts),
                } for file in sorted(files, key=lambda item: item.cluster)
            ],
        }
