"""What one host has proven of a drive model behind a host driver, for the other hosts.

A proof opens nothing by itself: a drive is pinned before each toggle and read back after it,
on every host.  So a proof that is not true costs a refusal, and no data.
"""

from __future__ import annotations

from typing import Dict, Iterable, Tuple

from ..host_report import EVIDENCE_MAX, HostReport, ToggleProof
from ..model import DriveModel, Transport

Combination = Tuple[str, DriveModel]


def proofs_for(hostname: str, reports: Iterable[HostReport]) -> Tuple[ToggleProof, ...]:
    """What other hosts have shown of combinations that a host has; one for each.

    One that did not hold counts more than one that did, wherever it was seen.
    """
    known = tuple(reports)
    wanted = {
        (drive.host_driver, drive.drive_model)
        for report in known if report.hostname == hostname
        for drive in report.drives if drive.transport is Transport.SATA_HBA
    }
    found: Dict[Combination, ToggleProof] = {}
    for report in sorted(known, key=lambda one: one.hostname):
        if report.hostname == hostname or report.simulated:
            continue
        for proof in report.proofs:
            key = (proof.host_driver, proof.drive_model)
            if key in wanted and _makes_sense(proof):
                kept = found.get(key)
                if kept is None or (proof.disagreed and not kept.disagreed):
                    found[key] = proof
    return tuple(found.values())[:EVIDENCE_MAX]


def _makes_sense(proof: ToggleProof) -> bool:
    """Whether a host can have seen it: all it claims to have compared is there."""
    if not proof.host_driver or not proof.drive_model.model:
        return False
    times = (*proof.write_back_us, *proof.write_through_us)
    return bool(proof.disagreed) or (len(times) == 6 and all(us > 0 for us in times))
