"""What a probe tells of its host: drives, findings, its journal, what was proven there.

The kind of a drive: what is measured, judged and changed together.  What the probe is at.

A simulated host tells of drives and OSDs that it has made up.  The cluster does not know those
OSDs, an id of theirs may be that of a real one, and no client waits for them.  The probe
measures them itself, and their time passes faster than ours.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Dict, Iterable, List, Mapping, NamedTuple, Optional, Protocol, Tuple

from .errors import Refusal, RefusalKind
from .hardware import Controller, HostMemory
from .model import CacheMode, DriveModel, DriveReport, Finding, FindingCode, Severity


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


# Pieces of evidence of one kind that a host keeps and tells.
EVIDENCE_MAX = 64
# A report has at most so many notes of a journal.
NOTES_MAX = 1024
# Lines that say why a combination of host driver and drive model is not proven.
DISAGREED_MAX = 8


@dataclass(frozen=True)
class KeptPrior:
    """A drive as a journal entry says that it was."""

    drive_id: str
    mode: CacheMode
    saved: Optional[CacheMode] = None


@dataclass(frozen=True)
class JournalNote:
    """What a probe tells of an entry of its journal; `drives` is empty where it is damaged."""

    key: str
    domain_id: str
    cluster_fsid: str = ""
    drives: Tuple[KeptPrior, ...] = ()


@dataclass(frozen=True)
class PowerCut:
    """What a power cut with a witness has shown of a drive (`wcache-probe witness`).

    `mode` is the cache mode it wrote in; `host_booted` says that the host went down too.
    """

    VERSION: ClassVar[int] = 1
    run_id: str
    drive_id: str
    drive_model: DriveModel
    mode: Optional[CacheMode]
    acknowledged: int
    checked: int
    lost: int
    checked_at_s: float
    host_booted: bool = False


def lost_words(hostname: str, cut: PowerCut) -> str:
    """What a power cut has cost, for people."""
    return (
        f"{hostname}: {cut.drive_id} lost {cut.lost} acknowledged writes in a power cut "
        f"({FindingCode.FLUSH_LOST.value})"
    )


def lost_by_model(hostname: str, cuts: Iterable[PowerCut]) -> Dict[str, str]:
    """What power cuts have shown to be lost, by drive model, as `safety.may_rest_on` takes it."""
    return {str(cut.drive_model): lost_words(hostname, cut) for cut in cuts if cut.lost}


@dataclass(frozen=True)
class ToggleProof:
    """What `wcache-probe prove` has shown of a drive model behind a host driver's translation.

    `disagreed` is empty where it is proven; `by_page`: it is toggled by the mode page, and not
    by ATA pass-through.  Times are medians in us: a write, the flush after it, one more flush;
    there are none where a drive was tried in place, under its OSD.
    """

    VERSION: ClassVar[int] = 1
    host_driver: str = field(metadata={"max_chars": 40})
    drive_model: DriveModel
    by_page: bool
    disagreed: Tuple[str, ...] = field(metadata={"max_items": DISAGREED_MAX})
    write_back_us: Tuple[float, ...] = field(metadata={"max_items": 3})
    write_through_us: Tuple[float, ...] = field(metadata={"max_items": 3})
    hostname: str
    drive_id: str
    proven_at_s: float

    @property
    def in_place(self) -> bool:
        """Whether all held that can be compared without a flush that is timed."""
        return not (self.disagreed or self.write_back_us or self.write_through_us)


@dataclass(frozen=True)
class Disobedience:
    """A change of its cache mode that a drive refused, or took and did nothing.

    `asked` is the mode that it was to be put into, `answer` what it said or did, for people.
    """

    VERSION: ClassVar[int] = 1
    drive_id: str
    domain_id: str
    drive_model: DriveModel
    asked: CacheMode
    answer: str = field(metadata={"max_chars": 300})
    at_s: float

    def holds_of(self, drive: DriveReport) -> bool:
        """Whether it says something of a drive as it is: by its firmware, and in its old mode."""
        same = (drive.drive_id, drive.drive_model) == (self.drive_id, self.drive_model)
        return same and drive.mode is not self.asked


@dataclass(frozen=True)
class HostReport(OfDrives):
    """Everything a probe found on its host."""

    VERSION: ClassVar[int] = 5
    STORED_BY: ClassVar[str] = "hostname"
    hostname: str
    probe_version: str
    drives: Tuple[DriveReport, ...] = field(default=(), metadata={"max_items": 1024})
    findings: Tuple[Finding, ...] = field(default=(), metadata={"max_items": 1024})
    simulated: bool = False
    journal: Tuple[JournalNote, ...] = field(default=(), metadata={"max_items": NOTES_MAX})
    power_cuts: Tuple[PowerCut, ...] = field(default=(), metadata={"max_items": EVIDENCE_MAX})
    memory: Optional[HostMemory] = None
    controllers: Tuple[Controller, ...] = field(default=(), metadata={"max_items": 16})
    proofs: Tuple[ToggleProof, ...] = field(default=(), metadata={"max_items": EVIDENCE_MAX})

    @property
    def has_whole_journal(self) -> bool:
        """Whether it has notes of all entries: of a list at its limit the rest was left out."""
        return len(self.journal) < NOTES_MAX

    @property
    def domains(self) -> Dict[str, List[DriveReport]]:
        """Its drives by their cache domain."""
        found: Dict[str, List[DriveReport]] = {}
        for drive in self.drives:
            found.setdefault(drive.domain_id, []).append(drive)
        return found

    def kind_of(self, drive_model: DriveModel, device_class: str = "") -> DriveKind:
        """The kind of its drives of a model."""
        return DriveKind(device_class, str(drive_model), self.simulated)


Lost = Mapping[bool, Mapping[str, str]]
"""Of real drives and, by True, of simulated ones: what was lost in words, by drive model."""


def lost_models(reports: Iterable[HostReport]) -> Lost:
    """What power cuts have shown to be lost of all hosts' drives, whoever saw it."""
    found: Dict[bool, Dict[str, str]] = {False: {}, True: {}}
    for report in reports:
        found[report.simulated].update(lost_by_model(report.hostname, report.power_cuts))
    return found


WAITING_CHARS_MAX = 300


@dataclass(frozen=True)
class Waiting:
    """What a probe is at on its host, and for how long at the last step of that.

    The kernel lets nobody out of the fsync of a journal entry, or of the opening of a device:
    the probe's calls go on meanwhile.
    """

    what: str = field(metadata={"max_chars": WAITING_CHARS_MAX})
    seconds: float


def disobeyed(drive: DriveReport, answer: str, cure: str = "") -> DriveReport:
    """The report of a drive that refused a change of its cache mode, or took it and did nothing."""
    known = [one for one in drive.refusals if one.kind is not RefusalKind.DISOBEYED]
    findings = [one for one in drive.findings if one.code is not FindingCode.TOGGLE_INEFFECTIVE]
    found = Finding(
        FindingCode.TOGGLE_INEFFECTIVE, Severity.WARNING, drive.dev_name,
        f"{answer}; {cure}" if cure else answer,
    )
    return replace(
        drive, refusals=(*known, Refusal(RefusalKind.DISOBEYED, answer)),
        findings=(*findings, found),
    )
