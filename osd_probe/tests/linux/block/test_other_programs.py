"""A drive that something else uses is left alone, also where only an open file says so."""

import hashlib
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from model_drives import ModelScsi
from wcache.core.drive.safety import DROPS, may_toggle
from wcache.core.model import CacheMode, Cure, FindingCode
from wcache_probe.linux.block import foreign
from wcache_probe.linux.block.foreign import WriterSearch
from wcache_probe.linux.block.host_files import HostFiles
from wcache_probe.linux.block.sysfs import by_name
from wcache_probe.linux.transports.classify import Switches
from wcache_probe.linux.transports.loop import LoopSwitch


class Naps:
    """Instead of sleeping: counts, and does what a test says happens meanwhile."""

    def __init__(self, *then):
        self.count = 0
        self.then = list(then)

    def __call__(self, _seconds):
        self.count += 1
        if self.then:
            self.then.pop(0)()


def searched(fake_host, naps=None):
    return WriterSearch(fake_host.files, sleep=naps or Naps()).find()


def an_lv_on_sda(fake_host):
    fake_host.scsi_disk("sda", "8:0")
    fake_host.device("sda1", "8:1", parent="sda", bus="pci0/host0/target0:0:0/0:0:0:0")
    fake_host.device("dm-0", "252:0", below=["sda1"], dm_uuid="LVM-osd")
    fake_host.device("dm-1", "252:1", below=["sda1"], dm_uuid="LVM-other")
    fake_host.osd(1, block="dm-0")


class KnownFile(LoopSwitch):
    """Loop devices that say which file is behind them, as no fake device can."""

    def identify(self, device):
        return replace(super().identify(device), refusal="")


def host_of(fake_host):
    return fake_host.drive_host(
        switches=Switches(scsi=ModelScsi(), loop=KnownFile()), find_foreign_rules=tuple,
        sleep=Naps(),
    )


def look(fake_host):
    host = host_of(fake_host)
    (drive,) = host.look()
    return drive, host


def refusal(drive, *, throwaway=False):
    return may_toggle(
        [drive], CacheMode.WRITE_THROUGH, throwaway=throwaway, consent_turn_on=True
    )


@pytest.mark.parametrize("held", ["sda", "sda1", "dm-1", "dm-0"])
def test_a_program_that_writes_the_disk_or_anything_on_it_shares_it(fake_host, held):
    an_lv_on_sda(fake_host)
    fake_host.process(300, "tgtd", [held])
    drive, _ = look(fake_host)
    assert drive.foreign_uses == (f"{held} open for writing in tgtd (pid 300)",)
    assert "tgtd" in refusal(drive)
    assert [f.code for f in drive.findings] == [FindingCode.SHARED_DRIVE]


def test_the_osd_itself_and_programs_that_only_read_do_not_share_it(fake_host):
    an_lv_on_sda(fake_host)
    fake_host.running(77, fake_host.root / "osd/osd.1", ["dm-0"])
    fake_host.process(301, "smartd", ["sda"], flags="0104000")
    drive, host = look(fake_host)
    assert (drive.foreign_uses, drive.findings, refusal(drive)) == ((), (), None)
    assert host.host_findings() == ()


def test_a_ceph_osd_whose_folder_cannot_be_found_is_somebody_else(fake_host):
    an_lv_on_sda(fake_host)
    fake_host.process(78, "ceph-osd", ["dm-1"])
    drive, _ = look(fake_host)
    assert drive.foreign_uses == ("dm-1 open for writing in ceph-osd (pid 78)",)


def test_one_that_does_not_say_how_it_is_open_may_write(fake_host):
    fake_host.disk("sda", "8:0")
    fake_host.process(302, "x", ["sda"], flags="unheard of")
    assert searched(fake_host).by_number == {"8:0": ("open for writing in x (pid 302)",)}


def test_a_program_that_opens_a_disk_for_a_moment_is_no_user(fake_host):
    fake_host.disk("sda", "8:0")
    fake_host.process(303, "smartd", ["sda"])
    naps = Naps(lambda: None, (fake_host.root / "proc/303/fd/4").unlink)
    assert searched(fake_host, naps).by_number == {}
    assert naps.count == 2, "nobody waits for longer than it takes"


