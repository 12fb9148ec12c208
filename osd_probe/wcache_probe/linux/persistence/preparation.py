"""Whether a drive's way back comes back with it at the next boot: its journal, its pin.

A drive is prepared where the boot rule names it, every initramfs image of the host has that rule
as it is now, and a boot has proven that the host boots such an image: either its kernel is seen
to have been given an image of this host, or this boot left the note of the rule.  Looking into an
image takes a second, so `prepare` records which images it has looked into; one that was made
since counts as lacking the rule.  Leases, plans, `ab`, `prove` and what lasts all ask `look`.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field, replace
from typing import AbstractSet, ClassVar, FrozenSet, Optional, Sequence, Tuple

from wcache.core import versions
from wcache.core.drive.safety import FOR_THE_NEXT_BOOT, boots_with_rule, may_be_pinned, not_named
from wcache.core.drive.saved_off import how_to_name, saves_off
from wcache.core.errors import (
    MalformedError,
    Refusal,
    RefusalKind,
    RefusedError,
    VersionError,
    left,
)
from wcache.core.model import (
    Cure,
    DeviceCache,
    DriveReport,
    Finding,
    FindingCode,
    Severity,
    Transport,
)
from wcache.core.text import named

from ...safe_files import read_bytes, write_whole
from ..block.host_files import HostFiles, kept_in_ram, read_table
from .how_booted import Booted, BootedBy, booted_by
from .images import IMAGES_MAX, KERNELS_MAX, Image, find_images, find_kernels
from .udev_rule import (
    FILE_NAME,
    NOTE,
    NOTE_FILE,
    RULE_BYTES_MAX,
    is_ours,
    lines_for,
    lines_naming,
    lines_of,
    names_in,
    names_of,
    note_for,
    note_of,
    pattern,
)

RULES_FOLDER = "etc/udev/rules.d"
RECORD_NAME = "prepared.json"
RECORD_VERSION = 2
RECORD_BYTES_MAX = 1_000_000
NAMES_MAX = 2048
ADVICE = "run `wcache-probe prepare` on this host"
NOT_NAMED = f"the boot rule does not name it: {ADVICE}"


@dataclass(frozen=True)
class BootRecord:
    """What `prepare` saw when it was done.

    `boot_id` is the boot in which rule, images and kernels became what they are: a note of a
    later boot speaks of them.  It is empty where no note will: on a host whose root has
    an /init, as an initramfs has.
    """

    VERSION: ClassVar[int] = RECORD_VERSION
    version: int
    rule_sha256: str
    images: Tuple[Image, ...] = field(default=(), metadata={"max_items": IMAGES_MAX})
    kernels: Tuple[Image, ...] = field(default=(), metadata={"max_items": KERNELS_MAX + 1})
    boot_id: str = ""
    image_elsewhere: bool = False  # an admin says that an image of his own has the rule
    seen_in_boot: str = ""  # the boot whose kernel was given an image of this host, or none
    # names in the rule of before, where this boot or an earlier one had left its note
    noted: Tuple[str, ...] = field(default=(), metadata={"max_items": NAMES_MAX})


@dataclass(frozen=True)
class Prepared:
    """One look: which lines the rule has, which a boot has proven, or why none of them counts."""

    lines: FrozenSet[str]
    trouble: str = ""
    journal_lost: str = ""  # why the next boot would have nothing of the journal
    proven: FrozenSet[str] = frozenset()
    unproven: str = ""  # what is said of a line that no boot has proven
    noted: Tuple[str, ...] = ()  # the drives of the rule whose note this boot left

    def refusal(self, name: str) -> str:
        """Why a pinnable drive may not be toggled; empty where its pin comes back with it.

        `name` is one that a kernel may give it (`names_of`).
        """
        try:
            pattern(name)
        except RefusedError as error:
            return f"{error.message}, so nothing would pin it when it appears again"
        lines = lines_naming(name, self.lines)
        if not lines:
            return NOT_NAMED
        if self.trouble:
            return f"{self.trouble}: {ADVICE}"
        return "" if lines & self.proven else self.unproven


class Preparation:
    """The boot rule of the host whose root is `root`, and the record in a state folder."""

    def __init__(self, root: str, state_dir: str, files: Optional[HostFiles] = None) -> None:
        self.root = root
        self._files = files or HostFiles()
        self.rule_path = os.path.join(root, RULES_FOLDER, FILE_NAME)
        self._state_dir = state_dir
        self.record_path = os.path.join(state_dir, RECORD_NAME)

    def rule_text(self) -> str:
        """The rule file as it is; empty where there is none."""
        return (read_bytes(self.rule_path, RULE_BYTES_MAX) or b"").decode("utf-8", "replace")

    def look(self) -> Prepared:
        """What holds now: the one place that says which drives are prepared."""
        text, lost = self.rule_text(), self.journal_lost()
        if not text:
            return Prepared(frozenset(), journal_lost=lost)
        lines, record = lines_of(text), self.record()
        if not is_ours(text):
            return Prepared(lines, f"{self.rule_path} is not as wcache-probe wrote it", lost)
        if record is None or record.rule_sha256 != digest(text):
            trouble = f"{self.rule_path} has changed since the images were checked"
            return Prepared(lines, trouble, lost)
        images = find_images(self.root)
        trouble = _changed(record, images) or self._in_ram(record)
        if trouble:
            return Prepared(lines, trouble, lost)
        booted, trouble = self.booted(images), self._since(record, text)
        noted = () if trouble else self._noted_names(record, text)
        if self._is_seen(booted, record):
            return Prepared(lines, "", lost, lines, noted=noted)
        if trouble:
            return Prepared(lines, trouble, lost)
        proven = lines & lines_for(noted)
        return Prepared(lines, "", lost, proven, self._unproven(record, booted), noted)

    def _is_seen(self, booted: Booted, record: Optional[BootRecord]) -> bool:
        """Whether this kernel was given an image of the host, or one that was made anew since."""
        if booted.by is BootedBy.OTHER_SIZE and record is not None:
            return record.seen_in_boot == self._files.boot_id != ""
        return booted.by in (BootedBy.HERE, BootedBy.NONE)

    def _since(self, record: BootRecord, text: str) -> str:
        """Why no note of this boot could speak of what the next one boots; empty where one can."""
        if self._own_init():
            return "its root has an /init, as an initramfs has, so no note tells when a rule ran"
        if not note_of(text) or not (record.boot_id or record.noted):
            return f"whether this host boots an image with {self.rule_path} is not recorded"
        if find_kernels(self.root) != record.kernels:
            return "the kernels in /boot are not those that the last check saw"
        return ""

    def _unproven(self, record: BootRecord, booted: Booted) -> str:
        why = f"whether it boots an image with the boot rule cannot be told, since {booted.why}"
        if not os.path.isdir(os.path.join(self._files.run, os.path.dirname(NOTE_FILE))):
            return f"{why}, and udev's database is not to be seen (a container needs /run/udev)"
        if self._files.boot_id == record.boot_id:
            return f"{Cure.BOOT_ONCE.value}: {why}; its next boot shows it"
        return f"{why}, and this boot left no note of the boot rule as it is: {ADVICE}"

    def _noted_names(self, record: BootRecord, text: str) -> Tuple[str, ...]:
        """The drives of the rule whose note this boot left; none where that proves nothing.

        It is the rule as it is, had before this boot by what the host may boot; or the one of
        before it, which an image had that is none of this host's.
        """
        note, now = self.note(), self._files.boot_id
        if not note or not now:
            return ()
        if note == note_of(text) and record.boot_id not in ("", now):
            return names_in(text)
        return record.noted if record.noted and note == note_for(record.noted) else ()

    def seen_in_boot(self, images: Sequence[Image]) -> str:
        """This boot, where its kernel is or was seen to be given an image of the host."""
        seen = self._is_seen(self.booted(images), self.record())
        return self._files.boot_id if seen else ""

    def recorded(
        self, rule: str, images: Tuple[Image, ...], seen_in_boot: str, noted: Tuple[str, ...],
        *, image_elsewhere: bool,
    ) -> BootRecord:
        """The record of this rule in these images; what has not changed since keeps its boot."""
        before, kernels = self.record(), find_kernels(self.root)
        boot_id = "" if self._own_init() else self._files.boot_id
        if before is not None and before.boot_id and boot_id:
            seen = (before.rule_sha256, before.images, before.kernels)
            boot_id = before.boot_id if seen == (digest(rule), images, kernels) else boot_id
        return BootRecord(
            RECORD_VERSION, digest(rule), images, kernels, boot_id, image_elsewhere, seen_in_boot,
            noted,
        )

    def journal_lost(self) -> str:
        """Why the next boot would have nothing of the journal; empty where it would."""
        kind = kept_in_ram(self._files, self._state_dir, self.root)
        if not kind:
            return ""
        return (
            f"what was there before would be lost at the next boot, since {self._state_dir} is on "
            f"{kind}: give the probe a --state-dir on a disk"
        )

    def record(self) -> Optional[BootRecord]:
        """What `prepare` wrote; None where nothing sound is there."""
        data = read_bytes(self.record_path, RECORD_BYTES_MAX + 1)
        if data is None:
            return None
        try:
            return versions.loads(
                BootRecord, data.decode("utf-8", "replace"), bytes_max=RECORD_BYTES_MAX,
                what=self.record_path,
            )
        except (MalformedError, VersionError):
            return None

    def write_record(self, record: BootRecord) -> None:
        """Say what was seen."""
        write_whole(self.record_path, versions.dumps(record) + "\n", make=0o700)

    def elsewhere(self, images: Sequence[Image]) -> str:
        """Why only an admin can bring the rule into what the host boots; empty where we can."""
        booted = self.booted(images)
        return self._in_ram(None) or (booted.why if booted.by is BootedBy.ELSEWHERE else "")

    def _in_ram(self, record: Optional[BootRecord]) -> str:
        """What is lost of the rule with this boot; an image may bring it anew, as an admin says."""
        kind = self._rule_in_ram()
        if not kind or (record is not None and record.image_elsewhere):
            return ""
        return f"{os.path.dirname(self.rule_path)} is on {kind}, of which the next boot has nothing"

    def booted(self, images: Sequence[Image]) -> Booted:
        """How this kernel was booted, and whether its next boot has the rule's file as well."""
        kind = self._rule_in_ram()
        if kind:
            return Booted(BootedBy.UNKNOWN, f"its rules are on {kind}")
        return booted_by(images, self.root, self._files)

    def _rule_in_ram(self) -> str:
        return kept_in_ram(self._files, os.path.dirname(self.rule_path), self.root)

    def note(self) -> str:
        """The note in udev's database, which a rule of ours left in this boot's initramfs."""
        if self._own_init():
            return ""  # any event since the boot may have left it
        notes = (line[len("E:"):] for line in read_table(os.path.join(self._files.run, NOTE_FILE)))
        return next((line for line in notes if line.startswith(NOTE)), "")

    def _own_init(self) -> bool:
        return os.path.lexists(os.path.join(self.root, "init"))


