"""What the knob `mclock` keeps over a mgr restart."""

from __future__ import annotations

from typing import Dict, Tuple

from ....engine.storing.archive import Archive
from ..capacity import Measurement
from ..config import Known, Knowns


class MclockArchive:
    """Capacities that were measured, and what the stored values were seen with."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    def capacities(self) -> Dict[int, Measurement]:
        """The newest measured mClock capacity of each OSD."""
        return self._archive.numbered(Measurement, "capacity")

    def put_capacity(self, measurement: Measurement) -> None:
        """Store an OSD's measured capacity."""
        self._archive.put_later(f"capacity/{measurement.osd_id}", measurement)

    def drop_capacity(self, osd_id: int) -> None:
        """Remove a capacity."""
        self._archive.drop(f"capacity/{osd_id}")

    def known(self) -> Tuple[Known, ...]:
        """The stored values of mClock as they were first seen."""
        found = self._archive.load_one(Knowns, "mclock/known")
        return found.items if found is not None else ()

    def put_known(self, known: Tuple[Known, ...]) -> None:
        """Store when the values of mClock were first seen."""
        self._archive.put_later("mclock/known", Knowns(known))
