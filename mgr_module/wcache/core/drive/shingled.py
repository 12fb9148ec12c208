"""Drive-managed SMR: such a drive is fast until its media cache is full, then slow for hours.

A short experiment sees the first half only, so nothing is begun on it without an admin.
"""

from __future__ import annotations

import re

from ..model import DriveReport, FindingCode

# Drives that were sold without saying so (vendors' lists of 2020 and later).
_MODELS = re.compile(
    r"WD(20|30|40|60)EFAX|WD(10|20)SPZX|WD(20|40|60|80)EZAZ|WD(20|40|60)EDAZ"
    r"|ST(2000DM008|3000DM007|4000DM004|6000DM003|8000DM004|8000AS0002|5000AS0011)"
    r"|ST(1000LM048|2000LM015|3000LM024|4000LM024|5000LM000)"
    r"|HDW[DL](110|120|220|240|260)|DT02ABA[2-6]00"
)


def shingled(drive: DriveReport) -> str:
    """How it is known that a drive shingles its tracks by itself; "" where it is not."""
    for finding in drive.findings:
        if finding.code is FindingCode.SHINGLED:
            return finding.detail
    if _MODELS.search(drive.drive_model.model):
        return "its drive model is known to shingle tracks by itself (SMR)"
    return ""
