"""A campaign over an OSD with its DB on another drive: both are toggled, and both come back."""


import pytest
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import RealAnalysis, said, settled
from wcache.core.model import CacheMode, DriveModel, Role, Transport
from wcache.core.protocol import Notice
from wcache.engine.storing.archive import PERIOD, RECORD

pytestmark = pytest.mark.slow

WB, WT = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH
DISK, DB = "domain-sda", "domain-nvme0n1"
# of a commit while (disk, DB drive) are in these modes, in us: each gains by write through
COMMIT_US = {(WB, WB): 9000, (WB, WT): 4000, (WT, WB): 5000, (WT, WT): 2200}


def a_mgr():
    db = make.drive("nvme0n1", 0, roles=(Role.DB,), transport=Transport.NVME, rotational=False,
                    drive_model=DriveModel("ACME", "DB1", "2"))
    mgr = FakeMgr(("h1", (make.drive("sda", 0), db)), make_analysis=RealAnalysis)
    wire(mgr)
    mgr.report_all()
    return mgr


def wire(mgr):
    """The commit latency hangs on both drives; each time a little different."""
    calls = iter(range(10**6))

    def latency_ns(osd_id):
        modes = mgr.probes["h1"].modes()
        return COMMIT_US[(modes[DISK], modes[DB])] * (1000 + next(calls) % 7)

    mgr.loads.latency_ns = latency_ns


def both_back(mgr):
    probe = mgr.probes["h1"]
    assert set(probe.modes().values()) == {WB}
    assert probe.leased == {}
    assert mgr.exceptions == []


def test_both_drives_are_measured_at_once_decided_and_recommended():
    mgr = a_mgr()
    cost = said(mgr, "campaign start", dry_run=True, loads="traffic")["forecast"]
    assert (cost["drives"], cost["experiments"], cost["factorials"]) == (2, 1, 1)
    assert "in all four combinations" in mgr.command(
        "campaign start", dry_run=True, loads="traffic"
    )[1]
    campaign_id = said(mgr, "campaign start", loads="traffic")["campaign_id"]
    seen = set()
    for _ in range(500):
        mgr.step()
        if len(mgr.probes["h1"].leased) == 2:
            seen.add(tuple(mgr.probes["h1"].modes().values()))
    assert seen == set(COMMIT_US)
    shown = said(mgr, "campaign show", campaign_id=campaign_id)
    assert shown["status"] == "done"
    assert {r["domain_id"]: r["verdict"] for r in shown["results"]} == {
        DISK: "write through", DB: "write through",
    }
    assert all("interaction" in r["why"] for r in shown["results"])
    one, two = (said(mgr, "campaign record", record_id=r["record_id"]) for r in shown["results"])
    assert one["setup"]["domain_id"] == two["setup"]["crossed"]["domain_id"] == DISK
    of_pairs = [p for pair in one["pairs"] for p in (pair["a"], pair["b"])]
    spent = sum(period["seconds"] for period in one["watches"] + of_pairs)
    assert shown["seconds"] == pytest.approx(spent, abs=0.01), "counted once"
    assert "sda,nvme0n1" in mgr.command("campaign show", campaign_id=campaign_id)[1]
    advice = said(mgr, "recommend")["recommendations"]
    assert [item["mode"] for item in advice] == ["write through", "write through"]
    both_back(mgr)


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 5, 8, 13, 30])
@pytest.mark.parametrize("what", ["stop", "freeze", "crash", "lost lease", "failover", "silence"])
def test_however_it_is_cut_off_both_drives_are_as_before(steps, what):
    mgr = a_mgr()
    campaign_id = said(mgr, "campaign start", loads="traffic")["campaign_id"]
    mgr.steps(steps)
    probe = mgr.probes["h1"]
    if what == "stop":
        mgr.command("campaign stop", campaign_id=campaign_id)
    elif what == "freeze":
        mgr.command("freeze")
    elif what == "crash":
        probe.crash()
    elif what == "lost lease":
        probe.lose_lease()
    elif what == "failover":
        mgr.restart()
        wire(mgr)
    else:
        mgr.now_s += 1000.0
        mgr.engine.tick()
    settled(mgr)
    both_back(mgr)
    shown = said(mgr, "campaign show", campaign_id=campaign_id)
    if what in ("crash", "lost lease", "failover"):
        assert shown["status"] == "done", shown
        assert len(shown["results"]) == 2
    for result in shown["results"]:
        record = said(mgr, "campaign record", record_id=result["record_id"])
        assert [p["index"] for p in record["pairs"]] == list(range(len(record["pairs"])))


def test_a_drive_that_cannot_be_restored_is_told_until_it_was_read_as_it_was():
    mgr = a_mgr()
    probe = mgr.probes["h1"]
    campaign_id = said(mgr, "campaign start", loads="traffic")["campaign_id"]
    mgr.steps(4)

    probe.stuck = {DISK}
    mgr.command("campaign stop", campaign_id=campaign_id)
    mgr.steps(4)
    (run,) = said(mgr, "campaign show", campaign_id=campaign_id)["run_list"]
    assert not run["restored"]
    (state,) = [machine.state for machine in mgr.inside.runs.values()]
    assert state.owed == (DISK,), "the other one was released all the same"
    probe.post("", None, notices=(Notice("n1", "it is back", DISK, True),))
    mgr.report_all()
    assert not said(mgr, "campaign show", campaign_id=campaign_id)["run_list"][0]["restored"]
    probe.stuck.clear()
    probe.crash()
    probe.turn()
    mgr.report_all()
    assert said(mgr, "campaign show", campaign_id=campaign_id)["run_list"][0]["restored"]


@pytest.mark.parametrize("failover", [False, True])
@pytest.mark.parametrize("lost", ["record/c1.0.0", "record/c1.0.0.other"])
def test_a_record_that_the_mons_did_not_take_is_stored_later_for_both_drives(lost, failover):
    mgr = a_mgr()
    said(mgr, "campaign start", loads="traffic")
    mgr.store.fails = lambda key: key == lost
    mgr.steps(400)
    assert lost not in mgr.store.kept
    assert mgr.inside.archive.names(PERIOD), "they are what it would be made from"
    mgr.store.fails = lambda key: False
    if failover:
        mgr.restart()
        wire(mgr)
    mgr.steps(60)
    assert sorted(mgr.inside.archive.names(RECORD)) == ["c1.0.0", "c1.0.0.other"]
    assert {r.record_id for r in mgr.inside.analyses.results.values() if r.analysed} == {
        "c1.0.0", "c1.0.0.other",
    }
    assert list(mgr.inside.archive.names(PERIOD)) == []
    both_back(mgr)
