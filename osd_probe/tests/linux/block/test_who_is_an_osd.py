"""What counts as an OSD, and that whoever only says he is one leads root nowhere."""

from __future__ import annotations

import argparse
import os
import stat
import subprocess
import sys
import textwrap
import threading
from contextlib import contextmanager

import pytest
from wcache.core.model import FindingCode, Role, Severity
from wcache_probe.linux.block import osds
from wcache_probe.linux.block.foreign import WriterSearch
from wcache_probe.linux.block.host_files import HostFiles
from wcache_probe.linux.block.sysfs import by_name
from wcache_probe.linux.host import LinuxDriveHost
from wcache_probe.main import linux_changes

OTHER = 65534
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")


def host_of(fake_host, *globs):
    return LinuxDriveHost(
        files=fake_host.files, boot_pins=fake_host.boot_pins, osd_data_globs=globs,
        find_foreign_rules=tuple, sleep=lambda _seconds: None,
    )


def found(fake_host, *globs):
    """Ids with devices of what is taken for an OSD, and what is told of others."""
    told = []
    seen = osds.discover(fake_host.files, globs, told.append)
    return {(osd.osd_id, tuple(number for _, number in osd.devices)) for osd in seen}, told


def an_osd(fake_host, osd_id=3, pid=77, name="loop0", number="7:0", **more):
    if name not in os.listdir(fake_host.root / "sys/block"):
        fake_host.loop(name, number, backing=f"/{name}")
    folder = fake_host.osd(osd_id, block=name)
    fake_host.running(pid, folder, [name], **more)
    return folder


def a_second_folder(fake_host, name, block):
    """Another data folder that says it is osd.3's."""
    first = fake_host.root / "osd/osd.3"
    second = fake_host.root / name
    second.mkdir()
    for file in ("whoami", "ceph_fsid", "fsid"):
        (second / file).write_text((first / file).read_text())
    (second / "block").symlink_to(block)
    return second


# ---- by its users


@pytest.mark.parametrize(("uids", "believed"), [
    ((0, 0, 0, 0), True),
    ((167,) * 4, True),
    ((64045,) * 4, True),
    ((1000,) * 4, False),
    ((1000, 0, 0, 0), False),  # a set-uid program that a user started under this name
    ((0, 0, 1000, 0), False),
    ((0, 0, 0, 1000), False),
])
def test_an_osd_runs_as_root_or_as_the_ceph_user(fake_host, uids, believed):
    an_osd(fake_host, uids=uids)
    seen, told = found(fake_host)
    assert seen == ({(3, ("7:0",))} if believed else set())
    assert ["runs as user 1000" in why for why in told] == [True] * (not believed)


@pytest.mark.parametrize(("passwd", "believed"), [
    ("", {167, 64045}),
    ("ceph:x:167:167::/:/sbin/nologin\n", {167, 64045}),
    ("ceph:x:900:900::/:/sbin/nologin\n", {167, 900, 64045}),
    ("prometheus:x:167:167::/:/sbin/nologin\nceph:x:64045:64045::/:\n", {64045}),
    ("ceph:x:-1:0::/:\nceph\n:::\nceph:x:1e3:0::/:\n", {167, 64045}),
])
def test_the_hosts_own_table_says_who_the_ceph_user_is(fake_host, passwd, believed):
    fake_host.write("etc/passwd", f"root:x:0:0::/root:/bin/sh\n{passwd}")
    assert osds.trust_of(fake_host.files).users - {0, os.geteuid()} == believed


def test_a_process_that_does_not_say_who_runs_it_is_none(fake_host):
    an_osd(fake_host)
    fake_host.write("proc/77/status", "Name:\tceph-osd\n")
    assert found(fake_host)[0] == set()


# ---- by the device that it holds, or its folder


