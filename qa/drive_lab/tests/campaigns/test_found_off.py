"""A cluster set up by Ceph's documented rule is warned, observed, cured, measured, and goes back.

SATA disks under LVM and dm-crypt.  Power is cut in between: nothing acknowledged is lost.
"""

import json
import subprocess
import threading
import time
from pathlib import Path

import pytest
from drive_lab import campaign
from drive_lab.agent import HANG_S
from drive_lab.osds import HOME, KEY, Stack
from drive_lab.stage import Stage
from harness import CommandError
from wcache.core.experiment.observing_run import NOT_FLUSHED
from wcache.deployment.scripts import MEASURE
from wcache_probe.linux.persistence.udev_rule import FILE_NAME as BOOT_RULE

pytestmark = [pytest.mark.lab, pytest.mark.long]

DRIVES = Path(__file__).resolve().parent / "found_off_drives.toml"
# doc: hardware recommendations, write caches
RULE = 'ACTION=="add", SUBSYSTEM=="scsi_disk", ATTR{cache_type}:="write through"'
RULE_FILE = "/etc/udev/rules.d/99-ceph-write-through.rules"
WARNING = "WCACHE_LOADED_OFF"
OSDS = (0, 1)
HOST = campaign.HOSTNAME

# Waits until the test has run the command on the guest.
SSH = """#!/bin/sh
if [ "$1" = -n ]; then shift; exec </dev/null; fi
[ "$1" = root@{host} ] && [ $# = 2 ] || exit 255
cat >{folder}/input
printf '%s' "$2" >{folder}/asked.new && mv {folder}/asked.new {folder}/asked
until [ -e {folder}/code ]; do sleep 0.2; done
code=$(cat {folder}/code)
rm {folder}/code
exit "$code"
"""
# The guest has neither systemd nor ceph-volume: this does for an OSD what they do.
SYSTEMCTL = f"""#!/bin/sh
id=${{2#ceph-osd@}}
case $1 in
stop)
    pid=$(cat {HOME}/osd.$id.pid)
    kill -TERM "$pid"
    while [ -e "/proc/$pid" ]; do sleep 0.1; done ;;
start) ceph-osd -i "$id" ;;
*) exec /usr/bin/systemctl.arrival "$@" ;;
esac
"""
CEPH_VOLUME = f"""#!/bin/sh
[ "$1 $2 $3" = "lvm activate --no-systemd" ] && [ -n "$5" ] || exit 1
lvs --noheadings -o lv_path,lv_uuid -S "tags={{ceph.osd_id=$4}}" | while read -r path uuid
do
    [ -e "/dev/mapper/$uuid" ] || cryptsetup open --key-file {KEY} "$path" "$uuid"
done
"""


