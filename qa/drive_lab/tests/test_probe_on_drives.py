"""The probe on drives whose caches really toggle: what it says is true, and it is safe to kill.

The witnesses are QEMU and the counters of the drive, which the probe cannot influence.
"""

import json

import pytest

pytestmark = [pytest.mark.lab, pytest.mark.long]

NAMES = ("scsi", "sas", "sata", "nvme")
ANY = pytest.mark.parametrize("name", NAMES)
BACK, THROUGH = "write back", "write through"
# journal, read, pin, read, flush, set, flush, read; an NVMe drive needs no pin
STEPS = dict.fromkeys(NAMES, 8) | {"nvme": 6}
PYTHON = ["env", "PYTHONPATH=/wcache/mgr_module:/wcache/osd_probe", "python3", "-B"]
COMMAND = "/usr/bin/wcache-probe"
WORDS, ANSWERS = "/run/probe_steps.words", "/run/probe_steps.answers"


class Probe:
    """The probe in the guest."""

    def __init__(self, bench):
        self.bench = bench
        self.guest = bench.lab.guest

    def install(self):
        """An OSD folder for each drive, the probe where udev rules find it, and its server."""
        folders = "".join(
            f"mkdir -p /root/osds/osd.{osd_id}; echo {osd_id} > /root/osds/osd.{osd_id}/whoami; "
            f"ln -sfn {self.bench.disk(name).path} /root/osds/osd.{osd_id}/block; "
            for osd_id, name in enumerate(NAMES)
        )
        self.bench.sh(
            f"{folders} printf '#!/bin/sh\\nexec {' '.join(PYTHON)} -m wcache_probe \"$@\"\\n' "
            f"> {COMMAND}; chmod 755 {COMMAND}"
        ).checked()
        if self.bench.sh(f"[ -p {WORDS} ]").returncode != 0:
            self.guest.spawn([*PYTHON, "/wcache/qa/drive_lab/guest/probe_steps.py"])
            self.bench.sh(f"until [ -p {ANSWERS} ]; do sleep 0.1; done").checked()

    def ask(self, *words):
        """One command of probe_steps.py, by a fresh child of its server."""
        told = self.bench.sh(f"cat > {WORDS} <<'END'\n{json.dumps(words)}\nEND\ncat {ANSWERS}")
        return json.loads(told.checked())

    def steps(self, *words):
        """(exit code, what it printed)."""
        done = self.ask(*words)
        assert done["code"] in (0, 3, 137), done
        return done["code"], json.loads(done["out"]) if done["out"] else {}

    def toggle(self, name, mode, *words):
        return self.steps("toggle", self.bench.disk(name).name, mode, *words)

    def look(self, name):
        """The report of one drive."""
        _, drives = self.steps("look")
        wanted = self.bench.disk(name).name
        return next(drive for drive in drives if drive["dev_name"] == wanted)

    def restore(self):
        """`wcache-probe restore --all`, with no mgr, and its exit code and words."""
        return self.ask("restore")

    def journal(self):
        return self.bench.sh("ls /var/lib/wcache/journal").checked().split()


@pytest.fixture
def probe(bench):
    for name in NAMES:
        bench.all_on(name)
    probe = Probe(bench)
    probe.install()
    yield probe
    bench.sh("rm -rf /var/lib/wcache /run/wcache /etc/udev/rules.d/85-wcache-*").checked()


def switched_behind_our_back(bench, name, on):
    """The cache as a reset would change it: through the sg node, unseen by udev."""
    disk = bench.disk(name)
    if disk.is_nvme:
        bench.sh(
            f"nvme set-feature {disk.controller} --feature-id=6 --value={int(on)}"
        ).checked()
        return
    word = "set" if on else "clear"
    bench.sh(
        f"sdparm --quiet --{word}=WCE {disk.generic} || "
        f"sdparm --quiet --{word}=WCE {disk.generic}"
    ).checked()


@ANY
@pytest.mark.parametrize("on", [True, False])
def test_what_the_probe_reads_is_what_qemu_and_the_kernel_have(probe, bench, name, on):
    switched_behind_our_back(bench, name, on)
    drive = probe.look(name)
    assert bench.lab.drive(name).qmp_writeback() is on
    assert drive["state"]["device_cache"] == (BACK if on else THROUGH)
    assert drive["state"]["kernel_view"] == bench.disk(name).kernel_view()
    assert drive["transport"] == name
    assert drive["toggle_refusal"] == ""


@ANY
def test_a_toggle_is_true_flushed_and_taken_back(probe, bench, name):
    code, told = probe.toggle(name, THROUGH)
    assert (code, told["changed"], len(told["steps"])) == (0, True, STEPS[name])
    assert bench.state(name) == ("off", BACK)
    off = bench.true_state(name)
    assert (off.cached, off.flushed, off.unsafe) == (False, True, False)
    assert probe.toggle(name, BACK)[0] == 0
    on = bench.true_state(name)
    assert (on.cached, on.flushed, on.unsafe) == (True, True, False)
    assert probe.restore()["code"] == 0
    assert (bench.drive_on(name), probe.journal()) == (True, [])