@root_only
@pytest.mark.parametrize(("node", "believed"), [
    ((0, 6, 0o660), True),  # udev: root:disk
    ((167, 167, 0o660), True),  # ceph-volume
    ((64045, 64045, 0o660), True),
    ((0, 0, 0o600), True),
    ((0, 36, 0o600), True),
    ((0, 36, 0o660), False),  # group kvm
    ((0, 36, 0o640), False),
    ((1000, 6, 0o660), False),
    ((0, 6, 0o664), False),
    ((0, 6, 0o666), False),
])
def test_a_device_speaks_for_its_holder_where_no_other_user_may_open_it(
    fake_host, node, believed
):
    fake_host.write("etc/group", "root:x:0:\ndisk:x:6:\nkvm:x:36:\n")
    folder = an_osd(fake_host)
    fake_host.files.nodes["7:0"] = node
    os.chown(folder, OTHER, OTHER)  # so that the folder does not speak for it
    seen, told = found(fake_host)
    assert seen == ({(3, ("7:0",))} if believed else set())
    assert ["belongs to another user, of id 65534" in why for why in told] == (
        [True] * (not believed)
    )


@root_only
@pytest.mark.parametrize(("owner", "mode", "believed"), [
    (0, 0o755, True), (167, 0o750, True),
    (167, 0o1777, True),  # the tmpfs that ceph-volume mounts there
    (167, 0o777, False), (167, 0o775, False), (OTHER, 0o755, False),
])
@pytest.mark.parametrize("above", [False, True])
def test_a_folder_speaks_for_its_holder_where_no_other_user_may_change_it(
    fake_host, owner, mode, believed, above
):
    folder = an_osd(fake_host)
    fake_host.files.nodes["7:0"] = (0, 0, 0o666)
    at = folder.parent if above else folder
    os.chown(at, owner, 167)
    at.chmod(mode)
    assert found(fake_host)[0] == ({(3, ("7:0",))} if believed else set())
    # the same of an OSD that does not run
    (fake_host.root / "proc/77/comm").write_text("gone\n")
    assert found(fake_host, fake_host.osd_glob)[0] == ({(3, ("7:0",))} if believed else set())


@root_only
def test_who_owns_what_is_above_says_nothing_against_an_osd_that_runs(fake_host):
    """As with cephadm, which gives it to the user of what it deployed last."""
    folder = an_osd(fake_host)
    an_osd(fake_host, 4, 78, "loop1", "7:1")
    os.chown(folder.parent, OTHER, OTHER)
    (fake_host.root / "proc/78/comm").write_text("ended")
    seen, (told,) = found(fake_host, f"{folder.parent}/*")
    assert seen == {(3, ("7:0",))}
    assert "osd.4 is not taken for the folder of an OSD" in told


@root_only
def test_in_a_sticky_folder_what_others_have_put_there_is_not_followed(fake_host):
    folder = an_osd(fake_host)
    fake_host.files.nodes["7:0"] = (0, 0, 0o666)
    folder.chmod(0o1777)
    os.chown(folder / "block", OTHER, OTHER, follow_symlinks=False)
    (osd,) = osds.discover(fake_host.files, ())
    assert (osd.devices, osd.unresolved) == ((), ("block",))
    os.chown(folder / "whoami", OTHER, OTHER)
    assert found(fake_host)[0] == set()


# ---- what it hides


@root_only
def test_what_a_stranger_holds_stays_used_by_others_and_is_told(fake_host):
    folder = an_osd(fake_host)
    theirs = fake_host.root / "osd/osd.4"
    fake_host.osd(4, block="loop0")
    os.chown(theirs, OTHER, OTHER)
    fake_host.running(90, theirs, ["loop0"], uids=(OTHER,) * 4)
    host = host_of(fake_host)
    (drive,) = host.look()
    assert [use.osd_id for use in drive.uses] == [3]
    assert drive.foreign_uses == ("loop0 open for writing in ceph-osd (pid 90)",)
    (told,) = host.host_findings()
    assert (told.code, told.subject) == (FindingCode.UNKNOWN_LAYER, "ceph-osd")
    assert told.severity is Severity.INFO, "any user could raise a warning"
    assert "process 90 is called ceph-osd" in told.detail
    assert folder.exists()


def test_a_device_that_an_osd_holds_and_has_no_role_for_is_used_by_others(fake_host):
    fake_host.loop("loop1", "7:1", backing="/b")
    an_osd(fake_host, 4, 78, "loop2", "7:2")
    folder = fake_host.osd(3, block="loop2")
    fake_host.running(77, folder, ["loop2", "loop1"])
    seen = WriterSearch(fake_host.files, sleep=lambda _s: None).find(
        frozenset({(77, "7:2"), (78, "7:2")})
    )
    assert seen.by_number == {"7:1": ("open for writing in ceph-osd (pid 77)",)}


