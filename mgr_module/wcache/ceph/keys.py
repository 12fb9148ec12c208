"""The cephx keys of probes, made and removed by the mons; a key itself is never kept here."""

from __future__ import annotations

import errno
from typing import Mapping, Optional, Protocol

from .command import CommandFailed, SendsCommands, ask_mon, parse


class Keys(Protocol):
    """Port: the cluster's keys.  Both methods wait for the mons, and raise CommandFailed."""

    def make(self, entity: str, caps: Mapping[str, str]) -> bool:
        """See that the key is there with these caps; False where it was."""

    def remove(self, entity: str) -> None:
        """Remove a key; one that is not there is fine."""


class CephKeyring:
    """The `Keys` port over a mgr module, whose own caps allow it (MonCap.cc, profile mgr)."""

    def __init__(self, mgr: SendsCommands) -> None:
        self._mgr = mgr

    def make(self, entity: str, caps: Mapping[str, str]) -> bool:
        """`auth get-or-create`, or `auth caps` where the key allows something else."""
        found = self._caps(entity)
        if found == dict(caps):
            return False
        prefix = "auth get-or-create" if found is None else "auth caps"
        flat = [word for pair in caps.items() for word in pair]
        ask_mon(self._mgr, {"prefix": prefix, "entity": entity, "caps": flat})
        return True

    def remove(self, entity: str) -> None:
        """`auth rm`, which is content where there is no such key."""
        ask_mon(self._mgr, {"prefix": "auth rm", "entity": entity})

    def _caps(self, entity: str) -> Optional[Mapping[str, str]]:
        """What the key allows; None where there is no such key."""
        try:
            plain = parse(ask_mon(self._mgr, {"prefix": "auth get", "entity": entity}), "auth get")
        except CommandFailed as failure:
            if failure.code == -errno.ENOENT:
                return None
            raise
        rows = plain if isinstance(plain, list) else []
        caps = rows[0].get("caps") if rows and isinstance(rows[0], dict) else None
        return caps if isinstance(caps, dict) else {}
