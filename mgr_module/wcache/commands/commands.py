"""`ceph wcache ...`: the table of commands, with what turns a call into an answer.

Parse, call, format: no decisions here.  A command declares its arguments in Ceph's own
notation (src/mon/MonCommands.h), so `ceph wcache -h` knows them.  An argument is never
called `host`, since the `ceph` tool eats that name (its own --host option).
"""

from __future__ import annotations

import errno
import json
import logging
from functools import partial
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from ..ceph import web_host
from ..core import codec
from ..core.codec import one_line
from ..core.errors import ConsentError, MalformedError, NotReadyError, RefusedError, WcacheError
from ..core.experiment.campaign import parse_loads
from ..core.history import LINES_MAX, parse_since
from ..core.scope import parse_scope
from ..core.text import FORMAT_VERSION, NOTHING, CommandLine, Rows, arguments, fitted, ticked
from ..deployment.places import checked_hostname, checked_image
from ..knobs.registry import KNOBS
from ..services.campaigns import BOUNDS
from ..services.guards import require_fitting
from ..services.leaving import DISABLE
from ..services.outlook import next_step
from .agents import LEAVE, OF_AGENTS
from .campaigns import (
    campaign,
    campaign_text,
    campaigns,
    campaigns_text,
    compared,
    compared_text,
    plain_record,
    require_two,
)
from .drives import drives, drives_text, every_drive_text
from .explain_view import explain, render
from .recommend import recommend_text
from .rows import OF_AUTOMATION, OF_DRIVES, OF_PLANS
from .service import Service
from .status import bare, status_text, whole_status_text
from .tables import IDS, done, forecast
from .trying import tried, try_text
from .views import (
    ACCEPT_COST,
    DRY_RUN,
    EACH,
    HISTORY_ARGUMENTS,
    OF_CAMPAIGNS,
    SCOPE,
    TURN_ON,
    Answer,
    Command,
    Views,
    history,
    history_text,
)

FORMATS = ("plain", "json", "json-pretty", "yaml")
ROWS_AT_ONCE = 100
OF_PROBES = ("wcache agent poll", "wcache agent post")
READS_FILE = (*OF_PROBES, "wcache evidence import")
# Their answers are files and messages with versions of their own.
FILES = (*OF_PROBES, "wcache campaign record", "wcache evidence export")
# What an argument must be, whatever there is; each raises a MalformedError.
READERS: Mapping[str, Callable[[str], object]] = {
    "hostname": checked_hostname, "image": checked_image, "loads": parse_loads,
    "since": partial(parse_since, now_s=0.0),
}

