"""Where a modelled drive's data lives: a sparse file, and a volatile cache in memory.

What is in the cache is what a power cut takes.  Nothing here knows about time.
"""

from __future__ import annotations

import os
from pathlib import Path

BLOCK_BYTES = 4096


class Medium:
    """Data of one drive; not thread-safe, the caller holds a lock."""

    def __init__(self, path: Path, size_bytes: int, cache_bytes: int) -> None:
        if size_bytes <= 0 or size_bytes % BLOCK_BYTES:
            raise ValueError(f"a drive's size is a multiple of {BLOCK_BYTES}, not {size_bytes}")
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.ftruncate(self._fd, size_bytes)
        self.size_bytes = size_bytes
        self._cache_blocks_max = max(1, cache_bytes // BLOCK_BYTES)
        # in the order they became dirty, so that a full cache destages its oldest block
        self._cache: dict[int, bytearray] = {}

    @property
    def dirty_blocks(self) -> int:
        return len(self._cache)

    def read(self, offset: int, length: int) -> bytearray:
        data = bytearray(os.pread(self._fd, length, offset))
        if self._cache:
            for block, start, stop, inside in _blocks(offset, length):
                cached = self._cache.get(block)
                if cached is not None:
                    data[start:stop] = cached[inside : inside + stop - start]
        return data

    def write_cached(self, offset: int, data: bytes | memoryview) -> None:
        """Take a write into the volatile cache only."""
        for block, start, stop, inside in _blocks(offset, len(data)):
            cached = self._cache.get(block)
            if cached is None:
                cached = bytearray(os.pread(self._fd, BLOCK_BYTES, block * BLOCK_BYTES))
                self._cache[block] = cached
            cached[inside : inside + stop - start] = data[start:stop]
        while len(self._cache) > self._cache_blocks_max:
            self._destage(next(iter(self._cache)))

    def write_through(self, offset: int, data: bytes | memoryview) -> None:
        """Put a write on the medium; other data cached for the same blocks stays volatile."""
        os.pwrite(self._fd, data, offset)
        if self._cache:
            for block, start, stop, inside in _blocks(offset, len(data)):
                cached = self._cache.get(block)
                if cached is None:
                    continue
                if stop - start == BLOCK_BYTES:
                    del self._cache[block]
                else:
                    cached[inside : inside + stop - start] = data[start:stop]

    def flush(self) -> int:
        """Destage everything; return how many blocks that were."""
        count = len(self._cache)
        for block in sorted(self._cache):
            self._destage(block)
        return count

    def power_cut(self) -> int:
        """Drop everything volatile; return how many blocks that were."""
        count = len(self._cache)
        self._cache.clear()
        return count

    def close(self) -> None:
        os.close(self._fd)

    def _destage(self, block: int) -> None:
        os.pwrite(self._fd, self._cache.pop(block), block * BLOCK_BYTES)


def _blocks(offset: int, length: int) -> list[tuple[int, int, int, int]]:
    """Split a range into ``(block, start, stop, inside)``.

    ``start:stop`` is the slice of the caller's data, ``inside`` its place in the block.
    """
    pieces = []
    position = 0
    while position < length:
        block, inside = divmod(offset + position, BLOCK_BYTES)
        stop = min(length, position + BLOCK_BYTES - inside)
        pieces.append((block, position, stop, inside))
        position = stop
    return pieces
