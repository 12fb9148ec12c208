"""What differs for simulated drives, in one place.

A simulated host tells of drives and OSDs that it has made up.  The cluster does not know those
OSDs, an id of theirs may be that of a real one, and no client waits for them.  The probe
measures them itself, and their time passes faster than ours.
"""

from __future__ import annotations

from typing import Protocol


class MayBeSimulated(Protocol):
    """What a host has told of, or what comes of it."""

    @property
    def simulated(self) -> bool:
        """Whether a simulated host told of it."""


class OfDrives:
    """A host's report, and what comes of it: a run, its setup, a result, a change."""

    @property
    def real(self: MayBeSimulated) -> bool:
        """Whether it is of real drives: the cluster knows only theirs, and only they prove."""
        return not self.simulated

    @property
    def has_clients(self: MayBeSimulated) -> bool:
        """Whether clients may wait for the OSDs: their load can judge, and a step must not hurt."""
        return not self.simulated

    @property
    def measured_by_probe(self: MayBeSimulated) -> bool:
        """Whether the probe measures the OSDs too; of a real cluster the mgr does."""
        return self.simulated

    @property
    def on_our_clock(self: MayBeSimulated) -> bool:
        """Whether what is measured takes as long by our clock as by its own."""
        return not self.simulated
