"""The probe in the container that cephadm makes for it, on a SCSI disk that really toggles.

`cephadm_unit.run` is what cephadm writes on a host; a test of the rig holds it against that.
"""

import time
from pathlib import Path

import pytest
from cephadm_host import CephadmHost
from cephadm_rig.images import ensure_images
from cephadm_rig.machine import STORAGE
from drive_lab import campaign
from drive_lab.agent import HANG_S
from drive_lab.lab import PROJECT
from drive_lab.probe import GuestProbe
from drive_lab.stage import Stage
from harness import NotPossible
from harness.processes import wait_until
from wcache.deployment.form import caps_of

pytestmark = [pytest.mark.lab, pytest.mark.long]

RELEASE = 20  # the one that the rig has
LAB_DRIVES = PROJECT / "qa" / "drive_models" / "lab.toml"
UNIT = Path(__file__).resolve().parent / "cephadm_unit.run"
HOST = campaign.HOSTNAME
BACK = "write back"
# A container takes a minute to start here; no silence of that length ends a campaign.
OPTIONS = {
    "poll_idle_s": "0.3", "settle_s": "0.3", "period_s": "1.0", "lease_ttl_s": "300",
    "gate_by_load": "false", "experiment_seconds_max": "900",
}
STRIKES_MAX = 5


class Host:
    """The disk as QEMU has it, and the container of its probe."""

    def __init__(self, up, images):
        self.stage = Stage(up, time.monotonic())
        self.stage.enable(OPTIONS)
        self.wcache = self.stage.wcache
        self.disk = up.lab.drive(up.lab.drives[0].name)
        keyring = up.cluster.auth_key(f"client.wcache.{HOST}", **caps_of(HOST))
        # by the guest's own Python: it compiles each module once and for all guests
        GuestProbe(up.lab, HOST, keyring).prepare()
        fsid = up.cluster.command("status")["fsid"]
        unit = UNIT.read_text().replace("FSID", fsid).replace("HOST", HOST)
        assert images.name in unit
        self.container = CephadmHost(
            up.lab, unit=unit, storage=STORAGE, fsid=fsid, keyring=keyring
        )
        self.container.start()
        self.stage.wait("the probe's report", lambda: self.wcache("drive ls")["drives"], 2 * HANG_S)

    def state(self):
        """The write cache as QEMU and the guest's kernel have it."""
        return self.disk.qmp_writeback(), self.disk.disk().kernel_view()

    def measure(self, pairs):
        return self.wcache.start_campaign(scope=f"host:{HOST}", loads="depth1", pairs=pairs)

    def wait_off(self):
        assert wait_until(lambda: not self.disk.qmp_writeback(), HANG_S), self.container.log()


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    try:
        images = ensure_images(RELEASE)
    except NotPossible as reason:
        pytest.skip(str(reason))
    drive_file = tmp_path_factory.mktemp("lab") / "drives.toml"
    drive_file.write_text("[[drive]]".join(LAB_DRIVES.read_text().split("[[drive]]")[:2]))
    job = campaign.LabJob(
        drive_file=drive_file, release=RELEASE,
        folders={"hosts": images.host, "images": images.store},
    )
    with campaign.running(job, campaign.Stages()) as up:
        yield Host(up, images)


def test_the_container_toggles_the_disk_in_a_campaign_and_puts_it_back(host):
    assert host.state() == (True, BACK)
    assert host.wcache("drive ls")["drives"][0]["toggle_refusal"] == ""
    campaign_id = host.measure(pairs=6)
    seen = [True]

    def over():
        on = host.disk.qmp_writeback()
        if on != seen[-1]:
            seen.append(on)
        return host.wcache.campaign(campaign_id)["status"] != "running"

    host.stage.wait("the end of the campaign", over, 3 * HANG_S)
    assert seen.count(False) >= 4, seen
    shown = host.wcache.campaign(campaign_id)
    assert shown["status"] == "done", shown
    (result,) = shown["results"]
    # undecided is what a busy machine makes of few pairs
    assert result["verdict"] in ("write through", "insufficient data"), result
    assert host.state() == (True, BACK)
    assert [row for row in host.wcache("status")["findings"] if row["severity"] == "error"] == []


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_container_that_is_started_again_in_a_lease_puts_the_disk_back(host, how):
    assert host.state() == (True, BACK)
    campaign_id = host.measure(pairs=60)
    for _ in range(STRIKES_MAX):
        host.wait_off()
        getattr(host.container, how)()
        left_off = not host.disk.qmp_writeback()
        assert wait_until(lambda: not host.container.running(), HANG_S, 1.0)
        if left_off or how == "stop":
            break
        host.container.start()  # it was struck a moment too late
    # a probe that is stopped puts all back before it ends; one that is killed cannot
    assert left_off is (how == "kill")
    host.container.start()
    assert wait_until(lambda: host.state() == (True, BACK), HANG_S, 0.5), host.container.log()
    if host.wcache.campaign(campaign_id)["status"] == "running":
        host.wcache("campaign stop", campaign_id=campaign_id)
    shown = host.wcache.wait_over(campaign_id, HANG_S)
    assert [run["restored"] for run in shown["run_list"]] == [True], shown
    assert host.state() == (True, BACK)
    if how == "kill":
        assert "the probe was restarted" in host.wcache.history_text()
