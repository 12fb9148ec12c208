"""What other hosts have proven of a drive model behind a host driver.

A proof opens a toggle.  Where the adapter swallows flushes, a proof that is not true may cost
data: the cache of a drive could be turned on that nothing empties in time.  So a host goes by
its own proof at once, and by that of others as `accepted_proofs` has it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import DefaultDict, Dict, Iterable, List, Sequence, Tuple

from ..host_report import EVIDENCE_MAX, HostReport, ToggleProof
from ..model import DriveModel, Transport
from ..simulation import real
from .accepted_proofs import HOSTS_MIN, AcceptedProof, counts_elsewhere, is_accepted

Combination = Tuple[str, DriveModel]


def proofs_for(
    hostname: str, reports: Iterable[HostReport], accepted: Sequence[AcceptedProof] = ()
) -> Tuple[ToggleProof, ...]:
    """What counts on a host of what others have shown; one for each combination that it has.

    A combination is closed where two hosts have seen it fail, whatever others have seen.  One
    host that saw it fail closes it for itself alone.
    """
    known = [report for report in reports if report.proofs or report.hostname == hostname]
    wanted = {
        (drive.host_driver, drive.drive_model)
        for report in known if report.hostname == hostname
        for drive in report.drives if drive.transport is Transport.SATA_HBA
    }
    held: DefaultDict[Combination, Dict[str, ToggleProof]] = defaultdict(dict)
    failed: DefaultDict[Combination, Dict[str, ToggleProof]] = defaultdict(dict)
    for report in sorted(real(known), key=lambda one: one.hostname):
        if report.hostname == hostname:
            continue
        for proof in report.proofs:
            key = (proof.host_driver, proof.drive_model)
            if key in wanted and _makes_sense(proof):
                # by whose report it came: what it says of its host is that host's word too
                (failed if proof.disagreed else held)[key].setdefault(report.hostname, proof)
    found: List[ToggleProof] = []
    for key in sorted(wanted, key=str):
        if len(failed[key]) >= HOSTS_MIN:
            found.append(next(iter(failed[key].values())))
            continue
        # a host that saw both is no word for it
        sure = {name: one for name, one in held[key].items() if name not in failed[key]}
        if counts_elsewhere(dict(sure), accepted):
            found.append(min(sure.items(), key=lambda item: not is_accepted(accepted, *item))[1])
    return tuple(found)[:EVIDENCE_MAX]


def _makes_sense(proof: ToggleProof) -> bool:
    """Whether a host can have seen it: all it claims to have compared is there."""
    if not proof.host_driver or not proof.drive_model.model:
        return False
    times = (*proof.write_back_us, *proof.write_through_us)
    return bool(proof.disagreed) or (len(times) == 6 and all(us > 0 for us in times))
