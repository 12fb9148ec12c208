"""What an admin has accepted, until its journal entries are gone: kept over a mgr's end.

The mons have it before the probe hears of it, so that no later mgr restores what is given up.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Dict, List, Mapping, Optional

from ..core.change.change_status import ChangeStatus
from ..core.change.rollout import RolloutMachine
from ..core.drive.journal import Acceptance, Acceptances
from ..core.experiment.run import RunMachine
from ..core.fleet.disputes import Key
from ..core.host_report import HostReport
from ..core.protocol import AcceptRequest, Request
from .persistence import StatePersistence
from .storing.archive import ACCEPTED, Archive

# How often a probe is asked to drop what it still has.
ASK_EVERY_S = 60.0


class Accepting:
    """Guarded by the engine's lock."""

    def __init__(self, archive: Archive, persistence: StatePersistence) -> None:
        self._archive = archive
        self._persistence = persistence
        self._pending: Dict[Key, Acceptance] = {}
        self._asked_at_s: Dict[Key, float] = {}

    def load(
        self, runs: Mapping[str, RunMachine], rollouts: Mapping[str, RolloutMachine]
    ) -> List[str]:
        """Take up what was stored: ids of runs and plans that it changed."""
        items = (self._archive.get(ACCEPTED) or Acceptances()).items
        self._pending = {(item.hostname, item.domain_id): item for item in items}
        return [owner for item in items for owner in settle(item, runs, rollouts)]

    def add(self, item: Acceptance) -> None:
        """Store it, then ask the probe; one that is there already is asked for again."""
        key = (item.hostname, item.domain_id)
        self._asked_at_s.pop(key, None)
        old = self._pending.get(key)
        if old is not None:
            keys, owners = {*old.keys, *item.keys}, {*old.owners, *item.owners}
            item = replace(item, keys=tuple(sorted(keys)), owners=tuple(sorted(owners)))
        if item != old:
            self._pending[key] = item
            self.save()

    def all(self) -> Dict[Key, Acceptance]:
        """What waits, by domain."""
        return dict(self._pending)

    def save(self) -> None:
        """Store all that waits."""
        self._persistence.save_value(ACCEPTED, Acceptances(tuple(self._pending.values())))

    def request(self, hostname: str, now_s: float) -> Optional[Request]:
        """What a probe should drop now: only what the mons know to be given up."""
        for key, item in self._pending.items():
            due = now_s - self._asked_at_s.get(key, float("-inf")) >= ASK_EVERY_S
            stored = all(map(self._persistence.is_stored, (ACCEPTED.prefix, *item.owners)))
            if item.hostname == hostname and due and stored:
                self._asked_at_s[key] = now_s
                return AcceptRequest(item.domain_id, item.keys)
        return None

    def read(self, report: HostReport) -> None:
        """A host has reported its journal: what is not in it any more is done."""
        there = {note.key for note in report.journal}
        done = [
            key for key, item in self._pending.items()
            if item.hostname == report.hostname and not there & set(item.keys)
            and all(map(self._persistence.is_stored, item.owners))
        ]
        self._drop(done)

    def forget(self, hostname: str) -> None:
        """A host that is gone has no journal."""
        self._drop([key for key in self._pending if key[0] == hostname])

    def _drop(self, keys: List[Key]) -> None:
        for key in keys:
            del self._pending[key]
        if keys:
            self.save()


def settle(
    item: Acceptance, runs: Mapping[str, RunMachine], rollouts: Mapping[str, RolloutMachine]
) -> List[str]:
    """Give up what runs and plans owe of a domain: ids of those that this changes."""
    changed = []
    for owner in item.owners:
        run, plan = runs.get(owner), rollouts.get(owner)
        if run is not None and item.domain_id not in run.state.accepted:
            run.state = replace(run.state, accepted=(*run.state.accepted, item.domain_id))
            changed.append(owner)
        if plan is None:
            continue
        key = (item.hostname, item.domain_id)
        changes = tuple(
            replace(c, status=ChangeStatus.ACCEPTED)
            if (c.hostname, c.domain_id) == key and c.status in _OWING else c
            for c in plan.rollout.changes
        )
        if changes != plan.rollout.changes:
            plan.rollout = replace(plan.rollout, changes=changes)
            changed.append(owner)
    return changed


_OWING = (ChangeStatus.APPLYING, ChangeStatus.ROLLBACK_FAILED)
