"""Keeps in which setting of the caches each of mClock's stored values was first seen."""

from __future__ import annotations

from typing import Dict, List, Tuple

from ...core.config_database import Config
from ...core.fleet.claims import believed
from ...core.knobs.mclock.capacity import settings
from ...core.knobs.mclock.config import Known, see
from ..engine import Engine
from ..storing.archive import Archive


class MclockKnown:
    """Told of each reading of the config database, from its thread."""

    def __init__(self, engine: Engine, archive: Archive) -> None:
        self._engine = engine
        self._archive = archive
        self.known: Dict[Tuple[str, str], Known] = {}
        engine.config.on_read.append(self.see)

    def load(self) -> None:
        """Take up what was stored."""
        with self._engine.lock:
            self.known = {(k.who, k.name): k for k in self._archive.mclock_known()}

    def see(self, config: Config) -> None:
        """Compare a reading with what was seen before."""
        engine = self._engine
        cluster = engine.view.cluster()
        with engine.lock:
            reports = believed(engine.hosts.reports.values(), cluster)
            moving = moving_domains(engine)
        known = see(self.known, config, cluster.osds, settings(reports, moving))
        if known != self.known:
            with engine.lock:
                self.known = known
                self._archive.put_mclock_known(tuple(known.values()))
        engine.wake()


def moving_domains(engine: Engine) -> List[Tuple[str, str]]:
    """(hostname, domain id) of what experiments and plans are toggling now."""
    with engine.lock:
        held = [
            (m.spec.hostname, domain_id) for m in engine.runs.values() if m.holds_lease
            for domain_id in m.spec.domain_ids
        ]
        held += [
            (change.hostname, change.domain_id)
            for machine in engine.rollouts.values() if not machine.over
            for change in machine.rollout.drive_changes
        ]
    return held
