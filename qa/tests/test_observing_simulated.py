"""`campaign start --observe` from the command to the table, by the real probe on model drives."""

import json

import pytest
from mgr_fakes.module import FakeMgr
from sim_drives import DRIVES, IGNORES, OFF, Probe
from wcache.core.model import CacheMode
from wcache_sim.drive_schema import parse_drive_file


@pytest.mark.slow
def test_the_simulated_probe_fills_the_tables_and_toggles_nothing():
    probe = Probe()
    mgr = FakeMgr(("sim1", probe.host.look()), simulated=True)
    mgr.probes["sim1"].do = probe.runner.perform
    mgr.report_all()
    before = {drive.drive_id: drive.mode for drive in probe.host.look()}
    code, out, error = mgr.command(
        "campaign start", observe=True, format="json", drives_per_model=5,
        loads="traffic,timer,depth1",
    )
    assert (code, error) == (0, "")
    mgr.settle()
    campaign_id = json.loads(out)["campaign_id"]
    code, out, error = mgr.command("campaign show", campaign_id=campaign_id, format="json")
    assert (code, error) == (0, "")
    shown = json.loads(out)
    assert shown["status"] == "done", shown["run_list"]
    assert len(shown["observed"]) == 3 * len(parse_drive_file(DRIVES).drives)
    modes = {one["domain_id"]: one["mode"] for one in shown["observed"]}
    assert modes[OFF] == "write through"
    assert modes[IGNORES] == "write back", "a drive that cannot be toggled is looked at too"
    for one in shown["observed"]:
        table = one["table"]
        assert table["n"] > 0, one
        assert 0 < table["min"] <= table["p25"] <= table["p50"] <= table["p75"] <= table["p90"]
        assert table["p90"] <= table["max"]
    # as the model says: a flush with nothing to write costs little, a commit 12 ms and more
    by_load = {
        one["load_point"]: one["table"]["p50"] for one in shown["observed"]
        if one["run_id"] == shown["observed"][0]["run_id"]
    }
    assert by_load["fdatasync_timer"] < by_load["osd_bench_depth1"]
    assert {drive.drive_id: drive.mode for drive in probe.host.look()} == before
    assert set(before.values()) == set(CacheMode)
    assert probe.journal.entries == {}
    assert mgr.exceptions == []
