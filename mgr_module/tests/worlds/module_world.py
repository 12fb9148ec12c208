"""The whole module on fake ports with three drives on two hosts, and short words for its use."""

import json

from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from wcache.analysis.decision import Materiality
from wcache.analysis.experiment import analyse
from wcache.analysis.pooling import pool
from wcache.core.model import CacheMode

WB, WT = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH


class RealAnalysis:
    """The `Analysis` port with the statistics in this process."""

    error = ""

    def start(self, record, done):
        done(analyse(record, Materiality()), "")

    def pool(self, items, done):
        done(pool(items, Materiality()), "")


def a_mgr(**options):
    mgr = FakeMgr(
        ("h1", (make.drive("sda", 0), make.drive("sdb", 1))), ("h2", (make.drive("sdc", 2),)),
        **options,
    )
    mgr.report_all()
    return mgr


def with_osds_on(mgr, *hostnames):
    """The mgr, with one more OSD on each of these hosts, which have no probe."""
    osds = mgr.view.state.osds
    new = [make.osd(max(osds, default=-1) + 1 + i, name) for i, name in enumerate(hostnames)]
    mgr.view.state = make.cluster([*osds.values(), *new])
    return mgr


def ok(answer):
    code, out, error = answer
    assert (code, error) == (0, "")
    return out


def refusal(mgr, prefix, **arguments):
    """Why a command is refused."""
    code, _, error = mgr.command(prefix, **arguments)
    assert code != 0
    return error


def unwrapped(text):
    """An answer in one line, with one space between words."""
    return " ".join(text.split())


def has_words(text, phrase):
    """Whether each word of a phrase is in a text, of which columns and lines may be wrapped."""
    return set(phrase.split()) <= set(text.split())


def said(mgr, prefix, **arguments):
    return json.loads(ok(mgr.command(prefix, format="json", **arguments)))


def start(mgr, loads="depth1", **arguments):
    return said(mgr, "campaign start", loads=loads, accept_cost=True, **arguments)["campaign_id"]


def all_modes(mgr):
    return {mode for probe in mgr.probes.values() for mode in probe.modes().values()}


def fine(mgr):
    """What must hold at every end: no lease, no mode of ours, no exception."""
    assert mgr.exceptions == []
    assert all(probe.leased == {} for probe in mgr.probes.values())
    assert mgr.inside.measuring.under_way == {}


def measured(**options):
    mgr = a_mgr(**options)
    start(mgr)
    mgr.settle()
    mgr.report_all()
    return mgr


def applied():
    """A mgr whose plan p1 has changed every drive."""
    mgr = measured()
    ok(mgr.command("plan"))
    ok(mgr.command("apply", plan_id="p1"))
    mgr.settle()
    mgr.report_all()
    return mgr


def report_anew(mgr):
    """When the next report of every host is due."""
    mgr.now_s += 700.0
    mgr.engine.tick()
    mgr.report_all()


def go_on(mgr, steps, lost, crashes=(), seconds=0.3):
    """Steps until nothing is under way; the mgr is lost and h1's probe crashes before some."""
    for step in range(steps):
        if not mgr.engine.is_active():
            return
        if step in lost:
            mgr.restart()
        if step in crashes:
            mgr.probes["h1"].crash()
        mgr.step(seconds)


def first_look(mgr):
    """Take the answer of the first look at the cluster, and nothing more."""
    mgr.stops.join()
    mgr.engine.tick()
