"""A host whose files say what an input wants: /sys, /proc, /etc, /boot, a probe's own folders."""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import re
import shutil
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from model_drives import ModelScsi
from prepare_bench import given
from wcache.core.drive.journal import JournalEntry
from wcache.core.errors import WcacheError
from wcache.core.host_report import Disobedience, PowerCut, ToggleProof
from wcache.core.model import CacheMode
from wcache_probe import safe_files
from wcache_probe.commands.restore import RestoreRequests, catches, is_stopped
from wcache_probe.evidence import DISOBEYED, POWER_CUT, PROOF, EvidenceFolder
from wcache_probe.journal.journal_file import MATRIX, StateFolder
from wcache_probe.linux import drives_alone, set_up
from wcache_probe.linux.block import foreign, osds
from wcache_probe.linux.block.foreign import WriterSearch
from wcache_probe.linux.block.host_files import kept_in_ram
from wcache_probe.linux.block.options import bcaches_on, values_on
from wcache_probe.linux.block.sysfs import BlockDevice, by_name, standing_on
from wcache_probe.linux.glance import glance
from wcache_probe.linux.host import LinuxDriveHost
from wcache_probe.linux.persistence import foreign_rules, udev_rule
from wcache_probe.linux.persistence.appearing import Appearing
from wcache_probe.linux.persistence.images import find_images
from wcache_probe.linux.persistence.preparation import RECORD_NAME, BootRecord, Preparation
from wcache_probe.linux.persistence.prepare import in_container
from wcache_probe.linux.persistence.udev_rule import RuleFolder
from wcache_probe.linux.transports.classify import Switches
from wcache_probe.rados_link import fsid_in
from wcache_sim.settings_file import Settings, SettingsFile

from .target import Broken, examples, one_line

WWID = "naa.5000c50000000001"
DEBUG = "rate:\t\t4.0k/sec\ndirty:\t\t1.1G\ntarget:\t\t10.2G\nproportional:\t-8.0k\n"
CORE, NVMET = "sys/kernel/config/target/core", "sys/kernel/config/nvmet/subsystems/nqn.x"
TEXTS = {
    "etc/ceph/ceph.conf": "[global]\nfsid = 11111111-2222-3333-4444-555555555555 # ours\n",
    "proc/meminfo": "MemTotal:       16384000 kB\nMemFree: 1 kB\nMemAvailable: 8192000 kB\n",
    "proc/77/cgroup": "0::/pods/osd1\n4:memory:/docker/a\n",
    "proc/77/status": "Name:\tceph-osd\nUid:\t0\t0\t0\t0\nNSpid:\t77\nTHP_enabled:\t1\n",
    "proc/1/environ": "PATH=/bin\0container=lxc\0",
    "proc/cmdline": "BOOT_IMAGE=/boot/vmlinuz-6.1.0 root=/dev/sda1 initrd=initrd.img-6.1.0 ro\n",
    "proc/swaps": "Filename Type Size Used Priority\n/dev/sda1 partition 8 0 -2\n",
    "proc/sys/kernel/osrelease": "6.1.0\n",
    "proc/sys/kernel/random/boot_id": "c0ffee\n",
    "boot/config-6.1.0": 'CONFIG_BLK_DEV_INITRD=y\nCONFIG_INITRAMFS_SOURCE=""\n',
    "etc/passwd": "root:x:0:0::/root:/bin/sh\nceph:x:167:167::/:/sbin/nologin\n",
    "etc/group": "disk:x:6:\nceph:x:167:\n",
    "cgroup/pods/memory.max": "8000000000\n",
    "cgroup/pods/osd1/memory.max": "2000000000\n",
    "cgroup/pods/osd1/memory.current": "1500000000\n",
    "cgroup/pods/osd1/memory.stat": "anon 5\ninactive_file 300000000\nactive_file 2\n",
    "cgroup/memory/docker/a/memory.limit_in_bytes": "3000000000\n",
    f"{CORE}/iblock_0/a/info": "  Max: 0\n iBlock device: dm-1\n  Major: 252 Minor: 1  CLAIMED\n",
    f"{CORE}/iblock_0/a/udev_path": "/dev/sda1\n",
    f"{CORE}/fileio_1/b/info": "TCM FILEIO ID: 0  File: /dev/sda  Size: 9\n",
    f"{NVMET}/namespaces/1/device_path": "/dev/dm-1\n",
    "run/udev/data/b8:1": "S:disk/by-id/x\nE:ID_FS_TYPE=zfs_member\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n",
    "sys/devices/system/cpu/cpufreq/policy0/scaling_governor": "powersave\n",
    "sys/devices/system/cpu/cpufreq/policy0/scaling_driver": "intel_pstate\n",
    "sys/devices/system/cpu/cpufreq/policy0/energy_performance_preference": "power\n",
    "etc/udev/rules.d/99-a.rules": 'KERNEL=="sd*", RUN+="/opt/off.sh %k"\n',
    "etc/systemd/system/a.service": "ExecStart=/bin/sh -c 'off-now; x'\n",
    "etc/hdparm.conf": "\twrite_cache = off\n",
    "etc/tuned/active_profile": "mine\n",
    "etc/tuned/mine/tuned.conf": "[main]\ninclude=other, third\n",
    "opt/off.sh": "#!/bin/sh\nfor d in /dev/sd?; do\n  hdparm \\\n -W 0 $d\ndone\n",
    "usr/local/sbin/off-now": "sdparm --clear=WCE /dev/$1\n",
}
MOUNTS = (
    "29 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
    "30 29 0:9 / {root}/state rw - tmpfs none rw,size=1k\n"
    "31 29 0:50 / /mnt\\040x rw - overlay overlay rw,lowerdir=/a:/b,upperdir={root}/up,workdir=/w\n"
)


