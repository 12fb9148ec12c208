"""The hosts whose evidence of a drive model an admin has accepted for all hosts."""

from __future__ import annotations

from typing import Dict, Optional, Tuple

from ...core.drive.accepted_proofs import AcceptedProof, AcceptedProofs
from ...core.ports import Done
from ..storing.archive import Archive

# The name under which it is stored.
ACCEPTED_PROOFS = "accepted-words"
Key = Tuple[str, str]


class Accepted:
    """By hostname and drive model; guarded by the engine's lock."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._proofs: Dict[Key, AcceptedProof] = {}

    def load(self) -> None:
        """Take up what was stored."""
        found = self._archive.accepted_proofs()
        self._proofs = {(item.hostname, item.drive_model): item for item in found.items}

    def all(self) -> Tuple[AcceptedProof, ...]:
        """Every one of them, in a stable order."""
        return tuple(self._proofs[key] for key in sorted(self._proofs))

    def of(self, hostname: str, drive_model: str) -> Optional[AcceptedProof]:
        """What is accepted of one host, or None."""
        return self._proofs.get((hostname, drive_model))

    def add(self, item: AcceptedProof) -> None:
        """Accept what a host has shown until now; replaces what was accepted of it before."""
        self._proofs[(item.hostname, item.drive_model)] = item

    def remove(self, hostname: str, drive_model: str) -> None:
        """Accept it no more."""
        del self._proofs[(hostname, drive_model)]

    def put(self, done: Done) -> None:
        """Store all of them."""
        self._archive.put_accepted_proofs(AcceptedProofs(self.all()), done)