def test_a_number_that_was_reused_for_another_device_is_a_new_open(fake_host):
    fake_host.disk("sda", "8:0")
    fake_host.disk("sdb", "8:16")
    fake_host.process(304, "parted", ["sda"])

    def reopens():
        link = fake_host.root / "proc/304/fd/4"
        link.unlink()
        link.symlink_to(fake_host.root / "dev/sdb")

    assert searched(fake_host, Naps(reopens)).by_number == {}


def test_who_stayed_once_is_believed_at_once_and_forgotten_when_gone(fake_host):
    fake_host.disk("sda", "8:0")
    fake_host.process(305, "mysqld", ["sda"])
    naps = Naps()
    search = WriterSearch(fake_host.files, sleep=naps)
    first = search.find()
    assert (len(first.by_number), naps.count) == (1, 10)
    assert (search.find(), naps.count) == (first, 10)
    (fake_host.root / "proc/305/fd/4").unlink()
    assert search.find().by_number == {}
    assert naps.count == 10


def test_from_another_pid_namespace_whether_a_drive_is_shared_is_unknown(fake_host):
    an_lv_on_sda(fake_host)
    fake_host.hide_processes()
    drive, host = look(fake_host)
    assert (drive.foreign_uses, drive.findings) == ((), ())
    assert "pid namespace" in refusal(drive)
    (finding,) = host.host_findings()
    assert (finding.code, finding.cure) == (FindingCode.SHARED_DRIVE, Cure.LET_PROBE_SEE)
    assert "unknown" in finding.detail


@pytest.mark.parametrize(("etc", "is_rig"), [
    ((os.fsdecode(b"\xff"), "rig"), True), (("hosts", "wcache", "rig.bak"), False)])
def test_from_another_pid_namespace_loop_devices_are_toggled_in_a_rig_that_is_thrown_away(
    fake_host, monkeypatch, etc, is_rig
):
    monkeypatch.setattr(foreign, "RIG_FILE_SHA256", hashlib.sha256(b"rig").hexdigest())
    (fake_host.root / "etc").mkdir()
    for name in etc:
        (fake_host.root / "etc" / name).touch()
    fake_host.hide_processes()
    fake_host.loop("loop0", "7:0")
    fake_host.scsi_disk("sda", "8:0")
    for osd_id, name in enumerate(("loop0", "sda")):
        fake_host.osd(osd_id, block=name)
    loop, disk = host_of(fake_host).look()
    said = refusal(loop, throwaway=True)
    assert said is None if is_rig else "pid namespace" in said
    assert DROPS in refusal(loop) or not is_rig
    assert "pid namespace" in refusal(disk, throwaway=True)


READ_AS_NOBODY = """
import os, sys
from wcache_probe.linux.block.host_files import HostFiles
from wcache_probe.linux.block.foreign import RIG_FILE_SHA256, WriterSearch
os.chdir(sys.argv[1])  # what is above it may be closed to others
os.setgroups([]); os.setgid(65534); os.setuid(65534)
print(WriterSearch(HostFiles(proc=".")).find().unknown)
"""


def test_processes_that_cannot_be_looked_into_make_it_unknown(fake_host):
    if os.geteuid() != 0:
        pytest.skip("another user is needed")
    fake_host.process(306, "secret", [])
    (fake_host.root / "proc/306/fd").chmod(0o700)
    done = subprocess.run(
        [sys.executable, "-c", READ_AS_NOBODY, fake_host.files.proc],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True, text=True, timeout=60, check=False,
    )
    assert "secret (pid 306) cannot be read" in done.stdout, done.stderr


@pytest.mark.parametrize(("rights", "told"), [
    ("00000000002a0006", ""), ("000001ffffffffff", ""), ("0000000000220006", "without SYS_PTRACE"),
])
def test_without_the_right_to_trace_what_other_users_hold_is_unknown(fake_host, rights, told):
    """Root lists such descriptors all the same, and finds out of none where it leads."""
    status = fake_host.root / "proc/self/status"
    status.write_text(f"Name:\tx\nCapPrm:\t000001ffffffffff\nCapEff:\t{rights}\nSeccomp:\t0\n")
    unknown = searched(fake_host).unknown
    assert told in unknown
    assert bool(unknown) is bool(told)


