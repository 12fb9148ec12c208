"""`wcache-probe prepare` or `unprepare`: the boot rule, the images that must have it, the record.

The one place that writes below /etc and makes images anew, and only when an admin says so:
no experiment does.  Run again it changes nothing where nothing is to be done.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from typing import (
    AbstractSet,
    Callable,
    Dict,
    Iterable,
    List,
    Mapping,
    Optional,
    Sequence,
    Set,
    Tuple,
    Union,
)

from wcache.core.drive.journal import JournalEntry, PriorDrive
from wcache.core.drive.safety import boots_with_rule, may_be_pinned
from wcache.core.drive.saved_off import how_to_name, made_to_flush, say_flushed
from wcache.core.errors import NotFoundError, RefusedError, StorageError
from wcache.core.model import DeviceCache, DriveReport
from wcache.core.text import many

from ...safe_files import read_bytes, remove, write_whole
from ..block.host_files import read_text
from .how_booted import BootedBy
from .images import IMAGES_MAX, Image, Tool, find_images, find_tool, rules_in, run_program, run_tool
from .preparation import Preparation, boots_once
from .udev_rule import (
    boot_rule,
    is_ours,
    line_of,
    lines_naming,
    matches,
    names_of,
    pattern,
    pins_one,
)

Say = Callable[[str], None]
_NO_TOOL = "neither initramfs-tools nor dracut nor mkinitcpio is installed here"


@dataclass(frozen=True)
class Chosen:
    """What the rule is to name, and what it cannot."""

    lines: Tuple[str, ...]  # that pin one drive each
    left_out: Tuple[str, ...] = ()  # a line for each drive that cannot be toggled then
    kept: Tuple[str, ...] = ()  # lines of the rule of before that a drive may still need
    why_kept: Tuple[str, ...] = ()
    unpinned: Tuple[str, ...] = ()  # a line for each drive that keeps itself off
    flushed: Tuple[str, ...] = ()  # drives that the kernel flushes though they are off

    @property
    def rule(self) -> str:
        """The rule's text."""
        return boot_rule((), (*self.lines, *self.kept))

    @property
    def count(self) -> int:
        """How many drives it names."""
        return len(self.lines) + len(self.kept)


def choose(
    drives: Sequence[DriveReport], journalled: Sequence[DriveReport],
    entries: Iterable[JournalEntry], disks: Sequence[Tuple[str, str]],
    keep_off: AbstractSet[str] = frozenset(),
) -> Chosen:
    """Which drives the boot rule names: those of OSDs alone, and those the journal names.

    `disks` are (kernel name, wwid) of every disk of the host: a name must fit one drive.
    `keep_off` are the kernel names of those that need no pin (`why_pinned`).
    """
    held = {drive.drive_id for drive in journalled}
    shared = {drive.domain_id for drive in drives if drive.foreign_uses}
    wanted: List[str] = []
    pinned: List[DriveReport] = []
    unpinned: Set[str] = set()
    left_out, off = [], []

    def want(drive: Union[DriveReport, PriorDrive]) -> bool:
        """Name a drive in the rule, unless none can match it and no other."""
        names = names_of(drive.wwid, drive.wwn)
        try:
            line = line_of(*names)
        except RefusedError as error:
            left_out.append(f"{drive.dev_name}: {error.message}")
            return False
        others = [(disk, wwid) for disk, wwid in disks if wwid not in names]
        same = [disk for disk, wwid in others if any(matches(pattern(n), wwid) for n in names)]
        if same:
            left_out.append(f"{drive.dev_name}: a rule for its wwid would also match {same[0]}")
        else:
            wanted.append(line)
        return not same

    for drive in (*drives, *journalled):
        # one that says it has no cache has none that could be pinned
        uncached = drive.state.device_cache is DeviceCache.NONE and drive.drive_id not in held
        if not boots_with_rule(drive.transport) or uncached:
            continue
        if not may_be_pinned(drive):
            left_out.append(f"{drive.dev_name}: {drive.toggle_refusal}")
            unpinned |= {drive.wwid, drive.wwn}
            continue
        if drive.domain_id in shared and drive.drive_id not in held:
            who = f" ({drive.foreign_uses[0]})" if drive.foreign_uses else ""
            left_out.append(f"{drive.dev_name}: used by something that is not an OSD{who}")
            continue
        if drive.dev_name in keep_off:
            off.append(f"{drive.dev_name}: {how_to_name(drive)}")
            continue
        if want(drive):
            pinned.append(drive)
    # a drive that is not here now and comes back is still off
    for entry in entries:
        for prior in () if entry.of_options else entry.drives:
            named = bool(lines_naming(prior.wwid, wanted)) or not prior.wwid
            unknown = not named and unpinned.isdisjoint(names_of(prior.wwid, prior.wwn))
            if unknown and boots_with_rule(prior.transport):
                want(prior)
    return Chosen(
        tuple(sorted(set(wanted))), tuple(dict.fromkeys(left_out)), unpinned=tuple(off),
        flushed=made_to_flush(pinned),
    )


