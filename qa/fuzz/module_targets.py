"""Parsers of the mgr module: probes, the mons' store and answers, files, commands, browsers."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from functools import cache
from io import BytesIO
from typing import Any, Dict, List
from urllib.parse import unquote_to_bytes

import shapes
from mgr_fakes.module import FakeMgr
from mgr_fakes.store import MemoryStore, MonLikeKv
from module_world import a_mgr, measured_anew
from wcache.analysis import __main__ as analysis
from wcache.ceph import compat
from wcache.ceph.command import CommandFailed, parse
from wcache.ceph.config import labels_of
from wcache.ceph.store import KvStore
from wcache.commands import commands
from wcache.core import codec, versions
from wcache.core.config_database import Config, parse_dump
from wcache.core.drive import journal
from wcache.core.errors import WcacheError
from wcache.core.experiment.observed import parse_histogram
from wcache.core.figures.prometheus_text import gauge
from wcache.core.record import RECORD_FORMAT, Record
from wcache.core.verdict import foreign
from wcache.core.verdict.load_profile import work_counters
from wcache.engine.storing.plans import Head, Part, StoredPlans
from wcache.knobs.memory import reading
from wcache.web import dashboard_login
from web_world import Site

from .target import Broken, Target, again, example, examples, one_line, text_of

NOW_S = 2e9
ANSWERS: Dict[str, Any] = {
    "plan_id": "p1", "campaign_id": "c1", "what": "p1", "scope": "osd.0",
    "option": "cache_mode=writethrough", "knob": "options", "hostname": "h1", "dry_run": True,
    "accept_cost": True, "loads": "depth1",
}
WHOLES = shapes.wholes()
METRIC = re.compile(
    r'# (HELP|TYPE) \S+ .*|[a-z_]+(\{([a-z_]+="(?:[^"\\\n]|\\[\\"n])*",?)*\})? [-+.0-9a-zA-Z]+'
)


def lines_of(values: List[Any]) -> List[bytes]:
    """Their JSON."""
    return [json.dumps(value).encode() for value in values]


# ---- what is stored or sent as a whole


def stored(data: bytes) -> Any:
    """A type's name, and on the next line the text of a value."""
    name, _, body = text_of(data).partition("\n")
    cls = WHOLES.get(name)
    if cls is None:
        return None
    return again(cls, versions.loads(cls, body, bytes_max=2**24, what="it"))


def stored_seeds() -> List[bytes]:
    """Of every type that has a number."""
    return [
        f"{name}\n{json.dumps(plain)}".encode()
        for name, cls in WHOLES.items() for plain in examples(cls)
    ]


def entry(data: bytes) -> Any:
    """An entry of the journal, which the probe and a restore read."""
    said = text_of(data)
    journal.to_pin("lease/d", said)
    found = journal.parse("lease/d", said)
    if found.drives and not found.of_options and journal.to_pin(found.key, said) is None:
        raise Broken("an entry that is restored by cannot be pinned by")
    told = journal.encode(found)
    if journal.encode(journal.parse("lease/d", told)) != told:
        raise Broken("the entry is another one when it is read again")
    return found


def of_mons(data: bytes) -> Any:
    """A value that is packed, or in parts: an object of keys."""
    kv = MonLikeKv()
    kv.copy.update(_texts(data))
    return [KvStore(kv).get(key) for key in kv.copy if "#" not in key]


def plan(data: bytes) -> Any:
    """A large plan: an object of keys, whose values are objects or texts."""
    store = MemoryStore()
    store.kept.update(_texts(data))
    plans = StoredPlans(store, {})
    return [plans.load(plan_id) for plan_id in plans.ids()]


def _texts(data: bytes) -> Dict[str, str]:
    plain = codec.parse_json(text_of(data), bytes_max=2**24, what="it")
    if not isinstance(plain, dict):
        return {}
    return {key: one if isinstance(one, str) else json.dumps(one) for key, one in plain.items()}


