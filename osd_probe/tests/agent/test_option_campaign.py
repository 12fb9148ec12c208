"""`ceph wcache ab` from the command to the verdict: the module, and a real probe that is killed."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
from fake_mgr import FSID
from mgr_fakes.module import FakeMgr
from module_world import RealAnalysis
from sim_drives import Crash, MemoryJournal, RestoreHere, WorkHere, crash_after
from wcache.core.errors import NotReadyError
from wcache_probe.agent import ProbeLoop
from wcache_probe.mgr_link import Identity, decode_reply
from wcache_probe.restoring.owed import Holds, Restoring
from wcache_probe.switcher import Switcher, nothing
from wcache_probe.switching.lease import LeaseKeeper
from wcache_probe.tasks import TaskRunner
from wcache_sim.drive_schema import parse_drive_file
from wcache_sim.host import SimulatedHost

DRIVES = """
schema = 1
[[drive]]
name = "disk"
model = "HDD"
transport = "sas"
rotational = true
[drive.latency]
fua_write = { median_us = 300 }
dirty_flush = { median_us = 12000 }
[drive.options]
scheduler = { value = "mq-deadline" }
nr_requests = { value = "256", slow_value = "32", slow_factor = 1.5 }
read_ahead_kb = { value = "128" }
"""
TUNED = {"scheduler": "mq-deadline", "nr_requests": "64", "read_ahead_kb": "128"}


@dataclass
class Link:
    """A MgrLink to the module in this process."""

    mgr: FakeMgr

    def poll(self, hello_json, timeout_s):
        return self._call("wcache agent poll", hello_json)

    def post(self, post_json, timeout_s):
        return self._call("wcache agent post", post_json)

    def _call(self, prefix, text):
        code, out, error = self.mgr.send(prefix, "sim1", text)
        if code != 0:
            raise NotReadyError(error)
        return decode_reply(out)


class Awake:
    """Never told to stop; time passes in the mgr's steps alone."""

    def is_set(self):
        return False

    def wait(self, seconds):
        return

    def wake(self, end):
        return


class RealProbe:
    """All of a probe over a simulated host, as FakeMgr takes its turns."""

    hostname = "sim1"

    def __init__(self, mgr, host):
        self.mgr, self.host = mgr, host
        self.journal = MemoryJournal()
        self.starts = 0
        self.start()

    def start(self, after_step=nothing):
        """A new process: what journal and drives say is all that it knows."""
        self.starts += 1
        switcher = Switcher(self.host, self.journal, after_step)
        held = switcher.read_journal()[0].values()
        keeper = LeaseKeeper({entry.domain_id: entry.owner_id for entry in held})
        holds = Holds(keeper, switcher.read_journal)
        identity = Identity("sim1", "probe-sim1", f"i{self.starts}", True, FSID)
        self.agent = ProbeLoop(
            identity=identity, link=Link(self.mgr), keeper=keeper, stop=Awake(),
            worker=WorkHere(),
            restoring=Restoring(
                keeper=keeper, holds=holds, restorer=RestoreHere(switcher),
                instance_id=identity.instance_id, say=lambda text: None, clock=self.clock,
            ),
            runner=TaskRunner(
                host=self.host, switcher=switcher, keeper=keeper, holds=holds, identity=identity,
                clock=self.clock, wall=self.clock,
            ),
            say=lambda text: None, clock=self.clock, jitter=lambda low, high: 1.0,
        )

    def clock(self):
        return self.mgr.now_s

    def turn(self, rounds=1):
        """A turn of the loop; killed in it, the next one is of a new process."""
        try:
            self.agent.run_turn()
        except Crash:
            self.start()

    @property
    def values(self):
        (drive,) = self.host.look()
        return {one.name: one.value for one in drive.state.options}


@pytest.fixture
def mgr():
    made = FakeMgr(simulated=True, make_analysis=RealAnalysis)
    host = SimulatedHost(
        parse_drive_file(DRIVES), "sim1", clock_ns=lambda: int(made.now_s * 1e9)
    )
    (drive,) = host.look()
    host.set_option(drive, "nr_requests", TUNED["nr_requests"])
    made.probes = {"sim1": RealProbe(made, host)}
    made.report_all()
    return made


def told(mgr, prefix, **arguments):
    code, out, error = mgr.command(prefix, format="json", **arguments)
    assert code == 0, error
    return json.loads(out)


@pytest.mark.slow
def test_the_better_value_is_found_and_what_was_there_is_back(mgr):
    probe = mgr.probes["sim1"]
    assert "64 requests on 1 drive" in mgr.command("option ls")[1]
    now = {row["name"]: row["now"] for row in told(mgr, "option ls")["options"]}
    assert now["nr_requests"] == {"64": 1}
    campaign_id = told(mgr, "ab", option="nr_requests=32,256", accept_cost=True)["campaign_id"]
    seen = set()
    while mgr.engine.is_active():
        mgr.step()
        seen.add(probe.values["nr_requests"])
    assert {"32", "256"} <= seen
    (verdict,) = told(mgr, "option ls")["verdicts"]
    assert verdict["verdict"] == "nr_requests 256"
    assert (verdict["drives"], verdict["simulated"]) == (1, True)
    assert 1.1 < verdict["ratio_low"] < 1.5 < verdict["ratio_high"]
    assert (probe.values, probe.journal.entries) == (TUNED, {})
    (run,) = told(mgr, "campaign show", campaign_id=campaign_id)["run_list"]
    assert (run["status"], run["restored"]) == ("done", True)
    assert told(mgr, "recommend")["recommendations"] == []


@pytest.mark.slow
@pytest.mark.parametrize("step", [1, 2, 3, 4, 5, 7])
def test_a_probe_that_is_killed_at_any_step_leaves_the_option_as_it_was(mgr, step):
    probe = mgr.probes["sim1"]
    probe.start(crash_after(step))
    told(mgr, "ab", option="scheduler=none,kyber", accept_cost=True)
    mgr.settle()
    assert probe.starts > 2
    assert (probe.values, probe.journal.entries) == (TUNED, {})
    (verdict,) = told(mgr, "option ls")["verdicts"]
    assert verdict["verdict"] in ("no material difference", "insufficient data")


@pytest.mark.slow
def test_a_mgr_that_is_lost_goes_on_and_gives_the_option_back(mgr):
    probe = mgr.probes["sim1"]
    told(mgr, "ab", option="nr_requests=32,256", accept_cost=True)
    for _ in range(200):
        mgr.step()
        if probe.values["nr_requests"] == "32":
            break
    assert probe.values["nr_requests"] == "32"
    mgr.restart()
    mgr.settle()
    assert (probe.values, probe.journal.entries) == (TUNED, {})
    (verdict,) = told(mgr, "option ls")["verdicts"]
    assert verdict["verdict"] == "nr_requests 256"


def test_a_stop_gives_the_option_back_at_once(mgr):
    probe = mgr.probes["sim1"]
    campaign_id = told(mgr, "ab", option="nr_requests=32,256", accept_cost=True)["campaign_id"]
    for _ in range(200):
        mgr.step()
        if probe.values["nr_requests"] == "32":
            break
    told(mgr, "campaign stop", campaign_id=campaign_id)
    mgr.settle()
    assert (probe.values, probe.journal.entries) == (TUNED, {})
