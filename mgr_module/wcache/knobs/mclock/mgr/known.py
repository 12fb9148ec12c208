"""Keeps in which setting of the caches each of mClock's stored values was first seen."""

from __future__ import annotations

from typing import Dict, Tuple

from ....core.config_database import Config
from ....engine.engine import Engine
from ....engine.storing.archive import Archive, StoredKind
from ..capacity import settings
from ..config import Known, Knowns, see

KNOWN = StoredKind("mclock/known", Knowns)


class MclockKnown:
    """Told of each reading of the config database, from its thread."""

    def __init__(self, engine: Engine, archive: Archive) -> None:
        self._engine = engine
        self._archive = archive
        self.known: Dict[Tuple[str, str], Known] = {}  # replaced as a whole
        engine.config.on_read.append(self.see)

    def load(self) -> None:
        """Take up what was stored."""
        found = self._archive.get(KNOWN) or Knowns()
        self.known = {(k.who, k.name): k for k in found.items}

    def see(self, config: Config) -> None:
        """Compare a reading with what was seen before."""
        world = self._engine.world()
        moving = world.leased | world.changing
        known = see(
            self.known, config, world.cluster.osds, settings(world.believed_reports, moving)
        )
        if known != self.known:
            self.known = known
            self._archive.put_later(KNOWN, Knowns(tuple(known.values())))
        self._engine.wake()
