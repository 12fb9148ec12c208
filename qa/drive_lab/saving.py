"""A drive that saves its mode page, in a lab's guest: QEMU's own drives save nothing.

The guest's kernel has it from a program (``guest/saving_drive.py``) by target_core_user, as a
disk of its own adapter tcm_loop: the sd driver is the real one.
"""

from __future__ import annotations

import json
from typing import Any

from .agent import GuestAgent, GuestProcess
from .disk import Disk, find_disk
from .lab import Lab

PROGRAM = "drive_lab.guest.saving_drive"
TARGET = "/sys/kernel/config/target"
SIZE_BYTES = 131072 * 512

SET_UP = """
modprobe -a target_core_user tcm_loop
mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
mkdir -p {device} {folder}
truncate --size={size} {folder}/medium
config="dev_config=wcache/{name}/{name},dev_size={size},hw_block_size=512"
echo "$config,max_data_area_mb=16,nl_reply_supported=-1" > {device}/control
echo 1 > {device}/attrib/tmr_notification
echo 1 > {device}/enable
mkdir -p {port}/lun/lun_0
echo {nexus} > {port}/nexus
"""
PLUG = "ln -s {device} {port}/lun/lun_0/{name}"
UNPLUG = "rm {port}/lun/lun_0/{name}"
REMOVE = """
rmdir {port}/lun/lun_0 {port} $(dirname {port}) {device}
rm -r {folder}
"""


class SavingDrive:
    """One such drive; its state without power is a folder in the guest."""

    def __init__(self, lab: Lab, name: str = "save") -> None:
        self._lab = lab
        self.name = name
        self.folder = f"/var/lib/saving-{name}"
        serial = name.encode()[-4:].rjust(4, b"0")
        self._wwn = "5000c500" + serial.hex()
        self._words = {
            "name": name, "folder": self.folder, "size": SIZE_BYTES,
            "device": f"{TARGET}/core/user_0/{name}",
            "port": f"{TARGET}/loopback/naa.6001405{serial.hex()}0/tpgt_1",
            "nexus": f"naa.6001405{serial.hex()}1",
        }
        self._process: GuestProcess | None = None
        self._sh(f"mkdir -p {self.folder}")
        self.keep(wce=True)
        self._sh(SET_UP)

    @property
    def _guest(self) -> GuestAgent:
        """Of this boot of the guest."""
        return self._lab.guest

    def _sh(self, script: str) -> str:
        return self._guest.sh(script.format(**self._words)).checked()

    def kept(self) -> dict[str, Any]:
        """What it has saved: ``wce``."""
        shown = self._guest.run(["cat", f"{self.folder}/kept.json"]).checked()
        found: dict[str, Any] = json.loads(shown)
        return found

    def keep(self, **words: bool) -> None:
        """Make it another drive: ``wce`` is what it has saved, ``fails_mode_sense`` how it is."""
        text = json.dumps(words)
        self._guest.run(["tee", f"{self.folder}/kept.json"], stdin=text).checked()

    def power_on(self) -> Disk:
        """Start it, and have the kernel find it."""
        self._sh("rm -f {folder}/log")
        self._process = self._guest.spawn(
            ["/usr/bin/python3", "-B", "-m", PROGRAM, self.name, self.folder],
            env={"PYTHONPATH": "/wcache/qa"},
        )
        self._sh("until [ -e {folder}/log ]; do sleep 0.1; done; " + PLUG)
        return self.disk()

    def power_on_after_a_boot(self) -> Disk:
        """As `power_on`, in a guest whose kernel is a new one."""
        self._process = None
        self._sh(SET_UP)
        return self.power_on()

    def flushes(self) -> int:
        """How many SYNCHRONIZE CACHE commands have reached it since its power is on."""
        return int(self._sh("grep -c ^synchronize {folder}/log || :"))

    def disk(self) -> Disk:
        """As the guest sees it."""
        return Disk(self._guest, find_disk(self._guest, [self._wwn], self.name))

    def power_off(self) -> None:
        """The plug is pulled: all that it has not saved or written out is gone."""
        assert self._process is not None
        pid, self._process = self._process.pid, None
        self._guest.sh(f"kill -USR1 {pid}").checked()
        self._sh(UNPLUG)
        self._guest.sh(f"kill -9 {pid}").checked()

    def remove(self) -> None:
        """Take it out of the guest's kernel."""
        if self._process is not None:
            self.power_off()
        self._sh(REMOVE)
