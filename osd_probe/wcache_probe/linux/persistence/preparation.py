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

from ...safe_files import write_whole
from ..block.host_files import HostFiles, printable, read_bytes, read_table, read_text
from ..block.mounts import NETWORK, kept_in_ram, mount_of, mounts
from .boot_rule import FILE_NAME, NOTE_FILE, is_ours, line_of, lines_of, note_of
from .images import IMAGES_MAX, BootedBy, Image, booted_by, find_images

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
    boot_id: str = ""  # the boot in which it was done; empty in a record of an older version


@dataclass(frozen=True)
class Prepared:
    """One look: which lines the rule has, or why none of them counts."""

    lines: FrozenSet[str]
    trouble: str = ""
    journal_lost: str = ""  # why the next boot would have nothing of the journal

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
    """Knows which drives the next boot pins, and whether it has the journal."""

    @property
    def journal_lost(self) -> str:
        """Why the next boot would have nothing of the journal; empty where it would."""

    def refusal(self, wwid: str) -> str:
        """Why a pinnable drive may not be toggled; empty where its pin comes back with it."""


class Preparation:
    """The boot rule of the host whose root is `root`, and the record in a state folder."""

    def __init__(self, root: str, state_dir: str, files: Optional[HostFiles] = None) -> None:
        self.root = root
        self._files = files or HostFiles()
        self.rule_path = os.path.join(root, RULES_FOLDER, FILE_NAME)
        self._state_dir = state_dir
        self._record_path = os.path.join(state_dir, RECORD_NAME)

    def rule_text(self) -> str:
        """The rule file as it is; empty where there is none."""
        return (read_bytes(self.rule_path, RULE_BYTES_MAX) or b"").decode("utf-8", "replace")

    def look(self) -> Prepared:
        """What holds now."""
        text, lost = self.rule_text(), self.journal_lost()
        if not text:
            return Prepared(frozenset(), journal_lost=lost)
        return Prepared(lines_of(text), self._trouble(text), lost)

    def journal_lost(self) -> str:
        """Why the next boot would have nothing of the journal; empty where it would."""
        kind = kept_in_ram(self._files, self._state_dir, self.root)
        if not kind:
            return ""
        return (
            f"what was there before would be lost at the next boot, since {self._state_dir} is on "
            f"{kind}: give the probe a --state-dir on a disk"
        )

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
        return "" if record.image_elsewhere else self.elsewhere(images)

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
        write_whole(self._record_path, codec.dumps(record) + "\n", make=0o700)

    def elsewhere(self, images: Sequence[Image]) -> str:
        """Why only an admin can say that the next boot has the rule; empty where it is seen."""
        rules = os.path.dirname(self.rule_path)
        kind = kept_in_ram(self._files, rules, self.root)
        if kind:
            return f"{rules} is on {kind}, of which the next boot has nothing"
        booted = self.booted_by(images)
        if booted is BootedBy.ELSEWHERE:
            return "this host's initramfs image is not stored on it"
        if booted is BootedBy.HERE or self.noted():
            return ""
        record = self.record()
        if record is not None and record.image_elsewhere:
            return "this host's initramfs image is not stored on it, as an admin has said"
        if self._should_be_noted(record):
            return "this host was booted by an image that is not stored on it and lacks the rule"
        return ""

    def root_from_network(self) -> bool:
        """Whether the rule lies on a file system of the network, as the image then may."""
        mount = mount_of(mounts(self._files.proc), os.path.dirname(self.rule_path))
        return mount is not None and mount.kind in NETWORK

    def booted_by(self, images: Sequence[Image]) -> BootedBy:
        """Which image this kernel was given, by the kernel's own figures."""
        return booted_by(images, self.root, self._files)

    def noted(self) -> bool:
        """Whether udev's database has the note that this very rule ran in an initramfs."""
        note = note_of(self.rule_text())
        path = os.path.join(self._files.run, NOTE_FILE)
        return bool(note) and f"E:{note}" in read_table(path)

    def _should_be_noted(self, record: Optional[Record]) -> bool:
        """Whether the image of this boot would have left the note, had it been one of ours.

        It is not known of the boot in which `prepare` made this rule, nor where udev's database
        is not to be seen.
        """
        text = self.rule_text()
        if record is None or not record.images or not record.boot_id or not note_of(text):
            return False
        if record.rule_sha256 != digest(text) or self.boot_id() in ("", record.boot_id):
            return False
        return os.path.isdir(os.path.join(self._files.run, os.path.dirname(NOTE_FILE)))

    def boot_id(self) -> str:
        """Which boot of the host this is; empty where the kernel does not say."""
        path = os.path.join(self._files.proc, "sys/kernel/random/boot_id")
        return printable(read_text(path) or "")

    @property
    def record_path(self) -> str:
        """Where the record is."""
        return self._record_path


def digest(text: str) -> str:
    """A rule's text, in short."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
