"""The probe in the container that cephadm makes for it, on drives that really toggle.

`cephadm_unit.run` is what cephadm writes on a host; a test of the rig holds it against that.
"Narrower" is that file with what `privileged: false` leaves out, and the arguments of
doc/security.md in its place.
"""

import json
import shlex
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
from wcache.deployment.places import caps_of

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
PRIVILEGED = "--privileged --group-add=disk"
NARROWER = (
    "--cap-drop=ALL", "--cap-add=SYS_ADMIN", "--cap-add=SYS_RAWIO", "--cap-add=SYS_PTRACE",
    "--cap-add=DAC_READ_SEARCH", "--cap-add=DAC_OVERRIDE",
    "--device-cgroup-rule=b *:* rw", "--device-cgroup-rule=c *:* rw",
    "--security-opt=label=disable", "--security-opt=apparmor=unconfined",
    "--security-opt=unmask=/sys/dev/block",
)
LOOK = f"look --format json --hostname={HOST} --host-root=/host"
# What the probe says where one of them is missing, or both that begin so; of "DAC" one suffices to
# read.  Those about security modules have no such module to open here.
MISSING = {
    "--cap-add=SYS_PTRACE": ["without SYS_PTRACE"],
    "--cap-add=DAC_": ["the open files of sleep"],
    "--cap-add=SYS_ADMIN": ["nvme0 does not answer (Permission denied)"],
    "--cap-add=SYS_RAWIO": ["sdb takes no SCSI commands (Operation not permitted)"],
    "--device-cgroup-rule": [
        f"{name} cannot be opened (Operation not permitted)" for name in ("nvme0", "sda", "sdb")
    ],
    "--security-opt=unmask": ["leads to no drive"],
}
FORMS = {"privileged": PRIVILEGED, "narrower": shlex.join(NARROWER)}


class Host:
    """The drives as QEMU has them, and the container of their probe."""

    def __init__(self, up, images):
        self.stage = Stage(up, time.monotonic())
        self.stage.enable(OPTIONS)
        self.wcache = self.stage.wcache
        self.disks = [up.lab.drive(each.name) for each in up.lab.drives]
        self.disk = self.disks[0]
        keyring = up.cluster.auth_key(f"client.wcache.{HOST}", **caps_of(HOST))
        # by the guest's own Python: it compiles each module once and for all guests
        GuestProbe(up.lab, HOST, keyring).prepare()
        fsid = up.cluster.command("status")["fsid"]
        self.unit = UNIT.read_text().replace("FSID", fsid).replace("HOST", HOST)
        assert images.name in self.unit
        self.container = CephadmHost(up.lab, storage=STORAGE, fsid=fsid, keyring=keyring)

    def start_as(self, form):
        """Run the container in one of the forms, in place of one that runs."""
        self.container.stop()
        self.container.use(self.in_form(FORMS[form]))
        began_s = time.monotonic()
        self.container.start()

        def reported():
            ages_s = [row["reported_s_ago"] for row in self.wcache("drive ls")["drives"]]
            since_s = time.monotonic() - began_s
            return ages_s and all(age_s is not None and age_s < since_s for age_s in ages_s)

        self.stage.wait("the probe's report", reported, 2 * HANG_S)

    def in_form(self, arguments):
        """The file of the unit with these arguments."""
        assert self.unit.count(PRIVILEGED) == 1
        return self.unit.replace(PRIVILEGED, arguments)

    def state(self):
        """The write cache as QEMU and the guest's kernel have it."""
        return self.disk.qmp_writeback(), self.disk.disk().kernel_view()

    def measure(self, pairs, scope=f"host:{HOST}"):
        return self.wcache.start_campaign(scope=scope, loads="depth1", pairs=pairs)

    def wait_off(self):
        assert wait_until(lambda: not self.disk.qmp_writeback(), HANG_S), self.container.log()


@pytest.fixture(scope="module")
def up_host(tmp_path_factory):
    try:
        images = ensure_images(RELEASE)
    except NotPossible as reason:
        pytest.skip(str(reason))
    job = campaign.LabJob(
        drive_file=LAB_DRIVES, release=RELEASE,
        folders={"hosts": images.host, "images": images.store},
    )
    with campaign.running(job, campaign.Stages()) as up:
        yield Host(up, images)


@pytest.fixture(scope="module", params=list(FORMS))
def host(up_host, request):
    up_host.start_as(request.param)
    return up_host


def test_the_container_toggles_all_drives_in_a_campaign_and_puts_them_back(host):
    assert host.state() == (True, BACK)
    assert [row["toggle_refusal"] for row in host.wcache("drive ls")["drives"]] == ["", "", ""]
    campaign_id = host.measure(pairs=6)
    seen = {disk.name: [True] for disk in host.disks}

    def over():
        for disk in host.disks:
            on = disk.qmp_writeback()
            if on != seen[disk.name][-1]:
                seen[disk.name].append(on)
        return host.wcache.campaign(campaign_id)["status"] != "running"

    host.stage.wait("the end of the campaign", over, 3 * HANG_S)
    assert all(modes.count(False) >= 4 for modes in seen.values()), seen
    shown = host.wcache.campaign(campaign_id)
    assert shown["status"] == "done", shown
    verdicts = {result["osd_id"]: result["verdict"] for result in shown["results"]}
    assert len(verdicts) == 3
    # undecided is what a busy machine makes of few pairs
    assert verdicts[0] in ("write through", "insufficient data"), shown["results"]
    assert all(disk.qmp_writeback() for disk in host.disks)
    assert host.state() == (True, BACK)
    assert [row for row in host.wcache("status")["findings"] if row["severity"] == "error"] == []


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_container_that_is_started_again_in_a_lease_puts_the_disk_back(host, how):
    assert host.state() == (True, BACK)
    campaign_id = host.measure(pairs=60, scope="osd.0")
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


def test_the_narrower_container_sees_each_drive_and_less_with_one_argument_missing(up_host):
    sleep = up_host.stage.up.lab.guest.spawn(["setpriv", "--reuid=65534", "sleep", "36000"])
    for missing, told in {"nothing": [], **MISSING}.items():
        arguments = [each for each in NARROWER if not each.startswith(missing)]
        seen = json.loads(up_host.container.once(up_host.in_form(shlex.join(arguments)), LOOK))
        lines = [
            *(each["text"] for drive in seen["drives"] for each in drive["refusals"]),
            *(each["detail"] for each in seen["findings"]),
        ]
        assert bool(lines) == bool(told), (missing, lines)
        assert all(any(word in line for line in lines) for word in told), (missing, lines)
    sleep.kill()
