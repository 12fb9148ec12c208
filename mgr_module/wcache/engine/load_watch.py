"""The load profiles of measured OSDs, from readings of their counters at intervals.

Only OSDs that a result stands on are read, so that the cost does not grow with the
cluster.  A profile is that of one OSD, and counts for the measured drives that are under it
now: a purged OSD's load says nothing of the OSD that gets its id.  Readings come from the
OSD itself and may take long: they have a thread of their own, and nothing waits for it.
"""

from __future__ import annotations

import threading
from typing import Callable, Dict, List, Optional, Tuple

from ..core.errors import WcacheError
from ..core.verdict.load_profile import LoadProfile, WorkCounters, add, bound
from .config_watch import Repeating
from .storing.archive import PROFILE, Archive
from .world import World

EVERY_S = 600.0
# A week of hours is 8 kB, and the mons carry it.
OSDS_MAX = 128
STORE_EVERY = 6  # readings; an hour is lost at worst


class LoadWatch(Repeating):
    """Load profiles by OSD, read in a thread of their own and stored hourly.

    `work` says what an OSD's counters are now; None where they cannot be read.
    """

    def __init__(
        self, *, work: Callable[[int], Optional[WorkCounters]], archive: Archive,
        world: Callable[[], World], log: Callable[[str], None],
    ) -> None:
        self._work_of = work
        self._archive = archive
        self._world = world
        self._log = log
        self._lock = threading.Lock()
        self._profiles: Dict[int, LoadProfile] = {}
        self._last: Dict[int, Tuple[str, WorkCounters]] = {}  # with the OSD's uuid
        self._readings = 0
        super().__init__("wcache-load-watch", self.read, self._failed, lambda: EVERY_S)

    def load(self) -> None:
        with self._lock:
            self._profiles = self._archive.numbered(PROFILE)

    def profiles(self, world: World) -> Dict[Tuple[str, str], Dict[int, LoadProfile]]:
        """By (device class, drive model) the profiles of the OSDs now on its measured drives.

        Asks for results and OSDs alone, for the engine's lock may be held.
        """
        with self._lock:
            profiles = dict(self._profiles)
        osds = world.osds_now if profiles else {}
        found: Dict[Tuple[str, str], Dict[int, LoadProfile]] = {}
        for result in world.real_results if profiles else ():
            profile, osd = profiles.get(result.osd_id), osds.get(result.osd_id)
            if profile is not None and osd is not None and (
                (result.hostname, result.drive_id) in osd.drives
            ):
                mine = found.setdefault((result.device_class, str(result.drive_model)), {})
                # a new one where the OSD that has the id now is another one
                mine[result.osd_id] = bound(profile, osd.uuid)
        return found

    def by_osd(self) -> Dict[int, LoadProfile]:
        """Profiles by OSD, of those now on a drive that was measured."""
        each = self.profiles(self._world()).values()
        return {osd_id: profile for mine in each for osd_id, profile in mine.items()}

    def read(self) -> None:
        """One reading of every OSD that was measured; stored now and then."""
        # the newest results first: what was measured last is what is being decided
        world = self._world()
        newest = sorted(world.real_results, key=lambda r: (-r.ended_at_s, r.osd_id))
        ids = list(dict.fromkeys(r.osd_id for r in newest))[:OSDS_MAX]
        osds = world.osds_now if ids else {}
        for osd_id in ids:
            if self.stopped:
                return
            now = self._work_of(osd_id) if osd_id in osds else None
            if now is None:
                continue
            uuid = osds[osd_id].uuid
            with self._lock:
                before = self._last.get(osd_id)
                self._last[osd_id] = (uuid, now)
                known = self._profiles.get(osd_id)
                if known is not None:
                    self._profiles[osd_id] = known = bound(known, uuid)
                if before is not None and before[0] == uuid:
                    known = known or LoadProfile((), uuid)
                    self._profiles[osd_id] = add(known, before[1], now)
        self._readings += 1
        if self._readings % STORE_EVERY == 0:
            self._store(ids)

    def _store(self, ids: List[int]) -> None:
        with self._lock:
            due = {osd_id: self._profiles[osd_id] for osd_id in ids if osd_id in self._profiles}
            gone = [osd_id for osd_id in self._profiles if osd_id not in due]
            for osd_id in gone:  # no result stands on it any more, or too many do
                del self._profiles[osd_id]
                self._last.pop(osd_id, None)
        for osd_id in gone:
            self._archive.drop(PROFILE, str(osd_id))
        for osd_id, profile in due.items():
            self._archive.put_later(PROFILE, profile, str(osd_id))

    def _failed(self, error: Exception) -> None:
        said = error.line() if isinstance(error, WcacheError) else repr(error)
        self._log(f"load profiles: {said}")