@ANY
def test_kill_after_any_step_is_safe_whatever_the_drive_does_then(probe, bench, name):
    for step in range(1, STEPS[name] + 1):
        code, _ = probe.toggle(name, THROUGH, "--die-after", str(step))
        assert code == 137
        # a reset brings the cache on, and nobody tells the kernel
        switched_behind_our_back(bench, name, True)
        assert not bench.true_state(name).unsafe, f"killed after step {step}"
        assert probe.restore()["code"] == 0
        assert (bench.drive_on(name), probe.journal()) == (True, [])


@pytest.mark.parametrize("name", ["scsi", "nvme"])
def test_a_drive_replugged_under_a_lease_is_restored(probe, bench, name):
    assert probe.toggle(name, THROUGH)[0] == 0
    bench.lab.unplug(name)
    left = probe.restore()
    assert left["code"] == 1
    assert "not on this host" in left["err"]
    bench.lab.replug(name)
    probe.install()
    assert not bench.true_state(name).unsafe
    assert probe.restore()["code"] == 0
    assert (bench.drive_on(name), probe.journal()) == (True, [])


def test_under_a_volume_that_drops_flushes_the_cache_stays_off(probe, bench):
    disk = bench.disk("scsi")
    bench.sh(
        f"vgcreate -qq -y wcvg {disk.path} && lvcreate -qq -y -l 100%FREE -n osd wcvg && "
        "lvchange -qq -an wcvg/osd"
    ).checked()
    try:
        disk.set_cache_type("write through")
        bench.sh("lvchange -qq -ay wcvg/osd; ln -sfn /dev/wcvg/osd /root/osds/osd.0/block")
        bench.settle()
        drive = probe.look("scsi")
        (layer,) = drive["state"]["layers"]
        assert (layer["kind"], layer["kernel_view"]) == ("lvm", THROUGH)
        code, told = probe.toggle("scsi", BACK, "--consent")
        assert code == 3
        assert layer["name"] in told["refused"]
        assert told["steps"] == []
        assert not bench.lab.drive("scsi").qmp_writeback()
        assert not bench.true_state("scsi", "/dev/wcvg/osd").unsafe
    finally:
        bench.sh("vgremove -qq -f wcvg; pvremove -qq " + disk.path).checked()


def test_a_mounted_drive_is_left_alone(probe, bench):
    disk = bench.disk("sata")
    bench.sh(f"mke2fs -q -F {disk.path} 64M && mount {disk.path} /mnt").checked()
    try:
        code, told = probe.toggle("sata", THROUGH)
        assert (code, told["steps"]) == (3, [])
        assert "mounted on /mnt" in told["refused"]
        assert bench.drive_on("sata")
    finally:
        bench.sh("umount /mnt").checked()


def test_power_cut_after_an_acknowledged_write_loses_nothing_in_either_mode(probe, bench):
    for name in NAMES:
        for mode in (THROUGH, BACK):
            assert probe.toggle(name, mode)[0] == 0
            bench.sh(
                f"dd if=/dev/urandom of={bench.disk(name).path} bs=4096 count=8 seek=2048 "
                "oflag=direct conv=notrunc,fdatasync status=none"
            ).checked()
            assert bench.lab.drive(name).power_cut() == 0
    assert probe.restore()["code"] == 0


def test_what_was_persisted_is_there_after_a_power_cycle_and_rollback_takes_it_back(
    probe, bench
):
    """QEMU's drives save nothing and wake with the cache on, so udev rules must do it."""
    for name in NAMES:
        words = (bench.disk(name).name, THROUGH, "--persist", "--action", name)
        assert probe.steps("apply", *words)[0] == 0
    bench.lab.reboot()
    bench.settle()
    probe = Probe(bench)
    probe.install()
    for name in NAMES:
        assert bench.state(name) == ("off", BACK), f"{name} is off and pinned"
        assert not bench.true_state(name).unsafe
        assert probe.look(name)["state"]["page"]["saved"] == THROUGH
    for name in NAMES:
        assert probe.steps("rollback", "--action", name)[0] == 0
        assert bench.drive_on(name)
    assert bench.sh("ls /etc/udev/rules.d").checked().count("85-wcache") == 0
    bench.lab.reboot()
    bench.settle()
    assert all(bench.state(name) == ("on", BACK) for name in NAMES)


def test_a_rule_yields_to_a_lease(probe, bench):
    assert probe.steps("apply", bench.disk("scsi").name, THROUGH, "--persist")[0] == 0
    bench.sh("mkdir -p /run/wcache; touch /run/wcache/lease").checked()
    switched_behind_our_back(bench, "scsi", True)
    trigger = f"udevadm trigger --action=add --name-match={bench.disk('scsi').path}"
    bench.sh(trigger).checked()
    bench.settle()
    assert bench.drive_on("scsi")
    bench.sh("rm /run/wcache/lease").checked()
    bench.sh(trigger).checked()
    bench.settle()
    assert not bench.drive_on("scsi")
    assert probe.steps("rollback")[0] == 0
