"""Verdicts of other clusters that were imported: stored apart from all that decides."""

from __future__ import annotations

from typing import Dict, List, Tuple

from ...core.errors import RefusedError
from ...core.ports import Done
from ...core.verdict.foreign.document import Evidence, ForeignVerdict
from ..storing.archive import Archive

CLUSTERS_MAX = 16


class Foreign:
    """The newest file of each cluster, by its fsid; guarded by the engine's lock."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self.files: Dict[str, Evidence] = {}

    def load(self) -> None:
        """Take up what was stored."""
        self.files = self._archive.foreign()

    def add(self, evidence: Evidence, done: Done) -> bool:
        """Keep a file in place of an older one of its cluster; False where it is there already."""
        if not self.is_new(evidence):
            return False
        self.files[evidence.cluster] = evidence
        self._archive.put_foreign(evidence, done)
        return True

    def is_new(self, evidence: Evidence) -> bool:
        """Whether a file would be kept; raises RefusedError where there is no room for it."""
        old = self.files.get(evidence.cluster)
        if old is None and len(self.files) >= CLUSTERS_MAX:
            raise RefusedError(
                f"evidence of {CLUSTERS_MAX} clusters is imported already",
                "drop one with `ceph wcache evidence rm`",
            )
        return old is None or old.exported_at_s < evidence.exported_at_s

    def drop(self, cluster: str) -> bool:
        """Forget what came from a cluster."""
        if self.files.pop(cluster, None) is None:
            return False
        self._archive.drop_foreign(cluster)
        return True

    def verdicts(self) -> List[Tuple[str, ForeignVerdict]]:
        """Every verdict with the cluster that it came from."""
        return [
            (cluster, verdict) for cluster, file in sorted(self.files.items())
            for verdict in file.verdicts
        ]
