"""What a large fleet costs the mgr, on the module's real code over fake ports.

    make bench-fleet [HOSTS=1000] [FORMAT=json]
    make bench-fleet HOSTS=10000 BESIDE="mclock show,page /memory"    of the last table alone

Ten drives on each host.  The commands are asked as a mgr asks them, from the arguments to the
text; between two calls of `status` one host reports something new, as probes do all the time.

Then each of them is made again and again in one thread while another asks for `status`, and a third
one only wants to run: the longest that it had to wait is the longest piece in which the interpreter
was kept from all modules of the mgr.  These times are the processor's of all threads together,
which have one interpreter between them: what else the machine does is not in them.  Of Python's
full collections of garbage, each of which is one piece, it is counted what they take.
"""

from __future__ import annotations

import gc
import http.client
import json
import os
import resource
import socket
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any, Callable, Dict, Iterator, List, Mapping, Sequence, Tuple

from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from mgr_fakes.store import MonLikeKv, PromptQueue
from wcache.core.model import CacheMode
from wcache.core.text import amount, latency, table
from wcache.knobs.mclock.capacity import option
from wcache.web.app import App
from wcache.web.cheroot_server import PageServer
from wcache.web.pages import Reader

from bench.figures import latencies

DRIVES = 10
STATUS_CALLS, LS_CALLS = 300, 5
PAGES = ("", "drives", "memory", "history")
METRICS = "metrics"
# Viewers of the first page at the same time, from an address of their own, and for how long.
FLOODING, FLOOD_S, ATTACKER, READER = 16, 30.0, "127.0.0.2", "127.0.0.3"
# Each command is made at least so often and for so long beside `status`; the third thread wants to
# run so often; `status` and one piece may take so long.
BESIDE_CALLS, BESIDE_S, TURN_S = 2, 5.0, 1e-3
STATUS_MAX_S, PIECE_MAX_S = 0.05, 0.5
Figures = Dict[str, Any]
Took = Tuple[float, float]


def main() -> int:
    """Measure and print; returns the exit code."""
    hosts = int(os.environ.get("HOSTS") or 1000)
    figures = measure(hosts, tuple(filter(None, os.environ.get("BESIDE", "").split(","))))
    as_json = os.environ.get("FORMAT") == "json"
    print(json.dumps(figures, indent=2) if as_json else plain(figures))
    return 0


def measure(hosts: int, only_beside: Sequence[str] = ()) -> Figures:
    """The figures for this many hosts; or of `status` beside these commands and pages alone."""
    kv = MonLikeKv()
    kv.copy, kv.late = kv.kept, True  # what is written shows at once: no copy of all each time
    before = _resident_bytes()
    mgr = FakeMgr(
        *((f"host{h:04d}", tuple(_drive(h, i) for i in range(DRIVES))) for h in range(hosts)),
        store=PromptQueue(kv),
    )
    # the fakes' own objects are none of what the module has Python look through for garbage
    gc.collect()
    gc.freeze()
    mgr.restart()  # the module that is frozen knows of no report: it would keep them for ever
    mgr.report_all()
    took: Dict[str, List[Took]] = {
        "start": [_us(mgr.restart)], "first status": [_us(lambda: _ask(mgr, "status"))],
        "first tick": [_us(mgr.service.tick)],
    }
    app = _app(mgr)
    # every OSD has benched itself and holds a key of its own, as Ceph leaves them
    mgr.config.kept.update({
        (f"osd.{osd_id}", option(rotational=True)): f"{300 + osd_id % 97}.000000"
        for osd_id in mgr.view.state.osds
    })
    mgr.inside.config.read_soon()
    took["reading of mClock's keys"] = [_us(mgr.inside.config.turn)]
    sizes: Dict[str, int] = {} if only_beside else _alone(mgr, app, hosts, took)
    others: Dict[str, Callable[[], Any]] = {
        "": lambda: time.sleep(1.0),
        **{name: lambda name=name: _ask(mgr, name) for name in (
            "mclock show", "recommend", "memory status", "memory recommend", "drive ls",
        )},
        "mclock findings": lambda: mgr.mclock.tick(mgr.engine.world()),
        **{f"page /{place}": lambda place=place: _page(app, place) for place in PAGES},
    }
    unknown = sorted({*only_beside} - {*others})
    if unknown:
        raise SystemExit(f"bench: there is no {', '.join(unknown)}, but{', '.join(others)}")
    beside = {name: _one_beside(mgr, others[name]) for name in only_beside or others}
    if not only_beside:
        took.update(_flooded(mgr, app))
    return {
        "beside": beside,
        "hosts": hosts, "drives": hosts * DRIVES,
        "load_average_1min": round(os.getloadavg()[0], 2),
        "commands": {
            name: {
                **asdict(latencies([wall_us for wall_us, _ in values])),
                "cpu_p99_us": latencies([cpu_us for _, cpu_us in values]).p99_us,
                "cpu_max_us": max(cpu_us for _, cpu_us in values),
            }
            for name, values in took.items()
        },
        "answer_bytes": sizes,
        "store_bytes": sum(len(key) + len(text) for key, text in kv.kept.items()),
        "resident_bytes_with_fakes": _resident_bytes() - before,
    }