def test_one_that_only_says_it_is_an_osd_hides_no_device_of_the_real_one(fake_host):
    real = an_osd(fake_host)
    fake_host.running(78, a_second_folder(fake_host, "lies", "/nothing"), [])
    for running in (True, False):
        seen, _ = found(fake_host, str(real))
        assert seen == {(3, ("7:0",))}
        if running:
            (fake_host.root / "proc/77/comm").write_text("gone\n")


def test_of_two_that_say_they_are_one_osd_both_are_shown_and_neither_is_touched(fake_host):
    an_osd(fake_host)
    fake_host.loop("loop1", "7:1", backing="/b")
    second = a_second_folder(fake_host, "second", fake_host.root / "dev/loop1")
    fake_host.running(78, second, ["loop1"])
    drives = host_of(fake_host).look()
    said = ("several processes say that they are osd.3 (pids 77, 78)",)
    assert [(d.dev_name, d.foreign_uses) for d in drives] == [("loop0", said), ("loop1", said)]


# ---- those that run

def test_an_osd_counts_as_running_once_it_has_opened_its_folder_and_a_device(fake_host):
    folder = an_osd(fake_host)
    running, fds = osds.RunningOsds(fake_host.files), fake_host.root / "proc/77/fd"
    opened = {link.name: os.readlink(link) for link in fds.iterdir()}
    assert len(opened) == 2
    for link in fds.iterdir():
        link.unlink()
    assert running.now() == frozenset()
    for name, target in opened.items():
        assert running.now() == frozenset(), "it is still starting"
        (fds / name).symlink_to(target)
    assert running.now() == {"77"}
    fake_host.running(78, folder, ["loop0"], uids=(1000,) * 4)
    assert running.now() == {"77"}, "whoever calls himself so is a stranger"
    (fake_host.root / "proc/77/comm").unlink()
    assert running.now() == frozenset()


# ---- real processes

CALLED_OSD = """
import ctypes, os, sys
def become(uid):
    os.setgroups([]); os.setgid(uid); os.setuid(uid)
    ctypes.CDLL(None).prctl(15, b"ceph-osd", 0, 0, 0)
def wait():
    print("ready", flush=True); sys.stdin.read()
"""


