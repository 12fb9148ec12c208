"""Evidence of hardware, a file each, in the probe's state folder.

    <state>/evidence/power-cut-<run>.json    what a witnessed power cut has shown of a drive
    <state>/evidence/proof-<digest>.json     what `prove` has shown on this host
    <state>/evidence/passed-<digest>.json    the same of another host, by way of the mgr
    <state>/evidence/disobeyed-<digest>.json a change that a drive refused, or did not make
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from typing import Callable, Dict, Iterator, Mapping, Sequence, Tuple, Type, TypeVar

from wcache.core import versions
from wcache.core.errors import StorageError, WcacheError
from wcache.core.host_report import EVIDENCE_MAX, Disobedience, PowerCut, ToggleProof, lost_by_model
from wcache.core.versions import Numbered

from .journal.journal_file import PROBE_ID
from .linux.block.host_files import entries
from .safe_files import read_own, remove, write_whole

FILE_BYTES_MAX = 16_384
POWER_CUT, PROOF, PASSED, DISOBEYED = "power-cut-", "proof-", "passed-", "disobeyed-"
T = TypeVar("T", bound=Numbered)
Say = Callable[[str], None]


def _digest(proof: ToggleProof) -> str:
    """The file name of a combination: host driver, drive model, firmware."""
    model = proof.drive_model
    names = (proof.host_driver, model.vendor, model.model, model.firmware)
    return hashlib.sha256("\0".join(names).encode()).hexdigest()[:16]


def _name_of(drive_id: str) -> str:
    """The file name of what is kept of a drive that did not obey."""
    return DISOBEYED + hashlib.sha256(drive_id.encode()).hexdigest()[:16]


class EvidenceFolder:
    """All evidence of one host; what cannot be read is left out and said."""

    def __init__(self, state_dir: str, say: Say = lambda _line: None) -> None:
        self._folder = os.path.join(state_dir, "evidence")
        self._probe_id = os.path.join(state_dir, PROBE_ID)
        self._say = say
        self._not_kept: Dict[str, Disobedience] = {}  # where the folder takes none

    def is_there(self) -> bool:
        """Whether the state folder is that of a probe; at a boot it may not be mounted yet."""
        return os.path.lexists(self._probe_id)

    def power_cuts(self) -> Tuple[PowerCut, ...]:
        """What power cuts have shown."""
        return tuple(self._all(POWER_CUT, PowerCut))

    def lost_writes(self) -> Mapping[str, str]:
        """What power cuts have shown to be lost, by drive model."""
        return lost_by_model("this host", self.power_cuts())

    def own_proofs(self) -> Tuple[ToggleProof, ...]:
        """What `prove` has shown on this host."""
        return tuple(self._all(PROOF, ToggleProof))

    def proofs(self) -> Tuple[ToggleProof, ...]:
        """The same, and what the mgr has passed on of other hosts."""
        return (*self.own_proofs(), *self._all(PASSED, ToggleProof))

    def put_proof(self, proof: ToggleProof) -> str:
        """Keep what was shown here, in place of what was shown before; returns the path.

        What held under an OSD says less than a trial of a blank drive, and nothing against what
        did not hold once.
        """
        known = {_digest(one): one for one in self.own_proofs()}.get(_digest(proof))
        if proof.in_place and known is not None:
            proof = known
        return self.put(f"{PROOF}{_digest(proof)}", proof)

    def take(self, proofs: Sequence[ToggleProof]) -> None:
        """Keep what other hosts have shown; those that the mgr tells no more are dropped."""
        known = {_digest(proof): proof for proof in self._all(PASSED, ToggleProof)}
        told = {_digest(proof): proof for proof in proofs}
        for digest, proof in told.items():
            if known.get(digest) != proof:
                self.put(f"{PASSED}{digest}", proof)
        for digest in known.keys() - told.keys():
            with suppress(StorageError):
                remove(os.path.join(self._folder, f"{PASSED}{digest}.json"))

    def disobeyed(self) -> Mapping[str, Disobedience]:
        """Which drives did not obey a change, by drive id."""
        kept = {one.drive_id: one for one in self._all(DISOBEYED, Disobedience)}
        return {**kept, **self._not_kept}

    def put_disobeyed(self, found: Disobedience) -> None:
        """Keep that a drive did not obey, in place of what is older where there are too many.

        What cannot be kept is remembered for as long as we run.
        """
        known: Dict[str, Disobedience] = {**self.disobeyed(), found.drive_id: found}
        try:
            for old in sorted(known.values(), key=lambda one: one.at_s)[:-EVIDENCE_MAX]:
                self.forget_disobeyed(old.drive_id)
            self.put(_name_of(found.drive_id), found)
        except StorageError:
            self._not_kept[found.drive_id] = found

    def forget_disobeyed(self, drive_id: str) -> None:
        """The drive is tried again; raises StorageError where that cannot be kept."""
        self._not_kept.pop(drive_id, None)
        path = os.path.join(self._folder, f"{_name_of(drive_id)}.json")
        if os.path.lexists(path):
            remove(path)

    def put(self, name: str, value: Numbered) -> str:
        """Keep a value under a name; StorageError where it cannot be kept."""
        path = os.path.join(self._folder, f"{name}.json")
        try:
            write_whole(path, versions.dumps(value) + "\n", make=0o700)
        except StorageError as error:
            raise StorageError(
                error.message, error.advice or "run as root, make room, run the command again"
            ) from None
        return path

    def _all(self, prefix: str, cls: Type[T]) -> Iterator[T]:
        names = [n for n in entries(self._folder) if n.startswith(prefix) and n.endswith(".json")]
        for name in names[:EVIDENCE_MAX]:
            data = read_own(os.path.join(self._folder, name), FILE_BYTES_MAX + 1) or ""
            try:
                yield versions.loads(cls, data, bytes_max=FILE_BYTES_MAX, what=name)
            except WcacheError as error:
                self._say(f"evidence is left out: {error.message}")
