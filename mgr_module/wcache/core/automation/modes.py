"""What `ceph wcache auto` allows, by device class."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Optional, Tuple


class Mode(str, Enum):
    """What may be begun without an admin."""

    OFF = "off"
    RECOMMEND = "recommend"  # measure
    APPLY = "apply"  # measure, and carry out what is recommended


@dataclass(frozen=True)
class ClassMode:
    """The mode of a device class; that of "" is of all that have none of their own."""

    device_class: str
    mode: Mode


Modes = Tuple[ClassMode, ...]


def mode_of(modes: Modes, device_class: str) -> Mode:
    """What is allowed in a device class."""
    by_class = {item.device_class: item.mode for item in modes}
    return by_class.get(device_class, by_class.get("", Mode.OFF))


def with_mode(modes: Modes, device_class: Optional[str], mode: Mode) -> Modes:
    """The modes after an admin has set one; without a class it is that of all."""
    if not device_class:
        return (ClassMode("", mode),)
    kept = tuple(item for item in modes if item.device_class != device_class)
    return (*kept, ClassMode(device_class, mode))


def any_on(modes: Modes) -> bool:
    """Whether anything at all may be begun."""
    return any(item.mode is not Mode.OFF for item in modes)
