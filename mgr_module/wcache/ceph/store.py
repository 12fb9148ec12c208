"""Values in the mons' key-value store: long ones packed, each write answered by a mon.

`MgrModule.set_store` fills the mgr's own copy before the mons have answered and drops their
return code (Ceph, src/mgr/ActivePyModules.cc), so neither its silence nor reading back proves
anything.  Here a write is the command `config-key set` with its code.  A value over 64 KiB is
refused (mon_config_key_max_entry_size): long texts are compressed, very long ones cut into
parts.  The mons keep and copy all of it, so what is stored is kept small.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from ..core.codec import one_line
from ..core.errors import StorageError
from .command import CommandFailed, Mgr, put_config_key

PART_CHARS = 48_000
PARTS_MAX = 200
KEY_SHOWN_MAX = 200
UNPACKED_BYTES_MAX = 128_000_000
# Shorter texts hardly shrink, and can be read with `ceph config-key get`.
PACKED_FROM_CHARS = 600
# A mgr's client of the mons sends a command again after each election, so an answer that has
# not come by now (longer than any lease) will not come.
ANSWER_S = 660.0
_MARK = "wcache-parts:"
_PACKED = "wcache-packed:"


class CephKeys:
    """The mons' store as far as it is this module's; values are texts, None removes a key."""

    def __init__(self, mgr: Mgr) -> None:
        self._mgr = mgr

    def get_store(self, key: str) -> Optional[str]:
        """The value of a key, from the mgr's copy."""
        return self._mgr.get_store(key)

    def get_store_prefix(self, key_prefix: str) -> Dict[str, str]:
        """All keys that start with a prefix, with their values, from the mgr's copy."""
        return self._mgr.get_store_prefix(key_prefix)

    def put_key(self, key: str, val: Optional[str]) -> None:
        """`config-key set` or `rm`; waits for the mons, and raises StorageError."""
        try:
            put_config_key(self._mgr, key, val, ANSWER_S)
        except CommandFailed as failure:
            raise StorageError(
                f"{key} is not stored: {failure}", "check `ceph health` and the mons' disks"
            ) from None


def _damaged(key: str) -> StorageError:
    return StorageError(f"stored value {one_line(key, KEY_SHOWN_MAX)} is damaged")


class KvStore:
    """Whole values over keys of bounded size.  Writes wait for the mons."""

    def __init__(self, kv: CephKeys) -> None:
        self._kv = kv

    def get(self, key: str) -> Optional[str]:
        """The value; StorageError where a part is missing or damaged."""
        head = self._kv.get_store(key)
        if head is None or not head.startswith((_MARK, _PACKED)):
            return head
        try:
            if head.startswith(_PACKED):
                return _unpacked(_decoded(head[len(_PACKED):]))
            _, count, digest = head.split(":")
            parts = range(min(int(count), PARTS_MAX))
            texts = [self._kv.get_store(_part(key, digest, index)) or "" for index in parts]
            packed = _decoded("".join(texts))
            text = _unpacked(packed)
        except (ValueError, zlib.error):
            raise _damaged(key) from None
        if hashlib.sha256(packed).hexdigest() != digest:
            raise _damaged(key)
        return text

    def put(self, key: str, text: str) -> bool:
        """Store a value; StorageError where the mons did not take all of it.

        Returns whether the mgr's copy shows it already.
        """
        old = self._kv.get_store(key)
        head, parts = _cut(key, text)
        for name, part in parts.items():
            self._kv.put_key(name, part)
        # The head comes last and the old parts go after it: whenever the mgr is lost, a
        # reader sees the old value or the new one.
        self._kv.put_key(key, head)
        if parts or (old is not None and old.startswith(_MARK)):
            self._sweep(key, keep=parts)
        return self._kv.get_store(key) == head

    def _sweep(self, key: str, keep: Mapping[str, str]) -> None:
        """Remove the parts of older values (and of writes that were cut off)."""
        for part in list(self._kv.get_store_prefix(f"{key}#")):
            if part not in keep:
                self._kv.put_key(part, None)

    def delete(self, key: str) -> bool:
        """Remove a value with its parts; returns whether the mgr's copy shows it already."""
        if self._kv.get_store(key) is not None:
            self._kv.put_key(key, None)
        self._sweep(key, keep={})
        return self._kv.get_store(key) is None

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


def _cut(key: str, text: str) -> Tuple[str, Dict[str, str]]:
    """What is stored under the key itself, and the parts under names of their own."""
    if len(text) < PACKED_FROM_CHARS and not text.startswith((_MARK, _PACKED)):
        return text, {}
    plain = text.encode("utf-8")
    packed = zlib.compress(plain, 6)
    encoded = base64.b64encode(packed).decode("ascii")
    cut: List[str] = [encoded[i:i + PART_CHARS] for i in range(0, len(encoded), PART_CHARS)]
    if len(cut) > PARTS_MAX or len(plain) >= UNPACKED_BYTES_MAX:
        raise StorageError(f"value {key} is too large to be stored")
    if len(cut) == 1:
        return _PACKED + encoded, {}
    digest = hashlib.sha256(packed).hexdigest()
    parts = {_part(key, digest, index): part for index, part in enumerate(cut)}
    return f"{_MARK}{len(cut)}:{digest}", parts


def _unpacked(packed: bytes) -> str:
    """What was packed; ValueError where that is cut off, or more than is ever stored."""
    stream = zlib.decompressobj()
    plain = stream.decompress(packed, UNPACKED_BYTES_MAX)
    if not stream.eof:
        raise ValueError("it is cut off or too large")
    return plain.decode("utf-8")


def _decoded(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _part(key: str, digest: str, index: int) -> str:
    """Parts are named after their value, so a new value never overwrites an old one's."""
    return f"{key}#{digest[:16]}.{index}"
