"""A fake host: trees that look like /sys, /dev and /proc, built by what a test needs."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_IFBLK
from typing import Dict, Optional, Tuple

import pytest
from examples import examples
from hypothesis import settings
from loop_devices import loop_on
from process_bench import mgr_of
from shelf import Shelf
from sim_drives import Probe
from switching_search import forget_histories
from wcache_probe.linux.block.foreign import INITIAL_PID_NAMESPACE
from wcache_probe.linux.block.host_files import HostFiles
from wcache_probe.linux.host import LinuxDriveHost

settings.register_profile("wcache", examples())
settings.load_profile("wcache")


@dataclass(frozen=True)
class FakeFiles(HostFiles):
    """Device nodes are plain files here; their numbers stand in a table."""

    numbers: Dict[str, str] = field(default_factory=dict)
    # owner, group and mode of nodes that are not as udev makes them
    nodes: Dict[str, Tuple[int, int, int]] = field(default_factory=dict)

    def number_of_fd(self, fd: int) -> Optional[str]:
        return self.number_of_path(os.readlink(f"/proc/self/fd/{fd}"))

    def number_of_path(self, path: str) -> Optional[str]:
        return self.numbers.get(os.path.realpath(path))

    def node_of(self, number: str) -> os.stat_result:
        uid, gid, mode = self.nodes.get(number, (0, 0, 0o660))
        return os.stat_result((S_IFBLK | mode, 0, 0, 1, uid, gid, 0, 0, 0, 0))


class AllPrepared:
    """A host on which `prepare` named every drive."""

    journal_lost = ""

    def refusal(self, wwid):
        return ""


class FakeHost:
    """Builds the trees; `files` reads them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("sys/block", "sys/class/block", "sys/dev/block", "dev", "proc/self"):
            (root / name).mkdir(parents=True)
        (root / "proc/self/mountinfo").write_text("")
        (root / "proc/swaps").write_text("Filename Type Size Used Priority\n")
        self.files = FakeFiles(
            str(root / "sys"), str(root / "dev"), str(root / "proc"), str(root / "run"),
            str(root / "etc"), numbers={},
        )
        self.link("proc/self/ns/pid", Path(INITIAL_PID_NAMESPACE))

    boot_pins = AllPrepared

    def write(self, path: str, text: str) -> Path:
        """A file below the root, with its folders."""
        full = self.root / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(text)
        return full

    def link(self, path: str, target: Path) -> None:
        full = self.root / path
        full.parent.mkdir(parents=True, exist_ok=True)
        if not full.is_symlink():
            full.symlink_to(target)

    def device(
        self, name, number, *, view="write back", parent=None, below=(), dm_uuid=None,
        bus="virtual", size=2048, marker="", rotational=0, fua=0,
    ):
        """A block device; `below` are names of its slaves, `parent` makes it a partition."""
        base = f"sys/devices/{bus}/block"
        folder = f"{base}/{parent}/{name}" if parent else f"{base}/{name}"
        self.write(f"{folder}/dev", f"{number}\n")
        self.write(f"{folder}/size", f"{size}\n")
        self.write(f"{folder}/stat", "9 0 72 1 11 0 88 2 0 3 3 0 0 0 0 7 5\n")
        real = self.root / folder
        if parent:
            self.write(f"{folder}/partition", "1\n")
        else:
            self.write(f"{folder}/queue/write_cache", f"{view}\n")
            self.write(f"{folder}/queue/fua", f"{fua}\n")
            self.write(f"{folder}/queue/rotational", f"{rotational}\n")
            self.link(f"sys/block/{name}", real)
        for child in ("slaves", "holders"):
            (real / child).mkdir(exist_ok=True)
        if dm_uuid is not None:
            self.write(f"{folder}/dm/uuid", dm_uuid)
        if marker:
            (real / marker).mkdir()
        self.link(f"sys/class/block/{name}", real)
        self.link(f"sys/dev/block/{number}", real)
        for slave in below:
            slave_folder = (self.root / "sys/class/block" / slave).resolve()
            (real / "slaves" / slave).symlink_to(slave_folder)
            (slave_folder / "holders" / name).symlink_to(real)
        node = self.write(f"dev/{name}", "")
        self.files.numbers[str(node)] = number
        return real

    def loop(self, name, number, backing="/backing", **more):
        """A loop device."""
        real = self.device(name, number, **more)
        folder = real.relative_to(self.root)
        self.write(f"{folder}/loop/backing_file", f"{backing}\n")
        return real

    def disk(self, name, number, **more):
        """A disk with a device folder; returns the folder of the device behind it."""
        real = self.device(name, number, **more)
        (real / "device").mkdir()
        return real

    def set_view(self, name, view):
        """What the kernel believes of a device, from now on."""
        (self.root / "sys/class/block" / name / "queue/write_cache").write_text(f"{view}\n")

    def scsi_disk(
        self, name, number, *, hctl="0:0:0:0", driver="virtio_scsi", vendor="VEND",
        path="host0", **more,
    ):
        """A disk of the SCSI disk driver, in its target, on its host."""
        target = "target" + hctl.rpartition(":")[0]
        scsi = f"sys/devices/pci0/{path}/{target}/{hctl}"
        host = next(part for part in path.split("/") if part.startswith("host"))
        at_host = f"sys/devices/pci0/{path[: path.index(host) + len(host)]}"
        self.write(f"{at_host}/scsi_host/{host}/proc_name", f"{driver}\n")
        self.write(f"{scsi}/vendor", f"{vendor:8}\n")
        self.write(f"{scsi}/scsi_disk/{hctl}/cache_type", "write back\n")
        real = self.device(name, number, bus=f"pci0/{path}/{target}/{hctl}", **more)
        (real / "device").symlink_to(self.root / scsi)

    def replug_scsi(self, name):
        """The disk again, as a new one for the kernel: its sysfs folder is another one."""
        disks = (self.root / "sys/class/block" / name / "device/scsi_disk").resolve()
        (old,) = disks.iterdir()
        old.rename(disks / "old")
        old.mkdir()
        (disks / "old/cache_type").rename(old / "cache_type")
        (disks / "old").rmdir()

    def nvme(self, controller, name, number, transport="pcie"):
        """A namespace of an NVMe controller."""
        folder = f"sys/devices/pci0/nvme/{controller}"
        self.write(f"{folder}/dev", "240:0\n")
        self.write(f"{folder}/transport", f"{transport}\n")
        real = self.device(name, number)
        (real / "device").symlink_to(self.root / folder)
        (real / "wwid").write_text(f"nvme.1b36-{name}\n")

    def nvme_subsystem(self, number, name, paths, cntlid=None):
        """A namespace with native multipath: `paths` has the counters of each controller.

        With a `cntlid` its paths are named by that, and not by the controller's instance.
        """
        subsystem = f"sys/devices/virtual/nvme-subsystem/nvme-subsys{name[4]}"
        for controller, stat in paths.items():
            hidden = name.replace("n1", f"c{cntlid or controller[4:]}n1")
            folder = f"sys/devices/pci0/nvme/{controller}/{hidden}"
            self.write(f"{folder}/stat", stat)
            self.write(f"{folder}/queue/write_cache", "write back\n")
            self.write(f"{folder}/queue/fua", "1\n")
            link = self.root / subsystem / controller
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(self.root / "sys/devices/pci0/nvme" / controller)
        real = self.device(name, number)
        (self.root / subsystem).mkdir(parents=True, exist_ok=True)
        (real / "device").symlink_to(self.root / subsystem)
        return real

    def osd(self, osd_id, fsid="a" * 8 + "-0000-0000-0000-" + "b" * 12, **links):
        """An OSD's data folder; `links` are block, db, wal and the device each leads to."""
        folder = self.root / "osd" / f"osd.{osd_id}"
        self.write(f"osd/osd.{osd_id}/whoami", f"{osd_id}\n")
        self.write(f"osd/osd.{osd_id}/ceph_fsid", f"{fsid}\n")
        self.write(f"osd/osd.{osd_id}/fsid", "x\n")
        for role, device in links.items():
            link = "block" if role == "block" else f"block.{role}"
            (folder / link).symlink_to(self.root / "dev" / device)
        return folder

    def running(self, pid, folder, held, comm="ceph-osd", uids=None):
        """A process that holds an OSD's folder and block devices open."""
        self.process(pid, comm, held)
        self.run_by(pid, *[os.geteuid()] * 4 if uids is None else uids)
        (self.root / f"proc/{pid}/fd/3").symlink_to(folder / "fsid")

    def run_by(self, pid, *uids):
        """The real, effective, saved and file system's user of a process."""
        self.write(f"proc/{pid}/status", "Uid:\t" + "\t".join(map(str, uids)) + "\n")

    def process(self, pid, comm, held, flags="0100002"):
        """A process that holds block devices open, for writing unless the flags differ."""
        self.write(f"proc/{pid}/comm", f"{comm}\n")
        fds = self.root / f"proc/{pid}/fd"
        fds.mkdir(parents=True)
        (self.root / f"proc/{pid}/root").symlink_to("/")
        for fd, device in enumerate(held, 4):
            (fds / str(fd)).symlink_to(self.root / "dev" / device)
            self.write(f"proc/{pid}/fdinfo/{fd}", f"pos:\t0\nflags:\t{flags}\nmnt_id:\t5\n")

    def hide_processes(self):
        """As in a container with a pid namespace of its own."""
        (self.root / "proc/self/ns/pid").unlink()
        self.link("proc/self/ns/pid", Path("pid:[4026532999]"))

    def drive_host(self, **more):
        """The `DriveHost` of a real host over these trees; its drives are in the boot rule."""
        given = {"boot_pins": self.boot_pins, "osd_data_globs": [self.osd_glob], **more}
        return LinuxDriveHost(files=self.files, **given)

    @property
    def osd_glob(self) -> str:
        return str(self.root / "osd" / "*")


@pytest.fixture(scope="session")
def new_host():
    """Makes a fake host in a folder that is empty or not there."""
    return FakeHost


@pytest.fixture(autouse=True)
def evidence_of_the_test_alone(tmp_path, monkeypatch):
    """What a host remembers where a test names no folder; not this machine's."""
    monkeypatch.setattr("wcache_probe.linux.host.STATE_DIR", str(tmp_path / "evidence-of-tests"))


@pytest.fixture(scope="module", autouse=True)
def _histories():
    """What a module's searches have learned goes with it."""
    yield
    forget_histories()


@pytest.fixture
def probe():
    """A probe on simulated drives, in this process."""
    return Probe()


@pytest.fixture
def mgr(probe):
    """The mgr in the folder of a probe that is a process."""
    return mgr_of(probe)


@pytest.fixture
def fake_host(tmp_path):
    return FakeHost(tmp_path.resolve())


@pytest.fixture
def loop_device(tmp_path):
    """A real loop device over a sparse file, as (name, backing file); skips where none is."""
    with loop_on(tmp_path / "backing.img", 16 * 2**20) as name:
        yield name, tmp_path / "backing.img"


@pytest.fixture
def shelf(fake_host):
    return Shelf(fake_host)
