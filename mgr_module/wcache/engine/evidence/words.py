"""The hosts whose evidence of a drive model an admin has accepted for all hosts."""

from __future__ import annotations

from typing import Dict, Optional, Tuple

from ...core.drive.host_words import AcceptedWord, AcceptedWords
from ...core.ports import Done
from ..storing.archive import Archive

# The name under which it is stored.
WORDS = "accepted-words"
Key = Tuple[str, str]


class Words:
    """By hostname and drive model; guarded by the engine's lock."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._words: Dict[Key, AcceptedWord] = {}

    def load(self) -> None:
        """Take up what was stored."""
        found = self._archive.accepted_words()
        self._words = {(item.hostname, item.drive_model): item for item in found.items}

    def all(self) -> Tuple[AcceptedWord, ...]:
        """Every accepted word, in a stable order."""
        return tuple(self._words[key] for key in sorted(self._words))

    def of(self, hostname: str, drive_model: str) -> Optional[AcceptedWord]:
        """The word for what one host has shown, or None."""
        return self._words.get((hostname, drive_model))

    def add(self, item: AcceptedWord) -> None:
        """Accept what a host has shown until now; replaces what was accepted of it before."""
        self._words[(item.hostname, item.drive_model)] = item

    def remove(self, hostname: str, drive_model: str) -> None:
        """Accept it no more."""
        del self._words[(hostname, drive_model)]

    def put(self, done: Done) -> None:
        """Store all of them."""
        self._archive.put_accepted_words(AcceptedWords(self.all()), done)
