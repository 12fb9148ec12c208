"""`ceph wcache agent ...`: the probes, the script that brings one or takes it away."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Tuple

from ..core.fleet.agents import SILENT_S
from ..core.model import Cure
from ..core.text import LISTED_MAX, command, grouped, many, named, pasted, table
from ..deployment.places import require_one_or_all
from ..engine.world import World
from ..services.leaving import DISABLE, require_way
from .tables import would
from .views import DRY_RUN, EACH, Command


def agents(world: World) -> Dict[str, Any]:
    """`agent ls`: all probes, with those that never called, and those that were refused."""
    added, known = world.deployments, {agent.hostname: agent for agent in world.agents}
    rows = []
    for name in (*known, *sorted(added.keys() - known.keys())):
        one, report = known.get(name), world.reports.get(name)
        heard = one is not None and name not in world.only_stored
        rows.append({
            "hostname": name, "probe_id": one.probe_id if one else "",
            "probe_version": one.probe_version if one else "",
            "heard_s_ago": round(world.now_s - one.seen_at_s, 1) if one and heard else None,
            "lease_id": one.lease_id if one else "", "simulated": one is not None and one.simulated,
            "drives": len(report.drives) if one and report else 0,
            "form": added[name].form.value if name in added else "",
            "waits": _waits(world, name) if one else "",
        })
    refused = [
        {
            "hostname": one.hostname, "protocol": one.version,
            "heard_s_ago": round(world.now_s - one.seen_at_s, 1), "why": one.words,
        }
        for one in world.other_versions
    ]
    return {"agents": rows, "refused": refused}


def _waits(world: World, hostname: str) -> str:
    """What a host waits for before its drives are measured; empty where for nothing."""
    if hostname in world.blocked:
        return world.blocked[hostname].words(world.now_s)
    report = world.reports.get(hostname)
    cures = [item.cure for item in report.findings] if report else []
    return Cure.BOOT_ONCE.value if Cure.BOOT_ONCE in cures else ""


_ESCAPE = "\\"  # some shells' echo takes it for more than itself
_KEYS = {
    "made": "made", "there": "there already", "pending": "still being made by the mons",
    "rook": "made by Rook with the CephClient",
}


def added(data: Mapping[str, Any]) -> str:
    """`ceph wcache agent add`."""
    if data.get("dry_run"):
        # it may be piped into a shell, as the script is
        return "\n".join(f"# {line}" for line in would(data).splitlines())
    hosts = data["hosts"]
    notes = [f"probes on {_named(hosts)}, run by {data['form']}: {data['why']}"]
    if data["why"] != "as --run-by says":
        notes.append("(choose another way with --run-by cephadm, rook or systemd)")
    if data["named_by_osds"]:
        notes.append("the OSDs name these hosts; go on only where each of them is one of yours:")
        notes += [
            f"  {row['hostname']}: {named([f'osd.{one}' for one in row['osd_ids']])}"
            for row in hosts
        ]
    for state, words in _KEYS.items():
        found = [row for row in hosts if row["key"] == state]
        if found:
            notes.append(f"keys {words}: {_named(found)}")
    notes += [f"NO KEY for {row['hostname']}: {row['error']}" for row in hosts if row["error"]]
    notes += [f"left out: {line}" for line in data["left_out"]]
    return _script([*notes, *data["notes"]], data["script"])


def removed(data: Mapping[str, Any]) -> str:
    """`ceph wcache agent rm`."""
    if data.get("dry_run"):
        return "\n".join([would(data), *(f"stays on the host: {line}" for line in data["stays"])])
    notes = [f"{data['hostname']} is forgotten and its key removed"]
    if data["form"] == "rook":
        notes = [f"{data['hostname']} is forgotten; its key goes with the CephClient"]
    notes += [f"stays on the host: {line}" for line in data["stays"]]
    notes.append("What is left to remove on the host:")
    return _script([*notes, *data["notes"]], data["script"])


def left_text(data: Mapping[str, Any]) -> str:
    """`ceph wcache leave`."""
    notes: List[str] = []
    for row in data["keeps"]:
        stays = f"stays: {row['name']} {row['what']} (plan {row['plan_id']}); kept by "
        where = row["hostname"] or "any host of an admin"
        undo = [f"; to undo it on {where}:", f"  {row['undo']}"] if row["undo"] else [""]
        notes += [f"{stays}{row['kept_by']}{undo[0]}", *undo[1:]]
    if data.get("dry_run"):
        whole = (pasted(line) if line.startswith("  ") else line for line in notes)
        return "\n".join([would(data), *whole])
    notes += [f"stays on the host: {line}" for line in data["stays"]]
    notes += [f"waits: {line}" for line in data["waits"]]
    if data["left"]:
        last = "at the end of this script" if DISABLE in data["script"] else "in a moment"
        notes.append(
            "wcache has left this cluster: nothing of it is stored any more, and the module is "
            f"disabled {last}; all mgrs start anew for that"
        )
    if data["hosts"]:
        notes.append(f"keys are removed; what is left to be run for {named(data['hosts'])}:")
    return _script([*notes, *data["notes"]], data["script"])


def agents_text(data: Mapping[str, Any]) -> str:
    """`ceph wcache agent ls`: of many, those that were not heard and those that work."""
    if len(data["agents"]) <= LISTED_MAX:
        return every_agent_text(data)
    idle = [a for a in data["agents"] if _heard(a) and not a["lease_id"]]
    told = [a for a in data["agents"] if not _heard(a) or a["lease_id"]]
    shown = {**data, "agents": told[:LISTED_MAX]}
    left = len(told) - LISTED_MAX
    return "\n".join([
        *([_every(shown, data["agents"])] if told or data["refused"] else _waiting(data["agents"])),
        *([f"and {left} more like these"] if left > 0 else []),
        f"{many(len(idle), 'probe')} heard in the last {SILENT_S:.0f} s and idle",
        "each of them: ceph wcache agent ls --all",
    ])


def _heard(row: Mapping[str, Any]) -> bool:
    return row["heard_s_ago"] is not None and row["heard_s_ago"] < SILENT_S


def _waiting(rows: List[Mapping[str, Any]]) -> List[str]:
    """What hosts wait for before their drives are measured, a line for each thing."""
    found = grouped((row["waits"], row) for row in rows if row["waits"])
    return [f"{_named(those)}: {what}" for what, those in found.items()]


def every_agent_text(data: Mapping[str, Any]) -> str:
    """`ceph wcache agent ls --all`."""
    return _every(data, data["agents"])


def _every(data: Mapping[str, Any], told: List[Mapping[str, Any]]) -> str:
    refused = [f"{one['hostname']}: refused, {one['why']}" for one in data["refused"]]
    if not data["agents"]:
        return "\n".join(refused) or "no probe has contacted the mgr yet"
    rows = [
        (a["hostname"], a["form"] or "by hand", _last_seen(a), a["drives"], a["lease_id"] or "-",
         a["probe_version"], a["probe_id"] + (" (simulated)" if a["simulated"] else ""))
        for a in data["agents"]
    ]
    heads = ("HOST", "RUN BY", "LAST SEEN", "DRIVES", "LEASE", "VERSION", "PROBE")
    return "\n".join([table(heads, rows), *_waiting(told), *refused])


def _last_seen(row: Mapping[str, Any]) -> str:
    if row["heard_s_ago"] is None:
        return "not since the mgr started" if row["probe_id"] else "never"
    return f"{row['heard_s_ago']:.0f} s ago"


def _named(rows: List[Mapping[str, Any]]) -> str:
    return named([row["hostname"] for row in rows])


def _script(notes: List[str], script: str) -> str:
    """One paste.  The notes are told to whoever runs it too, quoted: some came from outside."""
    lines = [
        command("echo {} >&2", note.replace(_ESCAPE, "?"))
        for note in notes
    ]
    return "\n".join(["# a shell script: read it, then run it with sh", *lines, script])


OF_AGENTS: Tuple[Command, ...] = (
    Command(
        "wcache agent ls", (EACH,), "r",
        "List the probes and when each was last seen; of many those that want a look, with --all "
        "each", lambda s, v, a: agents(v.world()), agents_text, every_agent_text,
    ),
    Command(
        "wcache agent poll", ("name=hostname,type=CephString",), "rw",
        "For wcache-probe: ask for work (hello message with -i)",
        lambda s, v, a: s.probes.poll(a["hostname"], a["inbuf"]),
    ),
    Command(
        "wcache agent post", ("name=hostname,type=CephString",), "rw",
        "For wcache-probe: report an outcome (post message with -i)",
        lambda s, v, a: s.probes.post(a["hostname"], a["inbuf"]),
    ),
    Command(
        "wcache agent add",
        ("name=hostname,type=CephString,req=false", "name=all,type=CephBool,req=false",
         "name=run_by,type=CephChoices,strings=cephadm|rook|systemd,req=false",
         "name=image,type=CephString,req=false",
         "name=hosts_read,type=CephBool,req=false", DRY_RUN), "rw",
        "Make the key of a host's probe, or with --all of each host's, and print what to run to "
        "bring the probes there; --run-by says what starts them, --image which container image "
        "has the probe; without an orchestrator a stolen key can forge hosts' names, and "
        "--hosts-read says that you have read them",
        lambda s, v, a: s.agents.add(
            a.get("hostname"), every=bool(a.get("all")), form=a.get("run_by"), image=a.get("image"),
            hosts_read=bool(a.get("hosts_read")), dry_run=bool(a.get("dry_run")),
        ), added, fit=require_one_or_all,
    ),
    Command(
        "wcache agent rm",
        ("name=hostname,type=CephString", "name=host_is_gone,type=CephBool,req=false", DRY_RUN),
        "rw",
        "Restore what is measured on a host, remove its key, and print what is left to remove; "
        "--host-is-gone forgets a host with drives that nobody puts back: it says which stay in "
        "which mode",
        lambda s, v, a: s.agents.remove(**a), removed,
    ),
)
LEAVE = Command(
    "wcache leave",
    ("name=back,type=CephBool,req=false", "name=keep,type=CephBool,req=false",
     "name=host_is_gone,type=CephString,req=false", DRY_RUN), "rw",
    "Leave this cluster: end everything, take back what plans have set (--back) or leave it "
    "(--keep), remove the probes' keys and all that is stored, print what to run on the hosts, "
    "and disable the module; called again it goes on; --host-is-gone names hosts that will not "
    "come back",
    lambda s, v, a: s.leaving.leave(**a), left_text, fit=require_way,
)