@contextmanager
def process(script, *words, before=()):
    child = subprocess.Popen(
        [*before, sys.executable, "-c", CALLED_OSD + textwrap.dedent(script), *map(str, words)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )
    try:
        assert child.stdout.readline() == "ready\n"
        yield child
    finally:
        child.kill()
        child.communicate()


def in_time(call):
    """What a call returns within ten seconds."""
    answers = []
    thread = threading.Thread(target=lambda: answers.append(call()), daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive(), "it hangs"
    return answers[0]


STRANGER = """
folder, uid, kind, target = sys.argv[1:]
os.makedirs(folder); os.chdir(folder)
open("fsid", "w").close(); held = open("fsid")
if kind == "pipe":
    os.mkfifo("whoami"); os.mkfifo("ceph_fsid")
else:
    os.symlink(target, "whoami")
os.symlink("/dev/null", "block")
for name in (".", *os.listdir(".")):
    os.chown(name, int(uid), int(uid), follow_symlinks=False)
become(int(uid)); wait()
"""


@root_only
@pytest.mark.parametrize("uid", [OTHER, 0])
def test_a_pipe_in_a_folder_that_a_process_names_holds_nobody_up(tmp_path, uid):
    """Of another user, and of root, as who is root in a container."""
    with process(STRANGER, tmp_path / "osd", uid, "pipe", "") as child:
        told = []
        seen = in_time(lambda: osds.discover(HostFiles(), (), told.append))
    assert child.pid not in {osd.pid for osd in seen}
    assert any(f"process {child.pid} " in why for why in told) is (uid == OTHER)


@root_only
@pytest.mark.parametrize("uid", [OTHER, 0])
def test_a_device_that_a_link_of_the_folder_names_is_not_opened(tmp_path, uid):
    ours, theirs = os.openpty()
    path = os.ttyname(theirs)
    os.close(theirs)
    os.write(ours, b"7\n")
    with process(STRANGER, tmp_path / "osd", uid, "link", path) as child:
        seen = in_time(lambda: osds.discover(HostFiles(), ()))
    assert child.pid not in {osd.pid for osd in seen}
    theirs = os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    assert os.read(theirs, 9) == b"7\n", "root has read it"
    for fd in (ours, theirs):
        os.close(fd)


CONTAINER = """
device, folder, uid, inside = sys.argv[1:]
from subprocess import check_call as run
root = folder + "/root"
os.makedirs(root)
run(["mount", "-t", "tmpfs", "tmpfs", root])
for name in ("dev", "var/osd", "old"):
    os.makedirs(f"{root}/{name}")
run(["mount", "--bind", "/dev", f"{root}/dev"])
os.chdir(root)
held = os.open(device, os.O_RDWR)
# as pivot_root(8) leaves it; the fallback is for kernels that do not pivot a rootfs
if inside == "pivot":
    assert ctypes.CDLL(None, use_errno=True).syscall(155, b".", b"old") == 0
os.chroot("."); os.chdir("/")
os.chmod("var/osd", 0o1777)
for name, text in (
    ("fsid", "x"), ("whoami", "12\\n"), ("ceph_fsid", "a" * 36 + "\\n"),
):
    with open(f"/var/osd/{name}", "w") as file:
        file.write(text)
os.symlink("../../dev/../" + device, "/var/osd/block")
for name in ("", *os.listdir("/var/osd")):
    os.chown("/var/osd/" + name, int(uid), int(uid), follow_symlinks=False)
fsid = open("/var/osd/fsid")
become(int(uid)); wait()
"""


@pytest.mark.slow
@root_only
@pytest.mark.parametrize("uid", [0, 167, 64045])
@pytest.mark.parametrize("inside", ["pivot", "chroot"])
def test_an_osd_in_a_container_is_found_through_its_own_root(loop_device, tmp_path, uid, inside):
    name, _ = loop_device
    device = by_name(HostFiles(), name)
    before = ["unshare", "--mount", "--propagation", "private"]
    with process(
        CONTAINER, f"/dev/{name}", tmp_path / "c", uid, inside, before=before
    ) as child:
        told = []
        seen = {osd.pid: osd for osd in osds.discover(HostFiles(), (), told.append)}
        osd = seen.get(child.pid)
        assert osd is not None, told
        assert (osd.osd_id, osd.devices) == (12, ((Role.BLOCK, device.number),))
        by_osds = frozenset({(child.pid, device.number)})
        search = WriterSearch(HostFiles())
        assert device.number not in search.find(by_osds).by_number
        assert device.number in search.find().by_number


@root_only
def test_an_osd_that_starts_after_a_report_is_told_by_a_glance(loop_device, tmp_path):
    options = argparse.Namespace(host_root="/", run_dir=str(tmp_path), state_dir=str(tmp_path))
    changes = linux_changes(options)
    before = changes.glance()
    with process(
        CONTAINER, f"/dev/{loop_device[0]}", tmp_path / "c", 167, "chroot",
        before=["unshare", "--mount", "--propagation", "private"],
    ) as child:
        _, running = changes.glance()
        assert running - before[1] == {str(child.pid)}


@root_only
def test_the_nodes_of_real_devices_say_who_may_open_them(loop_device):
    name, _ = loop_device
    files, number = HostFiles(), by_name(HostFiles(), loop_device[0]).number
    trust = osds.trust_of(files)
    was = os.stat(f"/dev/{name}")
    try:
        for uid, gid, mode, guarded in (
            (0, 0, 0o660, True), (167, 167, 0o660, True), (OTHER, 0, 0o600, False),
            (0, OTHER, 0o660, False), (0, 0, 0o664, False),
        ):
            os.chown(f"/dev/{name}", uid, gid)
            os.chmod(f"/dev/{name}", mode)
            assert trust.guarded(files, number) is guarded, (uid, gid, mode)
    finally:
        os.chown(f"/dev/{name}", was.st_uid, was.st_gid)
        os.chmod(f"/dev/{name}", stat.S_IMODE(was.st_mode))
    assert not trust.guarded(files, "250:12345")