COMMANDS: Tuple[Command, ...] = (
    Command(
        "wcache", (), "r",
        "Say in a sentence what changing write caches would gain, and what to do next",
        lambda s, v, a: v.status(), bare,
    ),
    Command(
        "wcache status", (EACH,), "r",
        "Show probes, drives by model with both sides of the cache, and findings; --all: each",
        lambda s, v, a: v.status(), status_text, whole_status_text,
    ),
    Command(
        "wcache drive ls", (SCOPE, EACH), "r",
        "List OSD drives: model, device cache, and the kernel view at every layer; many on several "
        "hosts by their kind, with --all each of them",
        lambda s, v, a: drives(v.world(), a.get("scope")), drives_text, every_drive_text,
    ),
    Command(
        "wcache drive accept",
        ("name=hostname,type=CephString", "name=domain_id,type=CephString",
         ACCEPT_COST, DRY_RUN), "rw",
        "Accept a drive's current cache mode where its prior mode is lost or disputed; "
        "--accept-cost gives the prior mode up for good",
        lambda s, v, a: s.accepts.accept(**a),
    ),
    *OF_DRIVES,
    *OF_AGENTS,
    Command(
        "wcache try",
        (SCOPE, ACCEPT_COST, DRY_RUN), "rw",
        "Say what measuring a drive or two per drive model would cost; --accept-cost accepts that "
        "(time, bytes, OSD caches emptied) and begins it; called again, show the progress, and "
        "then the result",
        lambda s, v, a: tried(s.tries, v.world, v.recommended, **a), try_text,
    ),
    Command(
        "wcache campaign start",
        (SCOPE, "name=loads,type=CephString,req=false", "name=pairs,type=CephInt,req=false",
         "name=drives_per_model,type=CephInt,req=false", "name=seed,type=CephInt,req=false",
         TURN_ON, OF_CAMPAIGNS, "name=recheck,type=CephBool,req=false",
         "name=observe,type=CephBool,req=false", "name=calls,type=CephInt,req=false", ACCEPT_COST,
         DRY_RUN), "rw",
        "Measure both cache modes on sampled drives of scope cluster, class:NAME, host:NAME, "
        "osd.N or model:PART, under loads traffic,depth1,batch,4m,timer; --dry-run shows the "
        "most it can cost, and --accept-cost accepts that: time, bytes, OSD caches emptied; "
        "--consent-turn-on may turn a cache on that is off: a drive that lies about flushes then "
        "loses writes at a power cut; --recheck measures less where there is a verdict; "
        "--override=cluster_healthy adds load to a cluster or OSDs that are not well, and such "
        "records are never pooled; with --observe nothing is toggled, and latencies come as tables "
        "of the mode that is there; --loads=capacity toggles nothing either, and benches each OSD "
        "--calls times for mClock",
        lambda s, v, a: s.campaigns.start(**a), forecast, bounds=BOUNDS, fit=require_fitting,
    ),
    Command(
        "wcache campaign ls", (), "r", "List campaigns", lambda s, v, a: campaigns(v.world()),
        campaigns_text,
    ),
    Command(
        "wcache campaign show",
        ("name=campaign_id,type=CephString", "name=before,type=CephString,req=false"), "r",
        "Show the runs and results of a campaign; with --before=ID compare two campaigns of "
        "--observe, with intervals",
        lambda s, v, a: compared(v.world(), **a) if a.get("before") else campaign(v.world(), **a),
        lambda data: (compared_text if "comparison" in data else campaign_text)(data),
        fit=require_two,
    ),
    Command(
        "wcache campaign record", ("name=record_id,type=CephString",), "r",
        "Print a record with its raw samples, for `wcache analyze`",
        lambda s, v, a: plain_record(v.record(a["record_id"]), **a), lambda data: json.dumps(data),
    ),
    Command(
        "wcache campaign stop", ("name=campaign_id,type=CephString", DRY_RUN), "rw",
        "Stop a campaign and restore the prior cache modes",
        lambda s, v, a: s.campaigns.stop(**a),
    ),
    Command(
        "wcache recommend", (SCOPE,), "r",
        "Recommend a cache mode per device class and drive model, with the evidence; of those not "
        "measured say what `try` would cost",
        lambda s, v, a: _recommended(s, v, **a), recommend_text,
    ),
    Command(
        "wcache explain", ("name=scope,type=CephString,n=N",), "r",
        "Explain the verdicts on drives of a scope, as osd.N or model:PART: figures, raw pairs, "
        "and what would change them",
        lambda s, v, a: explain(v.world(), v.recommended, v.record, **a), render,
    ),
    *OF_AUTOMATION,
    *OF_PLANS,
    *(row for knob in KNOBS for row in knob.room.ROWS),
    Command(
        "wcache freeze", ("name=thaw,type=CephBool,req=false", DRY_RUN), "rw",
        "Stop everything, restore prior states, and toggle nothing until --thaw",
        lambda s, v, a: s.freeze(**a),
    ),
    LEAVE,
    Command(
        "wcache web token", (), "rw",
        "Print a token for the module's web page, good for 12 hours",
        lambda s, v, a: s.web_tokens.issue(), web_host.lines,
    ),
    Command(
        "wcache history", HISTORY_ARGUMENTS, "r",
        "Show who or what changed something, when, from what to what, and the outcome; --what "
        "takes an id (c1, p2) or command, automation, change, probe or step",
        lambda s, v, a: history(v.world(), v.entries(), **a), history_text,
        bounds={"limit": (1, LINES_MAX)},
    ),
)

_BY_PREFIX = {command.prefix: command for command in COMMANDS}


# What may begin something: these go by the options as the mons have them at that moment.
BEGINNING = frozenset(
    command.prefix for command in COMMANDS
    if command.perm == "rw" and not command.prefix.startswith("wcache agent ")
)


