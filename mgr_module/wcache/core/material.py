"""From which ratio on a difference of latencies is material: smaller ones justify no change.

One figure for all that is not asked for another: settling, verdicts, the check after a change,
mClock's capacities, trials of more memory, and the tools.
"""

from __future__ import annotations

import math

MATERIAL_RATIO = 1.1  # of one thing over another, or its inverse
MATERIAL_LN = math.log(MATERIAL_RATIO)
