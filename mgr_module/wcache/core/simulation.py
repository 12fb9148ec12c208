"""What differs for simulated drives, in one place.

A simulated host tells of drives and OSDs that it has made up.  The cluster does not know those
OSDs, an id of theirs may be that of a real one, and no client waits for them.  The probe
measures them itself, and their time passes faster than ours.
"""

from __future__ import annotations

from typing import Collection, Iterable, List, NamedTuple, Optional, Protocol, TypeVar

from .cluster import ClusterState, OsdInfo
from .model import DriveModel
from .record import Precondition


class MayBeSimulated(Protocol):
    """A host's report, and what comes of it: a run, its setup, a result, a change."""

    @property
    def simulated(self) -> bool:
        """Whether a simulated host told of it."""


Item = TypeVar("Item", bound=MayBeSimulated)


def is_real(item: MayBeSimulated) -> bool:
    """Whether it is of real drives: only those prove something, and outlast a test."""
    return not item.simulated


def real(items: Iterable[Item]) -> List[Item]:
    """Those of real drives."""
    return [item for item in items if is_real(item)]


def all_simulated(items: Iterable[MayBeSimulated]) -> bool:
    """Whether no real drive is concerned: the cluster's state says nothing of them then."""
    return all(item.simulated for item in items)


def in_cluster(item: MayBeSimulated) -> bool:
    """Whether its OSDs are those of the cluster, whose state, load and settings concern them."""
    return not item.simulated


def osd_of(item: MayBeSimulated, osd_id: int, cluster: ClusterState) -> Optional[OsdInfo]:
    """An OSD as the cluster knows it; None where it does not, or where it is made up."""
    return cluster.osds.get(osd_id) if in_cluster(item) else None


def not_up(item: MayBeSimulated, osd_ids: Iterable[int], cluster: ClusterState) -> str:
    """Which OSD is not up and so cannot be measured; '' where none.  Made-up ones always are."""
    for osd_id in sorted(osd_ids) if in_cluster(item) else ():
        osd = cluster.osds.get(osd_id)
        if osd is None or not osd.up:
            return f"osd.{osd_id} is not up"
    return ""


def illness(
    item: MayBeSimulated, osd_ids: Iterable[int], cluster: ClusterState,
    bears: Collection[Precondition] = (),
) -> str:
    """Why OSDs are neither measured nor changed now; "" where all are well.  Made-up ones are."""
    found = cluster.illness(osd_ids, bears) if in_cluster(item) else {}
    return "; ".join(f"osd.{osd_id} {why}" for osd_id, why in found.items())


def measured_by_probe(item: MayBeSimulated) -> bool:
    """Whether the probe measures the OSDs too; of a real cluster the mgr does."""
    return item.simulated


def has_clients(item: MayBeSimulated) -> bool:
    """Whether clients may wait for the OSDs: their load can judge, and a step must not hurt."""
    return not item.simulated


def on_our_clock(item: MayBeSimulated) -> bool:
    """Whether what is measured takes as long by our clock as by its own."""
    return not item.simulated


class HasDriveKind(MayBeSimulated, Protocol):
    """What concerns drives of one kind: a result, a recommendation, a change."""

    @property
    def device_class(self) -> str:
        """The CRUSH device class of the OSDs."""

    @property
    def drive_model(self) -> Optional[DriveModel]:
        """Vendor, model and firmware."""


class DriveKind(NamedTuple):
    """Drives that are measured and judged together; simulated ones never with real ones."""

    device_class: str
    drive_model: str
    simulated: bool

    @classmethod
    def of(cls, item: HasDriveKind) -> DriveKind:
        """The kind of drive that a result, a recommendation or a change is about."""
        return cls(item.device_class, str(item.drive_model), item.simulated)

    @property
    def home(self) -> DriveKind:
        """The kind as hosts tell of it: no cluster gives a simulated drive a device class."""
        return self._replace(device_class="") if self.simulated else self

    @property
    def in_any_class(self) -> DriveKind:
        """The same drive model, whatever its device class."""
        return self._replace(device_class="")