@pytest.mark.slow
def test_a_real_process_that_writes_a_real_block_device_is_seen(loop_device):
    name, _ = loop_device
    number = by_name(HostFiles(), name).number
    script = "import os, sys; os.open(sys.argv[1], os.{}); print('open', flush=True); input()"
    for flags, seen in (("O_RDWR", True), ("O_RDONLY", False)):
        holder = subprocess.Popen(
            [sys.executable, "-c", script.format(flags), f"/dev/{name}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        try:
            assert holder.stdout.readline() == "open\n"
            who = WriterSearch(HostFiles()).find().by_number.get(number, ())
            assert any(f"(pid {holder.pid})" in text for text in who) is seen
        finally:
            holder.kill()
            holder.communicate()


# ---- users inside the kernel


def test_what_the_kernel_exports_or_stacks_on_a_disk_shares_it(fake_host):
    an_lv_on_sda(fake_host)
    core = "sys/kernel/config/target/core"
    fake_host.write(
        f"{core}/iblock_0/by_number/info",
        "Status: ACTIVATED  Max Queue Depth: 0\n        iBlock device: dm-1  UDEV PATH: \n"
        "        Major: 252 Minor: 1  CLAIMED: IBLOCK\n",
    )
    fake_host.write(f"{core}/iblock_0/by_path/udev_path", "/dev/sda1\n")
    fake_host.write(f"{core}/fileio_1/by_file/info", "TCM FILEIO ID: 0  File: /dev/sda  Size: 9\n")
    fake_host.write(f"{core}/fileio_1/a_file/info", "TCM FILEIO ID: 0  File: /srv/x  Size: 9\n")
    fake_host.write(f"{core}/alua/lu_gps/alua_lu_gp_id", "0\n")
    space = "sys/kernel/config/nvmet/subsystems/nqn.x/namespaces/1"
    fake_host.write(f"{space}/device_path", "/dev/dm-1\n")
    fake_host.loop("loop3", "7:3", backing="/dev/sda1")
    fake_host.loop("loop4", "7:4", backing="/srv/image")
    drive, _ = look(fake_host)
    assert set(drive.foreign_uses) == {
        "dm-1 exported as by_number by a SCSI target",
        "sda1 exported as by_path by a SCSI target",
        "sda exported as by_file by a SCSI target",
        "dm-1 exported as nqn.x by an NVMe target",
        "sda1 under loop3",
    }
    assert refusal(drive)


def test_the_label_of_a_pool_counts_where_zfs_is_loaded(fake_host):
    an_lv_on_sda(fake_host)
    fake_host.write("run/udev/data/b8:1", "S:disk/by-id/x\nE:ID_FS_TYPE=zfs_member\n")
    assert look(fake_host)[0].foreign_uses == ()
    (fake_host.root / "sys/module/zfs").mkdir(parents=True)
    assert look(fake_host)[0].foreign_uses == ("sda1 has the label of a ZFS pool",)


def test_odd_words_in_configfs_are_no_device(fake_host):
    core = "sys/kernel/config/target/core/iblock_0"
    fake_host.write(f"{core}/a/udev_path", "../../etc\n")
    fake_host.write(f"{core}/b/info", "Major: 99999999999 Minor: x File: /dev/../etc\n")
    fake_host.write(f"{core}/c/udev_path", "/dev/\0\n")
    assert foreign.exported(fake_host.files) == set()


def test_words_of_others_lead_to_devices_by_roots_names_alone(fake_host, tmp_path):
    """Any user may mount something in a namespace of his own, from a source that he names."""
    files = fake_host.files
    fake_host.disk("sda", "8:0")
    fake_host.disk("sdb", "8:16")
    home = fake_host.root / "home"
    home.mkdir()
    (home / "link").symlink_to(fake_host.root / "dev/sdb")
    (fake_host.root / "dev/vg").mkdir()
    (fake_host.root / "dev/vg/lv").symlink_to("../sda")
    if os.geteuid() == 0:
        # ceph-volume and others give nodes away
        os.chown(fake_host.root / "dev/sda", 167, 167)
        os.chown(home, 65534, 65534)
        assert files.number_of_word("/dev/../home/link") is None
    assert files.number_of_word("/dev/sda") == files.number_of_word("/dev/vg/lv") == "8:0"
    for word in (None, "", "tmpfs", "/home/link", "/dev/none", "/dev/nul\0", "/devsda"):
        assert files.number_of_word(word) is None
