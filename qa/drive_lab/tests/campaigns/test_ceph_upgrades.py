"""A mode that lasts on real OSDs outlasts two upgrades of Ceph, power cuts, and is taken back."""

import time
from pathlib import Path

import pytest
from drive_lab import campaign
from drive_lab.agent import HANG_S
from drive_lab.stage import Stage
from harness.upgrades import end_upgrade, upgrade_mon_and_mgr
from probes import MODULE
from what_stands import applied, ended, nothing_lost

pytestmark = [pytest.mark.lab, pytest.mark.long]

DRIVES = Path(__file__).resolve().parent / "found_off_drives.toml"
# A release, and where in the guest its root is.
ROOTS = {18: "/dev/vdb", 20: "/dev/vdc"}
OSDS = (0, 1)
# Nobody writes but the experiment, and a busy machine has all the time that it takes to decide.
OPTIONS = {
    "poll_idle_s": "0.2", "settle_s": "0.2", "period_s": "0.8", "canary_wait_s": "1",
    "gate_by_load": "false", "experiment_seconds_max": "200",
}


class Upgraded(Stage):
    """A cluster whose daemons go to the next release."""

    def caches(self):
        """Whether each drive's cache is on, by the drive itself; no write may be unflushed."""
        seen = self.seen_in_commits()
        assert [one.unsafe for one in seen] == [False] * len(OSDS), seen
        return [one.by_drive_on for one in seen]

    def to(self, number):
        """Mon, mgr, and one OSD after the other."""
        upgrade_mon_and_mgr(self.cluster, number, [MODULE])
        self.up.osds.start_from(ROOTS[number])
        for osd_id in OSDS:
            self.up.osds.stop(osd_id)
            self.cluster.ceph("osd", "down", str(osd_id))
            self.up.osds.start(osd_id)
            self.up.osds.wait_up()
            self.wait_clean()
        end_upgrade(self.cluster, number)

    def probe_starts(self):
        """How often the history has a probe that started."""
        lines = self.wcache("history", limit=1000)["history"]
        return sum(line["what"] == campaign.HOSTNAME and "started" in line["text"]
                   for line in lines)

    def cut(self):
        """Take the power of everything; OSDs and the probe start again, as systemd has it."""
        self.up.lab.reboot()
        for osd_id in OSDS:
            self.up.osds.start(osd_id)
        self.up.osds.wait_up()
        starts = self.probe_starts()
        self.up.lab.guest.sh("systemctl enable --now wcache-probe").checked()
        # a guest without KVM takes minutes for it on a busy machine
        self.wait("the probe to start again", lambda: self.probe_starts() > starts)
        self.wait_clean()


@pytest.fixture(scope="module")
def stage():
    job = campaign.LabJob(drive_file=DRIVES, release=16, next_releases=tuple(ROOTS))
    with campaign.running(job, campaign.Stages()) as up:
        made = Upgraded(up, time.monotonic())
        made.enable(OPTIONS)
        made.add_host()
        up.lab.guest.run(["sync"]).checked()  # or a power cut would take the probe's files
        made.wait_clean()
        yield made


def test_a_mode_that_lasts_outlasts_upgrades_and_power_cuts_until_it_is_taken_back(stage):
    wcache = stage.wcache
    assert stage.caches() == [True, True]
    wcache.decide("hdd", scope="osd.0", loads="depth1", seed=7)
    plan_id = applied(wcache, scope="class:hdd", persist=True, timeout_s=HANG_S)
    assert stage.caches() == [False, False]
    for number in ROOTS:
        with nothing_lost(wcache, [plan_id]):
            stage.to(number)
            assert stage.caches() == [False, False]
            stage.cut()
            assert stage.caches() == [False, False]
    wcache("rollback", plan_id=plan_id)
    assert ended(wcache, plan_id, HANG_S)["status"] == "rolled back"
    assert stage.caches() == [True, True]
    stage.cut()
    assert stage.caches() == [True, True]
