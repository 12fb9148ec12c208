"""The whole module on fake ports with three drives on two hosts, and short words for its use."""

import json

from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from wcache.core.model import CacheMode

WB, WT = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH


def a_mgr(**options):
    mgr = FakeMgr(
        ("h1", (make.drive("sda", 0), make.drive("sdb", 1))), ("h2", (make.drive("sdc", 2),)),
        **options,
    )
    mgr.report_all()
    return mgr


def ok(answer):
    code, out, error = answer
    assert (code, error) == (0, "")
    return out


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
    assert mgr.engine.measuring.under_way == {}


def measured(**options):
    mgr = a_mgr(**options)
    start(mgr)
    mgr.settle()
    mgr.report_all()
    return mgr