@dataclass
class Preparer:
    """Does it; what touches the machine can be replaced, which is how it is tested."""

    preparation: Preparation
    say: Say
    find_tool: Callable[[], Optional[Tool]] = find_tool
    run_tool: Callable[[Tool], None] = run_tool
    reload_udev: Callable[[], str] = field(default=lambda: reload_udev())
    # what `check_images` saw: images that are made anew have other sizes
    seen_in_boot: str = field(default="", init=False)
    noted: Tuple[str, ...] = field(default=(), init=False)
    image_elsewhere: bool = field(default=False, init=False)

    def check_rule(self) -> None:
        """Raise where the rule's file is somebody else's; as all checks, before any writing."""
        text = self.preparation.rule_text()
        if text and not is_ours(text):
            raise StorageError(
                f"{self.preparation.rule_path} was not written by wcache-probe",
                "move it away, then try again",
            )

    def check_images(self, *, image_elsewhere: bool) -> None:
        """Raise where the next boot would have neither the rule nor the journal."""
        lost = self.preparation.journal_lost()
        if lost:
            raise StorageError(lost)
        images = self._images()
        self.seen_in_boot = self.preparation.seen_in_boot(images)
        self.noted = self.preparation.look().noted
        elsewhere = self.preparation.elsewhere(images)
        self.image_elsewhere = bool(elsewhere)
        if elsewhere and not image_elsewhere:
            raise NotFoundError(
                elsewhere,
                "put the rule file into what it boots yourself, then add --image-elsewhere; its "
                "drives are toggled once a boot has shown that the rule is there",
            )

    def write_rule(self, chosen: Chosen) -> str:
        """The rule's text, on stable storage and known to udev."""
        rule = chosen.rule
        path = self.preparation.rule_path
        self.explain(chosen)
        if rule == self.preparation.rule_text():
            self.say(f"{path}: up to date, {many(chosen.count, 'drive')}")
            return rule
        write_whole(path, rule, 0o644, make=0o755)
        self.say(f"{path}: written, {many(chosen.count, 'drive')}")
        trouble = self.reload_udev()
        if trouble:
            self.say(f"udev did not reload its rules: {trouble}")
        return rule

    def see_to_images(self, rule: str) -> int:
        """Have each image contain the rule, and record it; 1 where one still lacks it."""
        images = self._images()
        lacking = self._lacking(images, rule)
        if lacking:
            images = self._make_anew(lacking)
            lacking = self._lacking(images, rule)
        good = tuple(image for image in images if image not in lacking)
        record = self.preparation.recorded(
            rule, good, self.seen_in_boot, self.noted, image_elsewhere=self.image_elsewhere
        )
        if record != self.preparation.record():
            self.preparation.write_record(record)
        for image in good:
            self.say(f"{image.path}: has the rule")
        if not images and self.preparation.booted(images).by is BootedBy.NONE:
            self.say("this host boots without an initramfs image, so none has to hold the rule")
        for image, why in lacking.items():
            self.say(
                f"{image.path} {why}: rebuild or remove it by hand, then run this again"
            )
        if lacking:
            self.say("NOT prepared: wcache will not toggle the drives of this host")
            return 1
        return self._say_what_is_proven()

    def _say_what_is_proven(self) -> int:
        """What the probe will say of it; 1 where that is not a matter of the next boot."""
        now = self.preparation.look()
        if not now.trouble and set(filter(pins_one, now.lines)) <= now.proven:
            self.say("prepared: udev pins these drives whenever they appear")
            return 0
        self.say(now.trouble or now.unproven)
        rule = f"put {self.preparation.rule_path} into what it boots"
        if now.trouble or not boots_once(now.unproven):
            self.say(f"NOT prepared: wcache will not toggle the drives of this host; {rule}, and "
                     "boot it")
            return 1
        self.say(f"{rule}, where that is not made on this host, and boot it once")
        return 0

    def show(self, chosen: Chosen) -> None:
        """What would be done."""
        rule = chosen.rule
        self.explain(chosen)
        change = "up to date" if rule == self.preparation.rule_text() else "would be written"
        self.say(f"{self.preparation.rule_path}: {change}\n{rule}".rstrip("\n"))
        lacking = self._lacking(self._images(), rule)
        for image, why in lacking.items():
            self.say(f"{image.path} {why}: would be rebuilt")
        if lacking:
            tool = self.find_tool()
            self.say(f"with: {' '.join(tool.command)}" if tool else _NO_TOOL)

    def explain(self, chosen: Chosen) -> None:
        """Which drives it names for what price, and which it does not, and why."""
        for line in chosen.left_out:
            self.say(f"left out, so wcache will not toggle it: {line}")
        for line in chosen.why_kept:
            self.say(f"its line stays in the boot rule: {line}")
        for line in chosen.unpinned:
            self.say(f"left as it is: {line}")
        if chosen.flushed:
            self.say(say_flushed(chosen.flushed))

    def remove_rule(self) -> bool:
        """Take record and rule away; False where there was neither."""
        self.check_rule()
        # the record first: from here on nothing is toggled, whatever becomes of the rest
        gone = remove(self.preparation.record_path)
        return remove(self.preparation.rule_path) or gone

    def clear_images(self) -> int:
        """Take the rule out of the images; 1 where it is still in one."""
        tool = self.find_tool()
        if tool and tool.conf_path:
            conf = os.path.join(self.preparation.root, tool.conf_path)
            if read_text(conf) == tool.conf_text.strip():
                remove(conf)
        with_rule = [image for image in self._images() if self._rules_in(image)]
        if with_rule and tool:
            self.say(f"rebuilding the initramfs images with {tool.name}; this takes a while")
            self.run_tool(tool)
            with_rule = [image for image in self._images() if self._rules_in(image)]
        for image in with_rule:
            self.say(f"{image.path} still has the boot rule: rebuild it by hand")
        self.reload_udev()
        return 1 if with_rule else 0

    def _images(self) -> Tuple[Image, ...]:
        images = find_images(self.preparation.root)
        if len(images) > IMAGES_MAX:
            raise StorageError(f"this host has more than {IMAGES_MAX} initramfs images")
        return images

    def _rules_in(self, image: Image) -> Tuple[str, ...]:
        try:
            return rules_in(self.preparation.root, image)
        except StorageError:
            return ()

    def _lacking(self, images: Sequence[Image], rule: str) -> Dict[Image, str]:
        """What is wrong with each image that is not as it should be."""
        lacking = {}
        for image in images:
            try:
                texts = rules_in(self.preparation.root, image)
            except StorageError as error:
                lacking[image] = f"cannot be read: {error.message}"
                continue
            if not texts:
                lacking[image] = "lacks the boot rule"
            elif set(texts) != {rule}:
                lacking[image] = "has an older boot rule"
        return lacking

    def _make_anew(self, lacking: Dict[Image, str]) -> Tuple[Image, ...]:
        tool = self.find_tool()
        for image, why in lacking.items():
            self.say(f"{image.path} {why}")
        if tool is None:
            self.say(_NO_TOOL)
            return self._images()
        if tool.conf_path:
            conf = os.path.join(self.preparation.root, tool.conf_path)
            write_whole(conf, tool.conf_text, 0o644, make=0o755)
            self.say(f"{conf}: written")
        self.say(f"rebuilding the initramfs images with {tool.name}; this takes a while")
        self.run_tool(tool)
        return self._images()