def boots_once(refusal: str) -> bool:
    """Whether the next boot of the host may end a refusal by itself."""
    return refusal.startswith(Cure.BOOT_ONCE.value)


def _changed(record: BootRecord, images: Sequence[Image]) -> str:
    """What has become of the images since the record was made; empty where nothing has."""
    new = [image.path for image in images if image not in record.images]
    if new:
        return f"{new[0]} is newer than the last check of the images"
    if record.images and not images:
        return "cannot see the host's initramfs images (a container needs the host's /boot)"
    return ""


def digest(text: str) -> str:
    """A rule's text, in short."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


NAMED_MAX = 8


def for_next_boot(drive: DriveReport, pins: Prepared) -> Tuple[Refusal, ...]:
    """What the next boot would lack of a drive's way back: its journal, its pin.

    The one place where that is asked, for every kind of touch: of its cache, and of an option that
    outlives the boot.  Nothing toggles a drive that has no cache, so it needs no pin; a loop device
    is touched on a throwaway cluster alone, and gone at the next boot.
    """
    if drive.transport is Transport.LOOP:
        return ()
    has_cache = drive.state.device_cache is not DeviceCache.NONE
    pinned = has_cache and boots_with_rule(drive.transport) and may_be_pinned(drive)
    names = names_of(drive.wwid, drive.wwn) if pinned else ()
    pin = next(filter(None, map(pins.refusal, names)), "")
    if pin == NOT_NAMED and saves_off(drive):
        pin = how_to_name(drive)
    lacks = (RefusalKind.JOURNAL_LOST, pins.journal_lost), (RefusalKind.NOT_PREPARED, pin)
    return tuple(Refusal(kind, why) for kind, why in lacks if why)


def with_next_boot(drive: DriveReport, pins: Prepared) -> DriveReport:
    """The report with what the next boot lacks; a finding too where nothing else is against it."""
    refusals = (*left(drive.refusals, FOR_THE_NEXT_BOOT), *for_next_boot(drive, pins))
    found = replace(drive, refusals=refusals, findings=tuple(
        item for item in drive.findings if item.code is not FindingCode.NOT_PREPARED
    ))
    if not not_named(found) or found.state.device_cache is DeviceCache.NONE:
        return found
    why = found.toggle_refusal
    said = Finding(
        FindingCode.NOT_PREPARED, Severity.INFO, drive.dev_name, why,
        Cure.BOOT_ONCE if boots_once(why) else Cure.GENERAL,
    )
    return replace(found, findings=(*found.findings, said))


def told_once(
    drives: Sequence[DriveReport], held: AbstractSet[str]
) -> Tuple[Tuple[DriveReport, ...], Tuple[Finding, ...]]:
    """The drives without that finding, and one of the host in its place.

    It is a warning where the journal holds one of them (`held` are domain ids): a drive that
    may be off.  For all others it says only what has to be done before they are toggled; of one
    that keeps itself off nothing has to be done, and its refusal says how it is named all the same.
    """
    lacking = [d for d in drives if any(map(_is_one, d.findings))]
    urgent = [drive for drive in lacking if drive.domain_id in held]
    lacking = [d for d in lacking if d in urgent or d.toggle_refusal != how_to_name(d)]
    quiet = tuple(
        replace(drive, findings=tuple(f for f in drive.findings if not _is_one(f)))
        for drive in drives
    )
    if not lacking:
        return quiet, ()
    told = [item for drive in urgent or lacking for item in drive.findings if _is_one(item)]
    # what wants a command comes before what waits for the next boot
    first = next((item for item in told if item.cure is not Cure.BOOT_ONCE), told[0])
    names = [drive.dev_name for drive in (urgent or lacking)]
    finding = Finding(
        FindingCode.NOT_PREPARED, Severity.WARNING if urgent else Severity.INFO,
        "boot rule", f"{named(names, NAMED_MAX)}: {first.detail}", first.cure,
    )
    return quiet, (finding,)


def _is_one(finding: Finding) -> bool:
    return finding.code is FindingCode.NOT_PREPARED
