"""Verdicts of other clusters that were imported: stored apart from all that decides."""

from __future__ import annotations

from typing import Dict, Mapping

from ...core.errors import RefusedError
from ...core.ports import Done
from ...core.verdict.foreign.document import Evidence
from ..storing.archive import FOREIGN, Archive

CLUSTERS_MAX = 16


class Foreign:
    """The newest file of each cluster, by its fsid; guarded by the engine's lock."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self.files: Dict[str, Evidence] = {}

    def load(self) -> None:
        """Take up what was stored."""
        self.files = self._archive.all(FOREIGN)

    def add(self, evidence: Evidence, done: Done) -> bool:
        """Keep a file in place of an older one of its cluster; False where it is there already."""
        if not is_new(self.files, evidence):
            return False
        self.files[evidence.cluster] = evidence
        self._archive.put(FOREIGN, evidence, done)
        return True

    def drop(self, cluster: str) -> bool:
        """Forget what came from a cluster."""
        if self.files.pop(cluster, None) is None:
            return False
        self._archive.drop(FOREIGN, cluster)
        return True


def is_new(files: Mapping[str, Evidence], evidence: Evidence) -> bool:
    """Whether a file would be kept; raises RefusedError where there is no room for it."""
    old = files.get(evidence.cluster)
    if old is None and len(files) >= CLUSTERS_MAX:
        raise RefusedError(
            f"evidence of {CLUSTERS_MAX} clusters is imported already",
            "drop one with `ceph wcache evidence rm`",
        )
    return old is None or old.exported_at_s < evidence.exported_at_s
