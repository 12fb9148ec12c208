"""What an admin reads of a precondition that is not met: the fault, not what should hold.

`Precondition` values are stored and stand in JSON, so they stay as they are.
"""

from __future__ import annotations

from typing import Container, Dict, Iterable, List, Sequence

from .record import Precondition
from .text import named

SICK_MAX = 3
# `try` needs a probe at all; everything else it asks of the cluster is a `Precondition`.
PROBE_RESPONDS = "a probe is responding"
_FAULTS: Dict[str, str] = {
    PROBE_RESPONDS: "no probe is responding",
    Precondition.CLUSTER_HEALTHY: "the cluster is not healthy",
    Precondition.OSDS_WELL: "OSDs on the drive are not well",
    Precondition.NOT_BUSY: "OSDs on the drive move data",
    Precondition.PGS_CLEAN: "not all PGs are active+clean",
    Precondition.NO_RECOVERY: "recovery or backfill is under way",
    Precondition.NO_SLOW_OPS: "OSDs or mons have slow operations (SLOW_OPS)",
    Precondition.NO_SCRUB: "PGs are being scrubbed",
    Precondition.JOURNAL_SETTLED:
        "the probe's journal is not known, or still has a lease of the drive",
    Precondition.NO_SLOW_BLUESTORE:
        "OSDs had slow operations in BlueStore (BLUESTORE_SLOW_OP_ALERT)",
    Precondition.NO_UPGRADE: "an orchestrated upgrade is under way",
    Precondition.NO_MAINTENANCE: "noout is set",
    Precondition.PROBES_HEARD:
        "the probe of the next host, or more than half of all probes, are not responding",
    Precondition.NO_OTHER_PLAN: "another plan, campaign or measurement is under way",
    Precondition.OK_TO_STOP: "`ceph osd ok-to-stop` does not allow the OSDs of the step",
    Precondition.CLIENT_LOAD: "client load is too low to judge the change",
    Precondition.GATE_DECIDED: "the gate has not decided that clients are no worse off",
    Precondition.IN_WINDOW: "no maintenance window is open (auto_windows)",
    Precondition.NOT_FROZEN: "the cluster is frozen",
    Precondition.VERDICT_STANDS:
        "the verdict that the next change was planned by no longer stands (see `ceph wcache "
        "recommend` and `ceph wcache option verdicts`)",
    Precondition.PLAN_STANDS: "the plan no longer fits",
}


def faults(
    items: Iterable[str], overridable: Container[str] = (), sick: Sequence[str] = ()
) -> List[str]:
    """A line for each precondition, given as such or by its stored value.

    Those of `overridable` end with the name that `--override` takes.  `sick` says what is wrong
    with the cluster (`ClusterState.sick`).
    """
    found = []
    for item in items:
        line = _FAULTS.get(item, item)
        if item in overridable:
            line += f" ({Precondition(item).name.lower()})"
        if item == Precondition.CLUSTER_HEALTHY and sick:
            line += f": {named(sick, SICK_MAX)}"
        found.append(line)
    return found


def precondition_text(
    items: Iterable[str], overridable: Container[str] = (), sick: Sequence[str] = ()
) -> str:
    """The sentence that refusals, reasons and `try` have in common."""
    return f"preconditions not met: {'; '.join(faults(items, overridable, sick))}"


def no_longer_met(items: Iterable[str], sick: Sequence[str] = ()) -> str:
    """The same of what is under way and has to end."""
    return f"preconditions no longer met: {'; '.join(faults(items, sick=sick))}"