def plan_seeds() -> List[bytes]:
    """A head whose parts are there, and one whose are not."""
    head: Any = {**example(Head, {}, 0), "version": Head.VERSION, "waves": "w", "before": "b",
                 "changes": ["0"]}
    changes = {"version": Part.VERSION, "changes": [example_change(head)]}
    waves = [{"kind": "canary", "name": "", "size": 1}]
    parts = {"rollout-part/p1/w": {"version": Part.VERSION, "waves": waves},
             "rollout-part/p1/b": {"version": Part.VERSION, "blocks": []},
             "rollout-part/p1/0": changes}
    whole = {**head, "newer": [{"index": 0, "change": example_change(head)}]}
    return lines_of([{"rollout/p1": whole, **parts}, {"rollout/p1": head}])


def example_change(head: Any) -> Any:
    """A change, as an example of a head has one."""
    return head["newer"][0]["change"] if head["newer"] else head["plan"]["changes"][0]


# ---- probes


def probes(data: bytes) -> Any:
    """A hello or a post, up to what every command says of it."""
    mgr = a_mgr()
    verb = "poll" if b'"probe_version"' in data[:300] or b"across" in data else "post"
    code, out, _ = mgr.send(f"wcache agent {verb}", "h1", text_of(data))
    if code == 0:
        mgr.engine.tick()
        for command in ("status", "drive ls", "metrics", "agent ls"):
            mgr.command(command)
    _well(mgr)
    return code == 0 and out


def _well(mgr: FakeMgr) -> None:
    if mgr.exceptions:
        raise Broken(f"the module's log has {mgr.exceptions}")


# ---- what Ceph answers


def ceph(data: bytes) -> Any:
    """What OSDs and mons answer: each reader gets the same."""
    said = text_of(data)
    found: List[Any] = [compat.bench_seconds(said), parse_histogram(said), labels_of(said)]
    reading.edges_of(said[:300])
    plain = parse(said, "it")
    entries = parse_dump(plain, ("osd_memory_target", "osd_mclock_profile"))
    Config(entries)
    top = plain if isinstance(plain, dict) else {}
    found += [[one.number for one in entries], compat.load_counters(top),
              work_counters(top, 1.0, frozenset())]
    with suppress(dashboard_login.NotLetInError):
        found.append(dashboard_login._name(plain))
    reading.read(0, 1.0, top, top, top, said[:200], {name: (1.0, 2.0) for name in reading.CACHES})
    return any(found)


# ---- files, commands, browsers


def evidence(data: bytes) -> Any:
    """A file of `evidence export`; what has a wrong checksum is tried with the right one too."""
    said = text_of(data)
    with suppress(WcacheError):
        foreign.parse(said, NOW_S)
    plain = codec.parse_json(said, bytes_max=foreign.BYTES_MAX, what="it")
    if isinstance(plain, dict):
        found = versions.take(foreign.Evidence, plain, "it")
        plain["sha256"] = foreign.checksum(found)
    return again(foreign.Evidence, foreign.parse(json.dumps(plain), NOW_S))


def evidence_seeds() -> List[bytes]:
    """One with a verdict."""
    return lines_of([
        {**plain, "format": foreign.FORMAT, "cluster": "0" * 8 + "-0000-0000-0000-" + "0" * 12}
        for plain in examples(foreign.Evidence)
    ])


def analysed(data: bytes) -> Any:
    """A request to the child that decides: each record has its answer, and none goes wrong."""
    reply = json.loads(analysis.answer(data))
    said = reply["found"]["result"]["why"] if "found" in reply else reply["error"]
    one_line(said)
    if "analysis failed" in said:
        raise Broken(said)
    return "found" in reply


def analysis_seeds() -> List[bytes]:
    """Records in all their forms."""
    return lines_of([
        {**one, "format": RECORD_FORMAT} for one in examples(Record)
    ])


