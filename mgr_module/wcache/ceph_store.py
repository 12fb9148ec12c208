"""Store over the mgr's key-value store: proven writes, and values over its size limit.

`set_store` fails silently and a value over 64 KiB is lost (mon_config_key_max_entry_size),
so every write is read back, long texts are compressed, and very long ones cut into parts.
The mons keep and copy all of it, so what is stored is kept small.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from typing import Dict, Mapping, Optional, Protocol, Sequence

from .core.errors import StorageError

PART_CHARS = 48_000
PARTS_MAX = 200
# Shorter texts hardly shrink, and can be read with `ceph config-key get`.
PACKED_FROM_CHARS = 600
_MARK = "wcache-parts:"
_PACKED = "wcache-packed:"


class KeyValue(Protocol):
    """What a MgrModule offers; values are texts, None removes a key."""

    def get_store(self, key: str) -> Optional[str]:
        """The value of a key."""

    def set_store(self, key: str, val: Optional[str]) -> None:
        """Set or remove a key."""

    def get_store_prefix(self, key_prefix: str) -> Dict[str, str]:
        """All keys that start with a prefix, with their values."""


class KvStore:
    """The `Store` port over a mgr module's key-value store."""

    def __init__(self, kv: KeyValue) -> None:
        self._kv = kv

    def get(self, key: str) -> Optional[str]:
        """The value; StorageError where a part is missing or damaged."""
        head = self._kv.get_store(key)
        if head is None or not head.startswith((_MARK, _PACKED)):
            return head
        try:
            if head.startswith(_PACKED):
                return zlib.decompress(_decoded(head[len(_PACKED) :])).decode("utf-8")
            _, count, digest = head.split(":")
            parts = range(min(int(count), PARTS_MAX))
            texts = [self._kv.get_store(_part(key, digest, index)) or "" for index in parts]
            packed = _decoded("".join(texts))
            text = zlib.decompress(packed).decode("utf-8")
        except (ValueError, zlib.error):
            raise StorageError(f"stored value {key} is damaged") from None
        if hashlib.sha256(packed).hexdigest() != digest:
            raise StorageError(f"stored value {key} is damaged")
        return text

    def put(self, key: str, text: str) -> None:
        """Store and read back; StorageError where the store did not keep it."""
        old = self._kv.get_store(key)
        packed = b""
        whole: Optional[str] = text
        if len(text) >= PACKED_FROM_CHARS or text.startswith((_MARK, _PACKED)):
            packed = zlib.compress(text.encode("utf-8"), 6)
            encoded = base64.b64encode(packed).decode("ascii")
            whole = _PACKED + encoded if len(encoded) <= PART_CHARS else None
        if whole is not None:
            self._set(key, whole)
            if old is not None and old.startswith(_MARK):
                self._sweep(key, keep="")
            return
        parts = [encoded[i : i + PART_CHARS] for i in range(0, len(encoded), PART_CHARS)]
        if len(parts) > PARTS_MAX:
            raise StorageError(f"value {key} is too large to be stored")
        digest = hashlib.sha256(packed).hexdigest()
        for index, part in enumerate(parts):
            self._set(_part(key, digest, index), part)
        # The head comes last and the old parts go after it: whenever the mgr is lost, a
        # reader sees the old value or the new one.
        self._set(key, f"{_MARK}{len(parts)}:{digest}")
        self._sweep(key, keep=_part(key, digest, 0)[:-1])

    def _sweep(self, key: str, keep: str) -> None:
        """Remove the parts of older values (and of writes that were cut off)."""
        for part in list(self._kv.get_store_prefix(f"{key}#")):
            if not keep or not part.startswith(keep):
                self._kv.set_store(part, None)

    def _set(self, key: str, text: str) -> None:
        self._kv.set_store(key, text)
        if self._kv.get_store(key) != text:
            raise StorageError(
                f"the mon did not store {key}", "check `ceph health` and the mons' disks"
            )

    def delete(self, key: str) -> None:
        """Remove a value with its parts."""
        self._kv.set_store(key, None)
        self._sweep(key, keep="")

    def keys(self, prefix: str) -> Sequence[str]:
        """All whole keys that start with a prefix, sorted."""
        return sorted(key for key in self._kv.get_store_prefix(prefix) if "#" not in key)


    def sizes(self, prefix: str) -> Mapping[str, int]:
        """Bytes that the mons keep for each whole key under a prefix, its parts included."""
        found: Dict[str, int] = {}
        for name, text in sorted(self._kv.get_store_prefix(prefix).items()):
            key = name.partition("#")[0]
            found[key] = found.get(key, 0) + len(name) + len(text.encode("utf-8"))
        return found


def _decoded(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _part(key: str, digest: str, index: int) -> str:
    """Parts are named after their value, so a new value never overwrites an old one's."""
    return f"{key}#{digest[:16]}.{index}"