def _recommended(
    service: Service, views: Views, scope: Optional[str] = None
) -> Dict[str, Any]:
    world = views.world()
    found = views.recommended.answer(world, scope)
    return {**found, "unmeasured": service.tries.costs(world, scope)}


def specs() -> List[Dict[str, Any]]:
    """All commands as a mgr module declares them."""
    return [command.spec() for command in COMMANDS]


def answer(
    service: Service, views: Views, cmd: Mapping[str, Any], inbuf: str,
    log_exception: Callable[[str], None], starting: Optional[str] = None,
) -> Answer:
    """Run one command; returns (0 or negative errno, output, one line of error).

    Nothing is let through: the mgr turns an exception into a traceback for the user.  Where a
    consent is missing, the output is that of --dry-run.  `starting` says why the stored state is
    not loaded, or '' where it soon will be; None once it is.
    """
    command = _BY_PREFIX.get(str(cmd.get("prefix")))
    if command is None:
        return -errno.EINVAL, "", "unknown command: see `ceph wcache -h`"
    try:
        arguments = _arguments(command, cmd)
        form = cmd.get("format") or "plain"
        if form not in FORMATS:
            raise MalformedError("format must be plain, json, json-pretty or yaml")
        if command.prefix in READS_FILE:
            if not inbuf:
                raise MalformedError("this command reads from a file", "add -i FILE")
            arguments["inbuf"] = inbuf
        if starting is not None:
            raise NotReadyError(starting or "wcache is still starting", "try again in a moment")
        if service.leaving.left and command is not LEAVE:
            raise RefusedError(
                "wcache has left this cluster",
                f"{ticked(DISABLE)}; enabled again after that it begins anew",
            )
        code, line, begun = 0, "", not arguments.get("dry_run")
        try:
            data = command.call(service, views, arguments)
        except ConsentError as missing:
            data = missing.told
            if begun:
                code, line = -missing.errno, missing.line()
            arguments[missing.word], begun = True, False
        plain = data
        if not isinstance(data, dict):  # what views return is plain already, and may be large
            plain = (codec.to_plain if command.prefix in OF_PROBES else codec.told)(data)
        if not begun:
            following = _to_begin(command, arguments, plain)
            plain = {"started": False, "next": following, **plain}
        if command.prefix not in FILES:
            plain = _followed(command, plain, arguments, views, begun=begun)
        out = _format(command, plain, form, whole=bool(arguments.get("all")))
        # the `ceph` tool prints the error after it, and ends no line itself
        return code, f"{out}\n" if code else out, line
    except WcacheError as error:
        by_admin = command.perm == "rw" and command.prefix not in OF_PROBES
        service.log.log(
            logging.INFO if by_admin else logging.DEBUG, "admin: %s is refused: %s",
            command.prefix, one_line(error.line(), 300),
        )
        return -error.errno, "", error.line()
    except Exception as error:
        log_exception(f"{command.prefix} failed")
        return (
            -errno.EIO, "",
            f"{command.prefix}: internal error ({type(error).__name__}); see the mgr's log",
        )


def _arguments(command: Command, cmd: Mapping[str, Any]) -> Dict[str, Any]:
    """The command's own arguments, well formed; the mgr does not check them all."""
    found: Dict[str, Any] = {}
    for item in command.arguments:
        declared = dict(part.split("=", 1) for part in item.split(","))
        name = declared["name"]
        value = cmd.get(name)
        if value is None:
            if declared.get("req") != "false":
                usage = arguments(["ceph", *command.prefix.split(), "-h"])
                raise MalformedError(f"{name} is missing", f"see {ticked(usage)}")
            continue
        if declared.get("n") == "N" and isinstance(value, (list, tuple)):
            value = " ".join(str(part) for part in value)  # a name of several words
        optional = declared.get("req") == "false"
        shown = f"--{name.replace('_', '-')}" if optional else name
        value = found[name] = _checked(shown, declared, value)
        low, high = command.bounds.get(name, (value, value))
        if not low <= value <= high:
            raise MalformedError(f"{shown} must be a whole number from {low} to {high}")
        if name == "scope":
            parse_scope(value, command.terms)
        if name in READERS:
            READERS[name](value)
    command.fit(found)
    return found