class FoundOff(Stage):
    """A cluster whose caches were turned off by the rule at each boot."""

    def boot(self):
        """Take the power of everything, and start the OSDs again by what is there then."""
        self.up.lab.reboot()
        for osd_id in OSDS:
            # nobody is left to tell the mons that it is gone
            self.cluster.ceph("osd", "down", str(osd_id))
            self.up.osds.start(osd_id)
        self.up.osds.wait_up()
        self.wait_clean()

    def seen(self):
        """Per drive: whether its cache is on, the views of its layers, and an unsafe write."""
        return [
            (one.by_drive_on, list(one.by_kernel.values()), one.unsafe)
            for one in self.seen_in_commits()
        ]

    def repeat_the_rule(self):
        """Have udev go through the disks' own events again, as each boot does."""
        self.up.lab.guest.sh(
            "udevadm trigger --action=add --subsystem-match=scsi_disk && udevadm settle"
        ).checked()

    def put(self, name):
        self.cluster.run_inside(
            ["rados", "-p", "data", "put", name, "-"], input_text=name * 500, timeout_s=HANG_S
        )

    def kept(self, *names):
        return [
            self.cluster.run_inside(
                ["rados", "-p", "data", "get", name, "-"], timeout_s=HANG_S
            ).stdout == name * 500
            for name in names
        ]

    def observe(self, flushed):
        """A campaign that touches nothing, beside clients; its id, and where its answer is.

        Where no drive is flushed the timer has nothing to time, and its rows say so.
        """
        clients = self.cluster.popen_inside(
            ["rados", "-p", "data", "bench", "600", "write", "-b", "4096", "-t", "2",
             "--no-cleanup"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        try:
            campaign_id = self.wcache.start_campaign(observe=True, loads="traffic,timer")
            shown = self.wcache.wait_over(campaign_id, HANG_S)
        finally:
            clients.kill()
            clients.wait()
        reasons = [run["reason"] for run in shown["run_list"] if run["reason"]]
        assert (shown["status"], reasons) == ("done", [])
        rows = [
            (row["osd_id"], row["load_point"], row["table"]["n"] > 0, row["note"])
            for row in shown["observed"]
        ]
        timers = [row for row in rows if row[1] == "fdatasync_timer"]
        traffic = [row for row in rows if row[1] == "osd_traffic"]
        assert len(timers) == len(traffic) == len(OSDS) == len(rows) / 2, rows
        assert all(has_samples and not note for _, _, has_samples, note in traffic), rows
        for _, _, has_samples, note in timers:
            assert has_samples is flushed, rows
            assert (NOT_FLUSHED in note) is not flushed, rows
        saved = self.cluster.folder / f"{campaign_id}.json"
        saved.write_text(json.dumps(shown))
        return campaign_id, str(saved)

    def start_probe(self):
        """Start the probe after a boot, and wait until it has reported."""
        began_s = time.monotonic()
        self.up.lab.guest.sh("systemctl enable --now wcache-probe").checked()

        def reported():
            ages = [row["reported_s_ago"] for row in self.wcache("drive ls")["drives"]]
            since_s = time.monotonic() - began_s
            return all(age is not None and age < since_s for age in ages)

        self.wait("a report after the boot", reported)

    def found(self):
        """The warnings and errors of `status`."""
        return {
            row["code"]: row["severity"] for row in self.wcache("status")["findings"]
            if row["severity"] != "info"
        }

    def left(self):
        """What wcache has put onto the host that is there still: files, and processes."""
        return self.up.lab.guest.sh(
            "find /etc -name '*wcache*'; find /run/wcache/leases /var/lib/wcache/journal -type f; "
            "pgrep -af '[w]cache_probe' || :"
        ).checked().splitlines()

    def install(self, path, text):
        (self.up.lab.share / "program").write_text(text)
        self.up.lab.guest.sh(f"install -m 755 /share/program {path}").checked()

    def run_as_admin(self, script):
        """Run a script where `ceph` is, and on the guest what it asks for by ssh; what was said."""
        folder = self.cluster.folder / "found-off"
        folder.mkdir()
        ssh = folder / "ssh"
        ssh.write_text(SSH.format(host=HOST, folder=folder))
        ssh.chmod(0o755)
        done = []
        path = f"PATH={folder}:/usr/sbin:/usr/bin:/sbin:/bin"
        thread = threading.Thread(target=lambda: done.append(self.cluster.run_inside(
            ["/usr/bin/env", path, "/bin/sh"], input_text=script, timeout_s=4 * HANG_S, check=False,
        )))
        thread.start()
        said = []
        asked = folder / "asked"
        while thread.is_alive():
            if asked.exists():
                command = asked.read_text()
                asked.unlink()
                result = self.up.lab.guest.run(
                    ["/bin/sh", "-c", f"{{ {command}; }} 2>&1"],
                    stdin=(folder / "input").read_text(), timeout_s=HANG_S,
                )
                said.append(result.stdout)
                (folder / "code.new").write_text(str(result.returncode))
                (folder / "code.new").rename(folder / "code")
            time.sleep(0.2)
        said.append(done[0].stdout + done[0].stderr)
        return "".join(said)


@pytest.fixture(scope="module")
def stage(release):
    job = campaign.LabJob(drive_file=DRIVES, release=release, stack=Stack.LVM_CRYPT)
    with campaign.running(job, campaign.Stages()) as up:
        made = FoundOff(up, time.monotonic())
        made.cluster.ceph("osd", "pool", "create", "data", "8")
        for pool in made.cluster.command("osd pool ls"):
            made.cluster.ceph("osd", "pool", "set", pool, "size", "2")
        up.lab.guest.sh(f"printf '%s\n' '{RULE}' > {RULE_FILE}; sync").checked()
        yield made


def test_a_cluster_by_cephs_documented_rule_is_warned_observed_cured_and_measured(stage):
    off_and_dropping = [(False, ["write through"] * 3, False)] * 2
    off_and_flushing = [(False, ["write back"] * 3, False)] * 2
    stage.boot()
    assert stage.seen() == off_and_dropping
    stage.put("found-off")
    stage.boot()
    assert stage.kept("found-off") == [True]

    stage.enable({"poll_idle_s": "0.5", "latency_limit_ms": "60000"})  # a busy machine stalls
    stage.add_host()
    stage.wait_clean()
    stage.wait("the warning", lambda: WARNING in stage.found())
    assert "error" not in stage.found().values(), stage.found()
    (line,) = [row for row in stage.wcache("status")["findings"] if row["code"] == WARNING]
    assert line["subject"] == "2 drives on 1 host"

    before, saved_before = stage.observe(flushed=False)
    shown = " ".join(stage.ceph("wcache", "campaign", "show", before).stdout.split())
    assert shown.count(NOT_FLUSHED) == len(OSDS)
    assert "next: ceph wcache status" in shown
    with pytest.raises(CommandError, match="drive reload"):
        stage.wcache("campaign start", loads="depth1", accept_cost=True, consent_turn_on=True)
    assert stage.seen() == off_and_dropping

    stage.up.lab.guest.sh(
        "mv /usr/bin/systemctl /usr/bin/systemctl.arrival; mkdir -p /var/lib/ceph/osd; "
        + "; ".join(f"ln -sfn {HOME}/osd.{n} /var/lib/ceph/osd/ceph-{n}" for n in OSDS)
    ).checked()
    stage.install("/usr/bin/systemctl", SYSTEMCTL)
    stage.install("/usr/sbin/ceph-volume", CEPH_VOLUME)
    script = stage.ceph("wcache", "drive", "reload").stdout
    said = stage.run_as_admin(script)
    print(said)
    steps = [
        f"{HOST}: wcache-probe prepare", f"osd.0 on {HOST} (1 of 2): waiting",
        f"osd.1 on {HOST} (2 of 2): waiting", "all are loaded anew", f"next: {MEASURE}",
    ]
    found = [said.find(step) for step in steps]
    assert found == sorted(found), said
    assert found[0] >= 0, said
    assert said.count(": loaded anew") == len(OSDS), said
    assert "NOT prepared" not in said
    assert stage.seen() == off_and_flushing
    stage.wait("the end of the warning", lambda: WARNING not in stage.found())
    assert "no OSD's volumes" in stage.ceph("wcache", "drive", "reload").stdout

    stage.put("cured")
    stage.boot()
    assert stage.kept("found-off", "cured") == [True, True]
    assert stage.seen() == off_and_flushing, "the pin came before LVM"
    stage.repeat_the_rule()
    assert stage.seen() == off_and_flushing, "the pin came after the rule"
    stage.start_probe()
    stage.wait_clean()
    after, saved_after = stage.observe(flushed=True)
    for table in (
        stage.ceph("wcache", "campaign", "show", after, f"--before={before}").stdout,
        stage.tool("compare", "--before", saved_before, "--after", saved_after),
    ):
        rows = [line for line in table.splitlines() if line.startswith(("osd.0/", "osd.1/"))]
        assert len(rows) == 4, table
        # before, no flush was sent to the drives: there are no times to compare
        assert ["%" in row for row in rows] == [" traffic" in row for row in rows], table
        assert "passed between the two" in " ".join(table.split())
    stage.wait_clean()
    words = [word.lstrip("-") for word in MEASURE.split()[4:]]
    assert words == ["consent-turn-on", "accept-cost"]
    measured = stage.wcache.start_campaign(
        loads="depth1", pairs=4, drives_per_model=1, consent_turn_on=True
    )
    shown = stage.wcache.wait_over(measured, 2 * HANG_S)
    assert [run["restored"] for run in shown["run_list"]] == [True], shown
    assert shown["results"], shown
    assert stage.seen() == off_and_flushing
    stage.ceph("wcache", "recommend")

    stage.put("measured")
    (said,) = [line for line in stage.remove_host().splitlines() if "the boot rule stays" in line]
    assert said.count("is off now and may come on by a reset") == len(OSDS)
    assert said.endswith("by hand: leave.md of the package ceph-mgr-wcache")
    assert stage.left() == [f"/etc/udev/rules.d/{BOOT_RULE}"], "and nothing else of ours"
    stage.boot()
    assert stage.kept("found-off", "cured", "measured") == [True] * 3
    assert stage.seen() == off_and_flushing, "the rule needs no probe"
    # by hand, as doc/leave.md says; the guest's image is not of its own making
    stage.up.lab.guest.sh(f"rm /etc/udev/rules.d/{BOOT_RULE}; sync").checked()
    stage.boot()
    assert stage.kept("found-off", "cured", "measured") == [True] * 3
    assert stage.seen() == off_and_dropping, "as it was found"
