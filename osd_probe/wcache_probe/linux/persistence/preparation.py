"""Whether a drive's pin comes back with the drive: what `prepare` left, checked cheaply.

A drive is prepared where the boot rule names it and every initramfs image of the host has
that rule as it is now.  Looking into an image takes a second, so `prepare` records which
images it has looked into; one that was made since counts as lacking the rule.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from typing import FrozenSet, Optional, Protocol, Sequence, Tuple

from wcache.core import codec
from wcache.core.errors import MalformedError, RefusedError

from ..block.host_files import read_bytes
from .boot_rule import FILE_NAME, is_ours, line_of, lines_of
from .images import IMAGES_MAX, Image, booted_from_elsewhere, find_images
from .own_file import write_whole

RULES_FOLDER = "etc/udev/rules.d"
RECORD_NAME = "prepared.json"
RECORD_VERSION = 1
RECORD_BYTES_MAX = 100_000
RULE_BYTES_MAX = 1_000_000
ADVICE = "run `wcache-probe prepare` on this host"


@dataclass(frozen=True)
class Record:
    """What `prepare` saw when it was done."""

    version: int
    rule_sha256: str
    images: Tuple[Image, ...] = field(default=(), metadata={"max_items": IMAGES_MAX})
    image_elsewhere: bool = False  # an admin says that the image is on another machine


@dataclass(frozen=True)
class Prepared:
    """One look: which lines the rule has, or why none of them counts."""

    lines: FrozenSet[str]
    trouble: str = ""

    def refusal(self, wwid: str) -> str:
        """Why a pinnable drive may not be toggled; empty where its pin comes back with it."""
        try:
            line = line_of(wwid)
        except RefusedError as error:
            return f"{error.message}, so nothing would pin it when it appears again"
        if line not in self.lines:
            return f"the boot rule does not name it: {ADVICE}"
        return f"{self.trouble}: {ADVICE}" if self.trouble else ""


class BootPins(Protocol):
    """Knows which drives the next boot pins."""

    def refusal(self, wwid: str) -> str:
        """Why a pinnable drive may not be toggled; empty where its pin comes back with it."""


class Preparation:
    """The boot rule of the host whose root is `root`, and the record in a state folder."""

    def __init__(self, root: str, state_dir: str, sys: str = "/sys") -> None:
        self.root = root
        self._sys = sys
        self.rule_path = os.path.join(root, RULES_FOLDER, FILE_NAME)
        self._record_path = os.path.join(state_dir, RECORD_NAME)

    def rule_text(self) -> str:
        """The rule file as it is; empty where there is none."""
        return (read_bytes(self.rule_path, RULE_BYTES_MAX) or b"").decode("utf-8", "replace")

    def look(self) -> Prepared:
        """What holds now."""
        text = self.rule_text()
        if not text:
            return Prepared(frozenset())
        return Prepared(lines_of(text), self._trouble(text))

    def _trouble(self, text: str) -> str:
        record = self.record()
        if not is_ours(text):
            return f"{self.rule_path} is not as wcache-probe wrote it"
        if record is None or record.rule_sha256 != digest(text):
            return f"{self.rule_path} has changed since the images were checked"
        images = find_images(self.root)
        new = [image.path for image in images if image not in record.images]
        if new:
            return f"{new[0]} is newer than the last check of the images"
        if record.images and not images:
            return "cannot see the host's initramfs images (a container needs the host's /boot)"
        if self.needs_elsewhere(images) and not record.image_elsewhere:
            return "this host's initramfs image is not stored on it"
        return ""

    def record(self) -> Optional[Record]:
        """What `prepare` wrote; None where nothing sound is there."""
        data = read_bytes(self._record_path, RECORD_BYTES_MAX + 1)
        if data is None:
            return None
        try:
            record = codec.loads(
                Record, data.decode("utf-8", "replace"), bytes_max=RECORD_BYTES_MAX,
                what=self._record_path,
            )
        except MalformedError:
            return None
        return record if record.version == RECORD_VERSION else None

    def write_record(self, record: Record) -> None:
        """Say what was seen."""
        write_whole(self._record_path, codec.dumps(record) + "\n", 0o600)

    def needs_elsewhere(self, images: Sequence[Image]) -> bool:
        """Whether the image that this kernel was booted with is not on this host."""
        return booted_from_elsewhere(images, self._sys)

    @property
    def record_path(self) -> str:
        """Where the record is."""
        return self._record_path


def digest(text: str) -> str:
    """A rule's text, in short."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