def _to_begin(
    command: Command, given: Mapping[str, Any], told: Mapping[str, Any]
) -> CommandLine:
    """The command with these arguments, to be pasted; without --dry-run.

    NOTHING where it would do nothing, or reads a file whose name is not known here.
    """
    does = (told[name] for name in ("would", "would_restore", "changes") if name in told)
    if command.prefix in READS_FILE or not all(does):
        return NOTHING
    words = ["ceph", *command.prefix.split()]
    for item in command.arguments:
        declared = dict(part.split("=", 1) for part in item.split(","))
        name, value = declared["name"], given.get(declared["name"])
        if name == "dry_run" or value is None or value is False:
            continue
        option = f"--{name.replace('_', '-')}"
        if declared.get("req") != "false":
            words.append(str(value))
        else:
            words.append(option if value is True else f"{option}={value}")
    return arguments(words)


def _checked(name: str, declared: Mapping[str, str], value: Any) -> Any:
    kind = declared["type"]
    if kind == "CephBool":
        if value in ("true", "false"):
            return value == "true"
        if not isinstance(value, bool):
            raise MalformedError(f"{name} must be true or false")
    elif kind == "CephInt":
        if isinstance(value, bool) or not isinstance(value, int):
            raise MalformedError(f"{name} must be a whole number")
    elif not isinstance(value, str) or len(value) > 1024 or not value.isprintable():
        raise MalformedError(f"{name} must be at most 1024 printable characters")
    elif kind == "CephChoices" and value not in declared["strings"].split("|"):
        raise MalformedError(f"{name} must be one of {declared['strings'].replace('|', ', ')}")
    return value


def _followed(
    command: Command, data: Dict[str, Any], given: Dict[str, Any], views: Views, *, begun: bool
) -> Dict[str, Any]:
    """An answer with the command that follows; of a change with a sentence, and its undo."""
    told = done(command.prefix, data) if begun else {}
    about = tuple(str(data[name]) for name in IDS if data.get(name))
    following = data.get("next", NOTHING)
    if data.get("missing"):
        following = _to_begin(command, {**given, data["missing"]: True}, {})
    elif following == NOTHING:
        nowhere = data.get("changes") == [] and given.keys() <= {"consent_turn_on"}
        but = "ceph wcache plan" if nowhere else ""
        following = next_step(views.situation(views.after(), about, but))
    said = {name: value for name, value in data.items() if name != "undo" or told}
    return {**said, **told, "next": following or NOTHING}


def _format(command: Command, plain: Dict[str, Any], form: str, *, whole: bool) -> str:
    if form != "plain" and command.prefix not in FILES:
        plain = {"format_version": FORMAT_VERSION, **plain}
    if form != "json":
        plain = {key: list(row) if isinstance(row, Rows) else row for key, row in plain.items()}
    if form == "json-pretty":
        return json.dumps(plain, indent=2, allow_nan=False)
    if command.prefix in OF_PROBES:
        return _encoded(plain)  # of one host
    if form == "json":
        return _json(plain)
    if form == "yaml":
        return _yaml(plain)
    text = (command.whole if whole and command.whole else command.render)(plain)
    if command.prefix in FILES:
        return text
    comment = "# " if text.startswith("#") else ""  # it may be piped into a shell
    ends = [(name, plain[name] or "nothing") for name in ("next", "undo") if name in plain]
    return "\n".join([fitted(text), *(f"{comment}{name}: {line}" for name, line in ends)])


_encoded = json.JSONEncoder(allow_nan=False).encode  # dumps() makes an encoder in each call


def _json(plain: Any) -> str:
    """JSON, each row of a long list by itself: the encoder holds the GIL from end to end."""
    if isinstance(plain, dict):
        items = (f"{_encoded(str(key))}: {_json(value)}" for key, value in plain.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(plain, Rows) or (isinstance(plain, list) and len(plain) > ROWS_AT_ONCE):
        return "[" + ", ".join([_encoded(row) for row in plain]) + "]"
    return _encoded(plain)


def _yaml(plain: Any) -> str:
    """YAML; JSON where PyYAML is missing, which is YAML 1.2 too."""
    try:
        import yaml
    except ImportError:
        return json.dumps(plain, indent=2, allow_nan=False)
    return str(yaml.safe_dump(plain, default_flow_style=False, sort_keys=False))
