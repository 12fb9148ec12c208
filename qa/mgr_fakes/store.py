"""Stores: one that is a dict, and one with the ways of the mgr's key-value store."""

from __future__ import annotations

from typing import Callable, Dict, List, Mapping, Optional, Sequence

from wcache.core.errors import StorageError

# mon_config_key_max_entry_size; a longer value is lost without a word.
ENTRY_BYTES_MAX = 65536


class MgrLikeKv:
    """get_store/set_store/get_store_prefix as a mgr has them: a write may silently fail.

    `fails(key)` says which writes are lost; `lost_after` counts down the writes after which
    the mgr is gone (every later write is lost, like the process that would make it).
    """

    def __init__(self) -> None:
        self.kept: Dict[str, str] = {}
        self.writes: List[str] = []
        self.fails: Callable[[str], bool] = lambda key: False
        self.lost_after: Optional[int] = None

    def get_store(self, key: str) -> Optional[str]:
        """The value, or None."""
        return self.kept.get(key)

    def set_store(self, key: str, val: Optional[str]) -> None:
        """Set or remove, unless it is lost; says nothing either way."""
        self.writes.append(key)
        if self.lost_after is not None:
            if self.lost_after == 0:
                return
            self.lost_after -= 1
        if self.fails(key):
            return
        if val is None:
            self.kept.pop(key, None)
        elif len(val.encode()) <= ENTRY_BYTES_MAX:
            self.kept[key] = val

    def get_store_prefix(self, key_prefix: str) -> Dict[str, str]:
        """A copy of what starts with the prefix."""
        return {k: v for k, v in self.kept.items() if k.startswith(key_prefix)}


class MemoryStore:
    """The `Store` port as a dict; `fails(key)` says which writes are refused."""

    def __init__(self) -> None:
        self.kept: Dict[str, str] = {}
        self.fails: Callable[[str], bool] = lambda key: False

    def get(self, key: str) -> Optional[str]:
        """The value, or None."""
        return self.kept.get(key)

    def put(self, key: str, text: str) -> None:
        """Keep it, or raise StorageError."""
        if self.fails(key):
            raise StorageError(f"the mon did not store {key}", "check `ceph health`")
        self.kept[key] = text

    def delete(self, key: str) -> None:
        """Forget it."""
        self.kept.pop(key, None)

    def keys(self, prefix: str) -> Sequence[str]:
        """All keys with the prefix, sorted."""
        return sorted(key for key in self.kept if key.startswith(prefix))

    def sizes(self, prefix: str) -> Mapping[str, int]:
        """Bytes of each key with the prefix."""
        return {k: len(k) + len(v.encode()) for k, v in self.kept.items() if k.startswith(prefix)}
