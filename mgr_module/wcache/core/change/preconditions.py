"""What must hold before a plan changes the next drive, unless an admin overrides it.

What may cost a copy of the data for a while (an OSD that gets slow or stops) is not done
while other copies are missing, and a change that cannot be judged is not made.  A plan waits
before its next change until all holds again; a change that was begun is finished.

What a plan is bound to, and what of it has moved since: named, one line each.

Bound are the drives with their OSDs and states, what an admin consented to, that acknowledged data
may rest where it would, the verdicts and the failure domains.  Epochs of maps are not: they grow
whenever anything happens anywhere.
"""

from __future__ import annotations

from dataclasses import replace
from typing import (
    Collection,
    Container,
    Dict,
    Iterable,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
)

from ..cluster import ClusterState, failure_domains
from ..errors import MalformedError
from ..host_report import HostReport, Lost, lost_models
from ..record import Precondition
from ..text import named
from .change import Change, ChangeStatus, Verdicts
from .rollout_state import Rollout, RolloutStatus

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
        "recommend` and `ceph wcache option ls`)",
    Precondition.PLAN_STANDS: "the plan no longer fits",
}
# The first three and OSDS_WELL forbid measuring too (`ClusterState`).
NEEDED = (
    Precondition.CLUSTER_HEALTHY, Precondition.NO_UPGRADE, Precondition.NO_MAINTENANCE,
    Precondition.OSDS_WELL,
    Precondition.PROBES_HEARD, Precondition.NO_OTHER_PLAN, Precondition.OK_TO_STOP,
    Precondition.IN_WINDOW,
)
# These too may be overridden: the gate asks for them, not the look at the cluster.
PROOFS = (Precondition.CLIENT_LOAD, Precondition.GATE_DECIDED)
# Nobody may override these: a state that a lease has left would be taken for the prior one, and
# a mode would be set that nothing recommends any more, or something else than was consented to.
ALWAYS = (
    Precondition.JOURNAL_SETTLED, Precondition.NOT_FROZEN, Precondition.VERDICT_STANDS,
    Precondition.PLAN_STANDS,
)
# A window opens again by itself: nobody is told that a plan waits for it.
PATIENT = (Precondition.IN_WINDOW,)
# How often a plan that is held looks at the cluster again.
LOOK_EVERY_S = 5.0
# A plan or `auto` that has waited for so long is worth a warning.
TOLD_AFTER_S = 3600.0
# A plan that is held for so long pauses.
HOLD_MAX_S = 7 * 86400.0
# A value in the config database is set where at most this share of its OSDs is ill.
ILL_SHARE_MAX = 0.1


def parse_override(text: str) -> Tuple[Precondition, ...]:
    """Preconditions from a comma-separated list of their names, without repeats."""
    by_name = {item.name.lower(): item for item in (*NEEDED, *PROOFS)}
    found = []
    for name in text.split(",") if text else ():
        item = by_name.get(name.strip())
        if item is None:
            raise MalformedError(
                f"{name.strip()[:40]!r} is not a precondition of a plan",
                f"use a comma-separated list of {', '.join(by_name)}",
            )
        found.append(item)
    return tuple(dict.fromkeys(found))


def override(rollout: Rollout, names: Iterable[Precondition]) -> Rollout:
    """The plan for which these need not hold any more; the next look knows."""
    return replace(rollout, overridden=tuple(dict.fromkeys((*rollout.overridden, *names))))


def missed(
    rollout: Rollout, change: Change, seen: Iterable[Precondition]
) -> Tuple[Precondition, ...]:
    """What does not hold and keeps a change from being made; simulated drives need `ALWAYS`."""
    needed = (*NEEDED, *ALWAYS) if change.has_clients else ALWAYS
    return tuple(item for item in seen if item in needed and item not in rollout.overridden)


def illness_of(change: Change, cluster: ClusterState) -> str:
    """Why a change is not made now, by the OSDs that it touches; "" where they are well."""
    if not change.has_clients:
        return ""
    concerned = change.setting.concerned_osds(cluster)
    ill = cluster.illness({*concerned, *change.judging_osds})
    mine = [f"osd.{osd_id} {why}" for osd_id, why in ill.items() if osd_id in change.judging_osds]
    if mine or len(ill) <= ILL_SHARE_MAX * len(concerned):
        return named(mine)
    return f"{len(ill)} of the {len(concerned)} OSDs that it concerns are ill"


def waited_s(rollout: Rollout, now_s: float) -> float:
    """For how long a plan has been held by what an admin may have to mend; 0 where it is not."""
    held = rollout.status is RolloutStatus.RUNNING and rollout.missed not in ((), PATIENT)
    return max(0.0, now_s - rollout.held_since_s) if held else 0.0


def words(items: Collection[Precondition], detail: str = "", moved: str = "") -> str:
    """What is wrong, with the names that `--override` takes.

    `detail`: what is wrong with the cluster, or which OSDs are ill.  `moved`: which change no
    longer fits, and why.
    """
    of_osds = {*items} & {
        Precondition.CLUSTER_HEALTHY, Precondition.OSDS_WELL, Precondition.NO_OTHER_PLAN,
    }
    more = f": {detail}" if detail and of_osds else ""
    more += f": {moved}" if moved and Precondition.PLAN_STANDS in items else ""
    return precondition_text(items, overridable=NEEDED) + more


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


def reasons(
    rollout: Rollout, reports: Mapping[str, HostReport], cluster: ClusterState,
    verdicts: Verdicts, changes: Optional[Sequence[Change]] = None,
) -> List[str]:
    """Why changes would not be planned like this any more; by default those not made yet.

    `apply`, `resume`, and the look before each change ask this, and so does what makes changes
    last.  Values of the config database are looked at again before each change of them is made.
    """
    if changes is None:
        changes = [one for one in rollout.changes if one.status is ChangeStatus.PLANNED]
    told = moved(rollout, reports, cluster, changes).values()
    against = filter(None, [verdicts.objection(rollout)])
    return [*told, *verdicts_moved(changes, verdicts), *against]


def moved(
    rollout: Rollout, reports: Mapping[str, HostReport], cluster: ClusterState,
    changes: Sequence[Change],
) -> Dict[str, str]:
    """The same by id, but for the verdicts, which take a large cluster a tenth of a second."""
    lost = lost_models(reports.values())
    told = (
        (one, _moved(rollout, one, reports.get(one.hostname), cluster, lost)) for one in changes
    )
    return {one.action_id: f"{one.name}: {why}" for one, why in told if why}


def _moved(
    rollout: Rollout, change: Change, report: Optional[HostReport], cluster: ClusterState,
    lost: Lost,
) -> str:
    planned = change.status is ChangeStatus.PLANNED
    why = change.setting.unfit(rollout.warrant(change), report, lost, planned)
    osd = cluster.osd_of(change, change.osd_id)
    if why or report is None or osd is None:
        return why
    if osd.device_class != change.device_class:
        return f"its device class is {osd.device_class} now, and was {change.device_class}"
    where, planned_in = ", ".join(failure_domains(osd, cluster)), change.failure_domain
    moved_on = planned_in and where != planned_in
    return f"it is in {where} now, and was planned in {planned_in}" if moved_on else ""


def verdicts_moved(changes: Iterable[Change], verdicts: Verdicts) -> List[str]:
    """Say which changes are no longer what is recommended, and why."""
    told = ((change, change.verdict_moved(verdicts)) for change in changes)
    return [f"{change.name}: {why}" for change, why in told if why]