def reload_udev() -> str:
    """Have udev read its rules; what was wrong, empty where nothing was.

    It also does so by itself, within three seconds of an event.
    """
    if not os.path.exists("/run/udev/control") or not shutil.which("udevadm"):
        return ""
    try:
        run_program(("udevadm", "control", "--reload"), 60.0)
    except StorageError as error:
        return error.message
    return ""


# Docker; Podman and CRI-O; systemd's word for what runs it (nspawn, LXC)
_ENVIRON_BYTES_MAX = 65_536
_OF_CONTAINERS = (".dockerenv", "run/.containerenv", "run/systemd/container")


def in_container(root: str, environ: Mapping[str, str]) -> bool:
    """Whether this looks like a container, whose /etc and /boot are not the host's."""
    if any(os.path.exists(os.path.join(root, mark)) for mark in _OF_CONTAINERS):
        return True
    # a kubelet sets the one for each container, whatever runs it; LXC, Podman the other
    first = read_bytes(os.path.join(root, "proc/1/environ"), _ENVIRON_BYTES_MAX)
    if not first:  # ours may come from the container out of which somebody entered this root
        return "KUBERNETES_SERVICE_HOST" in environ
    words = (b"container=", b"KUBERNETES_SERVICE_HOST=")
    return any(word.startswith(words) for word in first.split(b"\0"))
