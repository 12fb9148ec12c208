"""What is done for a mgr of another protocol: it goes by the keys of the journal alone."""

from __future__ import annotations

from typing import Callable, Dict, Mapping, Optional, Sequence

from wcache.core import across
from wcache.core.drive.journal import EntryKind
from wcache.core.errors import NotReadyError, WcacheError
from wcache.core.protocol import PROTOCOL_VERSION

from ..mgr_link import Identity, printable

ACTION = f"{EntryKind.ACTION.value}/"


class JournalBack:
    """Brings back what such a mgr names; `keys` are those of the journal now."""

    def __init__(
        self, keys: Callable[[], Sequence[str]],
        bring_back: Callable[[Sequence[str]], Mapping[str, Optional[WcacheError]]],
    ) -> None:
        self._keys = keys
        self._bring_back = bring_back
        self._brought_back: Dict[str, None] = {}  # as that mgr asked for it
        self._going_back: Dict[str, None] = {}  # of which the restore has not ended yet

    def report(self, keys: Sequence[str], identity: Identity) -> str:
        """Restore these entries of the journal, then say what is in it."""
        going_back, here = self._going_back, self._keys()
        failed: Dict[str, str] = {}
        # those of leases are owed, and brought back as such
        going_back.update({key: None for key in keys if key in here and key.startswith(ACTION)})
        # without a key too: what hung may have ended
        for key, error in self._bring_back([*going_back]).items():
            if isinstance(error, NotReadyError):
                continue
            going_back.pop(key, None)
            if error is None:
                self._brought_back[key] = None
            else:
                failed[key] = printable(error.line())
        # of what goes on the entry may be gone, and it is not known yet that it is back
        here = [*{**dict.fromkeys(self._keys()), **going_back}]
        while len(self._brought_back) > across.KEYS_MAX:
            del self._brought_back[next(iter(self._brought_back))]
        return across.encode(across.Report(
            PROTOCOL_VERSION, identity.hostname, identity.probe_id, identity.instance_id,
            tuple(filter(across.is_key, here)), tuple(self._brought_back), tuple(failed.items()),
        ))