def _alone(
    mgr: FakeMgr, app: Any, hosts: int, took: Dict[str, List[Took]]
) -> Dict[str, int]:
    """Add what commands and pages take by themselves; returns how long their answers are."""
    sizes = {f"status {form}": len(_ask(mgr, "status", form)) for form in ("plain", "json")}
    for name in (
        "status", "health tick", "drive ls HOST", "drive ls (all)", "mclock findings",
        "mclock show", *(f"page /{place}" for place in PAGES), f"/{METRICS}",
    ):
        took[name] = []
    for number in range(STATUS_CALLS):
        _change(mgr, f"host{number % hosts:04d}")
        took["status"].append(_us(lambda: _ask(mgr, "status")))
        took["health tick"].append(_us(mgr.views.findings))
        took["drive ls HOST"].append(_us(lambda: _ask(mgr, "drive ls", scope="host:host0000")))
    for _ in range(LS_CALLS):
        _change(mgr, "host0000")
        took["mclock findings"].append(_us(lambda: mgr.mclock.tick(mgr.engine.world())))
        took["mclock show"].append(_us(lambda: _ask(mgr, "mclock show")))
        took["drive ls (all)"].append(_us(lambda: _ask(mgr, "drive ls")))
        for place in PAGES:
            sizes[f"page /{place}"], spent = _page(app, place)
            took[f"page /{place}"].append(spent)
        sizes[f"/{METRICS}"], spent = _page(app, METRICS)
        took[f"/{METRICS}"].append(spent)
    return sizes


def _drive(host: int, index: int) -> Any:
    name = f"wwn-0x5000c500{host:04d}{index:04d}"
    # one host in a hundred is in the other mode, so that there is something to find
    mode = CacheMode.WRITE_BACK if host % 100 else CacheMode.WRITE_THROUGH
    return make.drive(
        f"sd{chr(97 + index)}", host * DRIVES + index, mode=mode, drive_id=name, domain_id=name,
        wwn=name, serial=f"ZA{host:04d}{index:02d}",
    )


def _change(mgr: FakeMgr, hostname: str) -> None:
    """A host's probe reports a state that differs from the one before."""
    report = mgr.inside.hosts.reports[hostname]
    first, *rest = report.drives
    state = replace(first.state, pinned=not first.state.pinned)
    mgr.inside.hosts.reports[hostname] = replace(
        report, drives=(replace(first, state=state), *rest)
    )


def _ask(mgr: FakeMgr, prefix: str, form: str = "json", **arguments: Any) -> str:
    code, answer, error = mgr.command(prefix, format=form, **arguments)
    if code != 0:
        raise SystemExit(f"bench: {prefix}: {error}")
    return str(answer)


class _AnyToken:
    """Lets everybody in."""

    @staticmethod
    def refused(_token: str) -> str:
        return ""

    @staticmethod
    def user(_token: str) -> str:
        return ""


def _app(mgr: FakeMgr) -> Any:
    """The web page over the mgr's commands."""
    reader = Reader(
        lambda cmd: mgr.command(cmd["prefix"][len("wcache "):], **{
            name: value for name, value in cmd.items() if name != "prefix"
        }), mgr.kept_blocks,
    )
    return App(reader, _AnyToken(), _AnyToken(), False, print)


def _page(app: Any, place: str) -> Tuple[int, Took]:
    """(bytes, time taken) of a page."""
    environ = {
        "REQUEST_METHOD": "GET", "PATH_INFO": f"/{place}", "HTTP_AUTHORIZATION": "Bearer x",
    }
    said: List[str] = []
    body: List[bytes] = []
    app.forget()  # a page of a moment ago, and the rest after it, are none of its time
    spent = _us(lambda: body.extend(app(environ, lambda status, headers: said.append(status))))
    if said != ["200 OK"]:
        raise SystemExit(f"bench: page /{place}: {said}")
    return sum(len(chunk) for chunk in body), spent