def command(data: bytes) -> Any:
    """A `ceph wcache` command: an object of its arguments, `inbuf` among them."""
    plain = codec.parse_json(text_of(data), bytes_max=2**20, what="it")
    if not isinstance(plain, dict):
        return None
    mgr = a_mgr()
    said = plain.pop("inbuf", "")
    code, _, error = commands.answer(
        mgr.service, mgr.views, plain, said if isinstance(said, str) else "",
        mgr.exceptions.append,
    )
    _well(mgr)
    if code:
        one_line(error)
    return code == 0


def command_seeds() -> List[bytes]:
    """Every command, with each of its arguments."""
    return lines_of([
        {"prefix": one.prefix, "format": "json", **{
            part[5:]: ANSWERS.get(part[5:], "1") for item in one.arguments
            for part in item.split(",") if part.startswith("name=")
        }} for one in commands.COMMANDS
    ])


WORD = re.compile(r"[a-z.]+").fullmatch  # what passes for a token here


class Pages:
    """The page of a mgr that everybody may read."""

    def __init__(self) -> None:
        self.site = Site(measured_anew())
        self.site.tokens.refused = lambda token: "" if WORD(token) else "it is none"


@cache
def pages() -> Pages:
    """Made once: nothing is changed by reading."""
    return Pages()


def http(data: bytes) -> Any:
    """A browser's request, as the web server hands it to the page."""
    site = pages().site
    site.app.forget()
    said: List[Any] = []
    b"".join(site.app(_environ(data), lambda status, headers: said.extend((status, headers))))
    if site.failures:
        raise Broken(f"the page failed: {site.failures.pop()}")
    status, headers = said
    if any({*"\r\n"} & {*name, *value} for name, value in headers):
        raise Broken(f"a header has more than one line: {headers}")
    return status.startswith(("200", "303"))


def _environ(data: bytes) -> Dict[str, Any]:
    """The environment (PEP 3333) of a request; its bytes stand as latin-1."""
    head, _, body = data.decode("latin-1").partition("\r\n\r\n")
    first, *lines = head.split("\r\n")
    method, _, rest = first.partition(" ")
    path, _, query = rest.rpartition(" ")[0].partition("?")
    environ: Dict[str, Any] = {
        "REQUEST_METHOD": method, "QUERY_STRING": query, "REMOTE_ADDR": "192.0.2.1",
        "PATH_INFO": unquote_to_bytes(path.encode("latin-1")).decode("latin-1"),
        "wsgi.input": BytesIO(body.encode("latin-1")),
    }
    for line in lines:
        name, _, value = line.partition(":")
        name = name.strip().upper().replace("-", "_")
        own = name in ("CONTENT_LENGTH", "CONTENT_TYPE")
        environ[name if own else f"HTTP_{name}"] = value.strip()
    return environ


def metrics(data: bytes) -> Any:
    """Prometheus' text with labels from outside: each line is one of its format."""
    words = text_of(data).split("\0")
    said = gauge("wcache_x", "X.", *(
        ({"device": word, "drive_model": word[::-1]}, len(word)) for word in words
    ))
    for line in said.split("\n")[:-1]:
        if not METRIC.fullmatch(line):
            raise Broken(f"no line of the format: {line[:200]!r}")
    return words


TARGETS = (
    Target("stored", stored, seeds=stored_seeds),
    Target("journal", entry, seeds=lambda: lines_of(examples(journal.JournalEntry))),
    Target("store", of_mons),
    Target("plan", plan, seeds=plan_seeds),
    Target("probes", probes),
    Target("ceph", ceph, (WcacheError, CommandFailed)),
    Target("evidence", evidence, seeds=evidence_seeds),
    Target("analysis", analysed, seeds=analysis_seeds),
    Target("command", command, seeds=command_seeds),
    Target("http", http),
    Target("metrics", metrics),
)
