"""The kind of a drive: what is measured, judged and changed together."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from .simulation import MayBeSimulated, OfDrives


class DriveKind(NamedTuple):
    """Drives that are measured and judged together; simulated ones never with real ones."""

    device_class: str
    drive_model: str
    simulated: bool

    @property
    def real(self) -> bool:
        """Whether they exist."""
        return not self.simulated

    @property
    def home(self) -> DriveKind:
        """The kind as hosts tell of it: no cluster gives a simulated drive a device class."""
        return self._replace(device_class="") if self.simulated else self

    @property
    def in_any_class(self) -> DriveKind:
        """The same drive model, whatever its device class."""
        return self._replace(device_class="")


class _HasKind(MayBeSimulated, Protocol):
    @property
    def device_class(self) -> str:
        """The CRUSH device class of the OSDs."""

    @property
    def drive_model(self) -> object:
        """Vendor, model and firmware; a text of it is enough."""


class OfDriveKind(OfDrives):
    """What concerns drives of one kind: a result, a recommendation, a change."""

    @property
    def kind(self: _HasKind) -> DriveKind:
        """The kind of drive that it is about."""
        return DriveKind(self.device_class, str(self.drive_model), self.simulated)