def _fake_host() -> ModuleType:
    path = Path(__file__).resolve().parents[2] / "osd_probe/tests/conftest.py"
    spec = importlib.util.spec_from_file_location("probe_conftest", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class Host:
    """The trees, and what stands over their files while an input is read."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="fuzz-host-")).resolve()
        atexit.register(self._clear, os.getpid())
        self.over: Dict[str, bytes] = {}
        self.said: List[str] = []
        self.seen: Set[str] = set()
        host = self.fake = _fake_host().FakeHost(self.root)
        host.scsi_disk("sda", "8:0")
        bus = "pci0/host0/target0:0:0/0:0:0:0"
        host.write(f"sys/devices/{bus}/wwid", f"{WWID} \n")
        host.device("sda1", "8:1", parent="sda", bus=bus)
        host.device("dm-0", "252:0", below=["sda1"], dm_uuid="LVM-osd")
        host.device("dm-1", "252:1", below=["sda1"], dm_uuid="LVM-other")
        host.nvme("nvme0", "nvme0n1", "259:0")
        host.scsi_disk("sdc", "8:32", hctl="0:1:0:0", driver="hpsa", path="host1")
        raid = "sys/devices/pci0/host1/target0:1:0/0:1:0:0"
        for name, text in (("raid_level", "RAID 1"), ("vpd_pg80", "\0\x80\0\4SER1")):
            host.write(f"{raid}/{name}", text)
        (self.root / "sys/class/block/nvme0n1/bcache").mkdir()
        hdd = host.disk("sdb", "8:16", marker="bcache")
        (hdd / "bcache/cache_mode").write_text("writethrough [writeback] none\n")
        for name, text in (("scheduler", "none [mq-deadline]"), ("nr_requests", "256"),
                           ("read_ahead_kb", "128"), ("wbt_lat_usec", "75000")):
            (hdd / "queue" / name).write_text(f"{text}\n")
        top = host.device("bcache0", "252:9", below=("sdb", "nvme0n1"), marker="bcache")
        for name, text in (
            ("cache_mode", "writethrough [writeback] none"), ("sequential_cutoff", "4.0M"),
            ("dirty_data", "1.1G"), ("writeback_rate_debug", DEBUG), ("state", "dirty"),
            ("writeback_consider_fragment", "1"), ("writeback_percent", "10"),
        ):
            (top / "bcache" / name).write_text(f"{text}\n")
        host.loop("loop3", "7:3", backing="/dev/sda1")
        host.osd(1, block="dm-0")
        host.osd(2, block="bcache0", db="nvme0n1")
        host.running(77, self.root / "osd/osd.1", ["dm-0"])
        host.process(300, "tgtd", ["sda"])
        for path, text in TEXTS.items():
            host.write(path, text)
        host.write("proc/self/mountinfo", MOUNTS.format(root=self.root))
        (self.root / "sys/module/zfs").mkdir(parents=True)
        given(host, 0)
        self._own_folders()
        self._reader = safe_files.read_handle
        safe_files.read_handle = self._read
        self.note()

    def _clear(self, pid: int) -> None:
        if os.getpid() == pid:  # and no child of it
            shutil.rmtree(self.root, ignore_errors=True)

    def _own_folders(self) -> None:
        """What the probe itself has written."""
        self.state = str(self.root / "state")
        self.requests = RestoreRequests(self.state)
        self.journal = StateFolder(self.state, str(self.root / "run"), lambda fd: None)
        for path, cls in (
            ("journal/lease%2Fd.json", JournalEntry), (f"evidence/{PROOF}a.json", ToggleProof),
            (f"evidence/{DISOBEYED}a.json", Disobedience), (RECORD_NAME, BootRecord),
            (f"evidence/{POWER_CUT}a.json", PowerCut), ("settings", Settings),
        ):
            self.fake.write(f"state/{path}", json.dumps(examples(cls)[0]))
        self.fake.write("state/restore.answer", '{"id": "x", "lines": [[true, "restored"]]}')
        self.fake.write("state/restore.request", "x")
        self.fake.write("state/lock", MATRIX)
        self.fake.write("state/probe_id", "0123456789abcdef" * 2 + "\n")
        self.fake.write(f"etc/udev/rules.d/{udev_rule.file_name(WWID)}", "")
        boot_rule = udev_rule.boot_rule((WWID,))
        self.fake.write(f"etc/udev/rules.d/{udev_rule.FILE_NAME}", boot_rule)
        Appearing(str(self.root / "run")).begin("sda", "a", CacheMode.WRITE_THROUGH)

    def _read(self, handle: int, bytes_max: int) -> Optional[bytes]:
        path = os.readlink(f"/proc/self/fd/{handle}")
        found = self._reader(handle, bytes_max)
        self.seen.add(path)
        for name, text in self.over.items():
            if path.endswith(name):
                return text[:bytes_max]
        return found

    def seeds(self) -> List[bytes]:
        """Every file of the host as it is: all in one, and each of the longer ones."""
        files = [
            (str(path.relative_to(self.root)), path.read_bytes())
            for path in sorted(self.root.rglob("*")) if path.is_file() and not path.is_symlink()
            and not str(path.relative_to(self.root)).startswith("dev/")
        ]
        return [record(dict(files)), *(record({name: text}) for name, text in files if text)]

    def readers(self) -> List[Callable[[], Any]]:
        """All that is read of a host and of the probe's folders; the last is most of it at once."""
        root, files = str(self.root), self.fake.files
        rules = RuleFolder(f"{root}/etc/udev/rules.d", command="/usr/bin/wcache-probe")
        preparation = Preparation(root, self.state, files)
        evidence = EvidenceFolder(self.state, say=self.said.append)
        disks = [by_name(files, name) for name in ("sda", "sdb", "sdc", "nvme0n1", "loop3", "dm-0")]

        def whole() -> Any:
            host = LinuxDriveHost(
                files=files, osd_data_globs=[self.fake.osd_glob], boot_pins=preparation.look,
                switches=Switches(scsi=ModelScsi()), rules=rules, evidence=evidence,
                sleep=lambda _seconds: None, find_foreign_rules=lambda: foreign_rules.find(root),
            )
            return [host.look(), host.host_findings(), host.disks()]

        def probe_id() -> str:
            found = self.journal.probe_id()
            if not re.fullmatch(r"[0-9a-f]{32}", found):
                raise Broken(f"a probe's id of {found[:300]!r}")
            return found

        def running() -> Tuple[osds.OsdDevices, ...]:
            return tuple(osds.discover(files, [self.fake.osd_glob], self.said.append))

        def of(device: BlockDevice) -> Any:
            switch = Switches(scsi=ModelScsi()).of(device)
            with suppress(WcacheError, OSError):  # a file is no loop device
                switch.identify(device)
            return [
                bcaches_on(device), drives_alone._serial(device), values_on(device),
                device.counters(1), device.kernel_view,
                device.fua, device.rotational, device.size_bytes, device.wwid, device.kind,
                standing_on(device), set_up.of_drive(files, device.name, ()), switch.transport,
            ]

        known = running()
        return [
            *(lambda device=device: of(device) for device in disks), running, rules.standing,
            lambda: foreign.find(files, {}), WriterSearch(files, sleep=lambda _s: None).find,
            lambda: glance(files.sys, root, ()), lambda: files.boot_id,
            lambda: in_container(root, {}),
            lambda: [is_stopped(os.getpid()), catches(os.getpid())],
            lambda: rules.mode(WWID), lambda: rules.pins(WWID),
            self.journal.journal.read, self.journal.program, probe_id, evidence.proofs,
            evidence.power_cuts, evidence.disobeyed, self.requests.pending,
            lambda: self.requests.wait("x", 0.1, lambda: True, lambda _seconds: None),
            lambda: preparation.booted(find_images(root)), preparation.record, preparation.note,
            lambda: fsid_in(f"{root}/etc/ceph/ceph.conf"), lambda: foreign_rules.find(root),
            lambda: kept_in_ram(files, self.state, root),
            lambda: set_up.rounded(set_up.memory_of(files, known, f"{root}/cgroup")),
            lambda: set_up.of_host(files, known),
            lambda: [*Appearing(f"{root}/run", lambda: 4e9).missed()],
            lambda: SettingsFile(f"{root}/state/settings").news(), whole,
        ]

    def look(self) -> bool:
        """Everything that reads one of the files, and of a few files all at once."""
        chosen = [
            reader for reader, paths in zip(self.all, self.reads)
            if any(path.endswith(name) for path in paths for name in self.over)
        ]
        if len(self.over) < 3 and self.all[-1] in chosen:
            chosen.remove(self.all[-1])  # its parts are quicker
        for read in chosen:
            try:
                read()
            except WcacheError as error:
                one_line(error.line())
        for line in self.said:
            one_line(line)
        self.said.clear()
        return bool(chosen)

    def note(self) -> None:
        """Which reader reads which files."""
        self.all = self.readers()
        self.reads: List[Set[str]] = []
        for read in self.all:
            self.seen.clear()
            read()
            self.reads.append({*self.seen})


def record(files: Dict[str, bytes]) -> bytes:
    """An input: what some files hold."""
    return b"\0\0".join(name.encode() + b"\n" + text for name, text in files.items())


@cache
def host() -> Host:
    """Built once, where it is first needed."""
    return Host()


def look(data: bytes) -> Any:
    """Files with other contents than the host's."""
    it = host()
    for part in data.split(b"\0\0"):
        name, newline, text = part.partition(b"\n")
        if newline and len(name) > 2:
            it.over[os.fsdecode(name)] = text
    try:
        return it.look()
    finally:
        it.over.clear()
