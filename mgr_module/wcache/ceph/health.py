"""Health checks: those that wcache raises, beside what Ceph's own mean.

The table of Ceph's checks, flags and PG states was read in the source of Ceph 18.2.7 and 20.2.4,
and in the programs of 16.2.15.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Tuple

from ..core.model import Finding, FindingCode, Severity
from ..core.text import counted, grouped
from ..knobs.registry import ADVICE, advice_on
from .command import Mgr

DETAILS_MAX = 50


def health_checks(
    findings: Sequence[Finding], headlines: Optional[Mapping[FindingCode, str]] = None
) -> Dict[str, Dict[str, Any]]:
    """The argument of MgrModule.set_health_checks; infos are left to `status`.

    A headline is told in place of the summary that a code has.
    """
    by_code = grouped((one.code, one) for one in findings if one.severity is not Severity.INFO)
    checks: Dict[str, Dict[str, Any]] = {}
    for code, group in sorted(by_code.items(), key=lambda item: item[0].value):
        summary = ADVICE[code][0]
        details = [f"{item.subject}: {item.detail}" for item in group[:DETAILS_MAX]]
        if len(group) > DETAILS_MAX:
            details.append(f"and {len(group) - DETAILS_MAX} more; see `ceph wcache status`")
        worst = any(item.severity is Severity.ERROR for item in group)
        checks[code.value] = {
            "severity": "error" if worst else "warning",
            "summary": (headlines or {}).get(code) or counted(summary, len(group)),
            "count": len(group),
            # each cure once
            "detail": [*details, *dict.fromkeys(f"what to do: {advice_on(x)}" for x in group)],
        }
    return checks


class CephProgress:
    """Tells the `progress` module what changed since the last call."""

    def __init__(self, mgr: Mgr) -> None:
        self._mgr = mgr
        self._shown: Dict[str, Tuple[str, float]] = {}

    def show(
        self, under_way: Mapping[str, Tuple[str, float]],
        ended: Callable[[str], Tuple[str, str]],
    ) -> None:
        """`under_way`: id to (message, fraction done); what is missing now has ended.

        `ended` says how, and why it came to nothing; '' where it is complete.  `progress` keeps
        the last message that an event had.
        """
        for event_id, (message, exact) in under_way.items():
            fraction = round(exact, 3)  # time passes at every look
            if self._shown.get(event_id) != (message, fraction):
                self._call("update", event_id, message, fraction, [], True)
                self._shown[event_id] = message, fraction
        for event_id in set(self._shown) - set(under_way):
            message, why = ended(event_id)
            self._call("update", event_id, message, 1.0, [], True)
            if why:
                self._call("fail", event_id, why)
            else:
                self._call("complete", event_id)
            del self._shown[event_id]

    def _call(self, method: str, *args: Any) -> None:
        try:
            self._mgr.remote("progress", method, *args)
        except Exception:
            return  # ImportError in 16, RuntimeError later: the progress module is off


class Reach(Enum):
    """What follows from a check, a flag or a PG state."""

    CLUSTER = "no OSD is measured or changed"
    ERROR = "no OSD is measured or changed while it is an error"
    OSDS = "the OSDs that it is about are not measured or changed"
    BUSY = "the OSDs that it is about are sampled last"
    ALERT = "the OSDs that it is about are no controls, and are sampled and changed last"
    RECORDED = "it is recorded with what is measured, and forbids nothing"
    NOTHING = "it is not recorded, and forbids nothing"


class Named(Enum):
    """Where it stands which OSDs a check is about."""

    NOWHERE = "nowhere"
    LINES = "each line of the details begins with an OSD"
    PAIRS = "each line of the details names two OSDs"
    SUMMARY = "the summary lists daemons"
    HOSTS = "each line of the details begins with a host"
    ELSEWHERE = "the OSD map, or the states of PGs by OSD, name all of them"


@dataclass(frozen=True)
class Row:
    """What is known of some names; a `*` in a name stands for any letters.

    A mute hides a check and cures nothing: it lifts a row only where the row says so.
    """

    names: Tuple[str, ...]
    scope: Reach
    why: str
    named: Named = Named.NOWHERE
    mute_lifts: bool = False


CHECKS: Tuple[Row, ...] = (
    Row(("MON_DOWN",), Reach.CLUSTER,
        "where no quorum remains if one more mon goes, a restart of one host stops the cluster; "
        "else it is recorded (HealthMonitor.cc, check_for_mon_down)"),
    Row(("OBJECT_UNFOUND",), Reach.CLUSTER,
        "the OSD that holds the last copy is in no acting set (PGMap.cc, get_health_checks)"),
    Row(("DEGRADED_STRETCH_MODE", "RECOVERING_STRETCH_MODE"), Reach.CLUSTER,
        "a site is missing, and the other one holds the only copies (OSDMap.cc, check_health)"),
    Row(("MON_NETSPLIT",), Reach.CLUSTER,
        "sites or mons cannot hear each other, which the rest of the health may not show yet "
        "(HealthMonitor.cc, check_netsplit)", mute_lifts=True),
    Row(("UPGRADE_*",), Reach.CLUSTER,
        "an orchestrated upgrade is half done (cephadm, upgrade.py)"),
    # Errors that are not of single OSDs.  What nobody knows is taken like these.
    Row(("MON_DISK_CRIT",), Reach.ERROR,
        "a mon whose disk is full stops, and with it what is to be stored (HealthMonitor.cc)"),
    Row(("DAEMON_OLD_VERSION",), Reach.ERROR,
        "as an error daemons run three releases or more (HealthMonitor.cc)"),
    Row(("MGR_DOWN",), Reach.ERROR,
        "what has failed may be what tells of upgrades and hosts in maintenance (MgrMonitor.cc)"),
    Row(("MGR_MODULE_ERROR",), Reach.ERROR,
        "where cephadm, orchestrator or rook has failed, nobody tells of upgrades and hosts in "
        "maintenance; else it is recorded (PyModuleRegistry.cc)"),
    Row(("MDS_DAMAGE", "MDS_ALL_DOWN", "MULTIMDS_WITH_OLDSNAPS"), Reach.ERROR,
        "a file system is damaged or offline, and its clients do not write as they do else "
        "(MDSMap.cc, Beacon.cc)"),
    Row(("MDS_CLIENTS_BROKEN_ROOTSQUASH", "MDS_DUMMY"), Reach.ERROR,
        "clients write where they must not, or somebody tries out health checks (Beacon.cc)"),
    Row(("POOL_FULL",), Reach.ERROR,
        "a pool takes no more, or soon; it names no OSDs (PGMap.cc; OSDMap.cc warns)"),
    Row(("OSD_OUT_OF_ORDER_FULL",), Reach.ERROR,
        "the ratios at which OSDs are full contradict each other (OSDMap.cc)"),
    Row(("REQUEST_STUCK",), Reach.ERROR,
        "an upgrade from before Ceph 13 was never finished (PGMap.cc)"),
    Row(("CEPHADM_CERT_ERROR",), Reach.ERROR,
        "a certificate of cephadm has expired, and its agents may not be heard (cert_mgr.py)"),
    # Single OSDs.
    Row(("OSD_DOWN",), Reach.OSDS, "it is down and in; all are listed (OSDMap.cc, check_health)",
        Named.ELSEWHERE),
    Row(("OSD_FULL", "OSD_BACKFILLFULL", "OSD_NEARFULL"), Reach.OSDS,
        "it takes no more copies, or soon; all are listed (OSDMap.cc, check_health)",
        Named.LINES),
    Row(("OSD_SLOW_PING_TIME_BACK", "OSD_SLOW_PING_TIME_FRONT"), Reach.OSDS,
        "its network is slow, at either end; only the ten slowest pairs are listed (PGMap.cc)",
        Named.PAIRS),
    Row(("SLOW_OPS",), Reach.OSDS,
        "it has operations that take longer than 30 s; ten daemons at most are listed, and mons "
        "among them make no OSD ill (DaemonHealthMetricCollector.cc)", Named.SUMMARY),
    Row(("OSD_FLAGS",), Reach.OSDS,
        "somebody has set a flag on it, its host or its class, as for work on them (OSDMap.cc)",
        Named.ELSEWHERE),
    Row(("HOST_IN_MAINTENANCE",), Reach.OSDS,
        "its host is in maintenance (cephadm, module.py)", Named.HOSTS),
    Row(("BLUESTORE_SPURIOUS_READ_ERRORS", "BLUESTORE_DISK_SIZE_MISMATCH",
         "OSD_TOO_MANY_REPAIRS"), Reach.OSDS,
        "its drive or its store is not sound, so that it is no example of others; all are listed "
        "(BlueStore.cc, PGMap.cc)", Named.LINES, mute_lifts=True),
    Row(("OSD_UNREACHABLE",), Reach.OSDS,
        "its address is not in public_network as that is set now; all are listed (OSDMap.cc of "
        "18 and 20)", Named.LINES, mute_lifts=True),
    Row(("PG_DAMAGED", "PG_DEGRADED", "PG_AVAILABILITY", "PG_RECOVERY_FULL",
         "OSD_SCRUB_ERRORS"), Reach.OSDS,
        "the states of its PGs say so, without the delay of the check; some forbid everything "
        "(PGMap.cc; PeeringState.cc sets `inconsistent` for scrub errors)",
        Named.ELSEWHERE),
    Row(("BLUESTORE_SLOW_OP_ALERT", "BLOCK_DEVICE_STALLED_READ_ALERT",
         "DB_DEVICE_STALLED_READ_ALERT", "WAL_DEVICE_STALLED_READ_ALERT"), Reach.ALERT,
        "its drive was slow once, which Ceph tells for a day; all are listed (BlueStore.cc, "
        "PGMap.cc; from 18.2.5 on)", Named.LINES, mute_lifts=True),
    Row(("OSD_*_DOWN",), Reach.RECORDED, "OSD_DOWN names the OSDs (OSDMap.cc)"),
    Row(("OSDMAP_FLAGS",), Reach.RECORDED, "the flags themselves are looked at (OSDMap.cc)"),
    Row(("OBJECT_MISPLACED", "PG_BACKFILL_FULL", "PG_NOT_SCRUBBED", "PG_NOT_DEEP_SCRUBBED",
         "PG_SLOW_SNAP_TRIMMING"), Reach.RECORDED,
        "every copy is there; the states of PGs say who moves data (PGMap.cc)"),
    Row(("AUTH_*",), Reach.NOTHING,
        "keys and their kinds say nothing of data or latencies; 20.2.4 raises errors until the "
        "keys of an older cluster are new (AuthMonitor.cc)"),
    Row(("WCACHE_*",), Reach.NOTHING, "these are our own findings, which `status` tells"),
)

# As `flags` of the OSD map has them (OSDMap::get_flag_string).
FLAGS: Tuple[Row, ...] = (
    Row(("full", "pauserd", "pausewr"), Reach.CLUSTER, "clients do not write, or do not read"),
    Row(("noup", "nodown"), Reach.CLUSTER, "the OSD map does not say which OSDs run"),
    Row(("norecover", "nobackfill", "pauserec"), Reach.CLUSTER,
        "a copy that is lost meanwhile is not made anew"),
    Row(("noout",), Reach.CLUSTER, "somebody works on hosts, and lost copies are not made anew"),
    Row(("nearfull", "noin", "norebalance", "noscrub", "nodeep-scrub", "notieragent",
         "nosnaptrim", "noautoscale"), Reach.RECORDED, "every copy is there and is written"),
    Row(("sortbitwise", "recovery_deletes", "purged_snapdirs", "pglog_hardlimit", "require_*"),
        Reach.NOTHING, "every cluster has them"),
)

# pg_state_string (osd_types.cc); a PG has several.  One that is not `active` is ill too.
PG_STATES: Tuple[Row, ...] = (
    Row(("down", "incomplete"), Reach.CLUSTER,
        "data is out of reach, and who holds it may be in no acting set"),
    Row(("stale", "unknown"), Reach.CLUSTER,
        "no OSD tells of it, and the same may hold; that lasts for seconds where an OSD goes down "
        "or a PG is made or split, and in the first minute only the OSDs of its acting set are "
        "left alone (PGMap.cc, check_down_pgs and check_osd_map)"),
    Row(("recovery_unfound", "backfill_unfound"), Reach.CLUSTER,
        "the OSD that holds the last copy is in no acting set"),
    Row(("degraded", "undersized", "recovering", "recovery_wait", "recovery_toofull",
         "forced_recovery"), Reach.OSDS, "a copy is missing, and the others are needed"),
    Row(("creating", "peering", "activating", "peered", "laggy", "wait"), Reach.OSDS,
        "its clients wait"),
    Row(("inconsistent", "repair", "failed_repair", "snaptrim_error"), Reach.OSDS,
        "one of its copies is wrong, and nobody knows yet which"),
    Row(("backfilling",), Reach.BUSY, "its OSDs move data; every copy is there"),
    Row(("remapped", "backfill_wait", "backfill_toofull", "forced_backfill", "premerge"),
        Reach.RECORDED, "it is only misplaced, or waits: every copy is there"),
    Row(("scrubbing", "deep", "snaptrim", "snaptrim_wait"), Reach.RECORDED,
        "its OSDs have more to do; every copy is there"),
    Row(("active", "clean"), Reach.NOTHING, "it is well"),
)
# Of these, the words that count for all OSDs after so long, of PGs that were well before.
PASSING, PASSES_S = ("stale", "unknown"), 60.0
_UNKNOWN = Row(("*",), Reach.ERROR, "nobody knows what it means")


def row_of(name: str, rows: Sequence[Row] = CHECKS) -> Row:
    """What is known of a name: its own row before one for many; nobody knows the rest."""
    for row in rows:
        if name in row.names:
            return row
    for row in rows:
        if any("*" in pattern and fnmatchcase(name, pattern) for pattern in row.names):
            return row
    return _UNKNOWN