def _flooded(mgr: FakeMgr, app: Any) -> Dict[str, List[Took]]:
    """What a reader of all pages, and `status`, take while others view the first without end."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    server = PageServer("127.0.0.1", port, app, tls=None, log=print)
    over = threading.Event()
    threads = [threading.Thread(target=server.serve, daemon=True)]
    threads += [
        threading.Thread(target=_view_on, args=(port, over), daemon=True) for _ in range(FLOODING)
    ]
    for thread in threads:
        thread.start()
    found: Dict[str, List[Took]] = {"page in a flood": [], "status in a flood": []}
    end_s = time.monotonic() + FLOOD_S
    while time.monotonic() < end_s:
        for place in PAGES:
            found["page in a flood"].append(_us(lambda place=place: _view(port, READER, place)))
        found["status in a flood"].append(_us(lambda: _ask(mgr, "status")))
    over.set()
    server.stop()
    for thread in threads:
        thread.join(timeout=30)
    return found


@contextmanager
def _collections() -> Iterator[List[float]]:
    """What each full collection of garbage takes meanwhile, in seconds."""
    found: List[float] = []
    began_s = [0.0]

    def count(phase: str, info: Mapping[str, Any]) -> None:
        if phase == "start":
            began_s[0] = time.thread_time()
        elif info["generation"] == 2:
            found.append(time.thread_time() - began_s[0])

    gc.callbacks.append(count)
    try:
        yield found
    finally:
        gc.callbacks.remove(count)


def _one_beside(mgr: FakeMgr, other: Callable[[], Any]) -> Figures:
    """What `status` takes beside another, and the longest turn that a thread waits for."""
    over = threading.Event()
    turns: List[float] = [0.0]
    seconds: List[float] = []

    def repeat() -> None:
        end_s = time.monotonic() + BESIDE_S
        while len(seconds) < BESIDE_CALLS or time.monotonic() < end_s:
            began_s = time.thread_time()
            other()
            seconds.append(time.thread_time() - began_s)
        over.set()

    def turn() -> None:
        while not over.is_set():
            began_s = time.process_time()
            time.sleep(TURN_S)
            turns[0] = max(turns[0], time.process_time() - began_s)

    threads = [threading.Thread(target=each, daemon=True) for each in (repeat, turn)]
    status: List[float] = []
    with _collections() as collections:
        for thread in threads:
            thread.start()
        while not over.is_set():
            _change(mgr, "host0001")
            began_s = time.process_time()
            _ask(mgr, "status")
            status.append(1e6 * (time.process_time() - began_s))
            time.sleep(0.05)
        for thread in threads:
            thread.join()
    return {
        "seconds_max": round(max(seconds), 3), "longest_piece_s": round(turns[0], 4),
        "of_piece_max": round(turns[0] / PIECE_MAX_S, 3),
        "collections": len(collections), "collection_max_s": round(max(collections, default=0), 4),
        "status": asdict(latencies(status)),
        "of_status_max": round(latencies(status).p50_us / 1e6 / STATUS_MAX_S, 2),
    }


def _view_on(port: int, over: threading.Event) -> None:
    while not over.is_set():
        _view(port, ATTACKER, "")


def _view(port: int, whose: str, place: str) -> None:
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=60, source_address=(whose, 0))
    try:
        client.request("GET", f"/{place}", headers={"Authorization": "Bearer x"})
        client.getresponse().read()
    except (OSError, http.client.HTTPException):
        pass  # sent away
    finally:
        client.close()


def _us(what: Callable[[], Any]) -> Took:
    """Wall and processor time: on a busy machine the first is mostly waiting for others."""
    began_ns, used_ns = time.perf_counter_ns(), time.thread_time_ns()
    what()
    used_ns = time.thread_time_ns() - used_ns
    return (time.perf_counter_ns() - began_ns) / 1e3, used_ns / 1e3


def _resident_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def plain(figures: Figures) -> str:
    """The figures as a table."""
    rows = [
        (name, row["n"], latency(row["p50_us"]), latency(row["p99_us"]), latency(row["max_us"]),
         latency(row["cpu_p99_us"]), latency(row["cpu_max_us"]))
        for name, row in figures["commands"].items()
    ]
    beside = [
        (name or "nothing", f"{row['seconds_max']:.2f} s", latency(row["status"]["p50_us"]),
         latency(row["status"]["max_us"]), row["of_status_max"],
         latency(1e6 * row["longest_piece_s"]), row["of_piece_max"], row["collections"],
         latency(1e6 * row["collection_max_s"]))
        for name, row in figures["beside"].items()
    ]
    return "\n".join([
        f"{figures['drives']} drives on {figures['hosts']} hosts, load average "
        f"{figures['load_average_1min']}", "",
        table(("COMMAND", "N", "P50", "P99", "MAX", "CPU P99", "CPU MAX"), rows), "",
        table(("BESIDE", "TAKES MAX", "STATUS P50", "MAX", f"P50 OF {STATUS_MAX_S * 1e3:g} MS",
               "LONGEST PIECE", f"OF {PIECE_MAX_S:g} S", "FULL GC", "MAX"), beside), "",
        *filter(None, [", ".join(f"{n} {amount(b)}" for n, b in figures["answer_bytes"].items())]),
        f"kept by the mons: {amount(figures['store_bytes'])}; memory, fake probes included: "
        f"{amount(figures['resident_bytes_with_fakes'])}",
    ])


if __name__ == "__main__":
    sys.exit(main())
