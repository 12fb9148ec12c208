"""A drive as the guest sees it now: its names, and what kernel and drive say of its cache."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Collection

from .agent import GuestAgent
from .processes import LabError

APPEAR_TIMEOUT_S = 300.0

# partitions' holders are listed with the partition
LAYERS = r"""
walk() {
    echo "$1 $(cat /sys/block/$1/queue/write_cache)"
    for holder in /sys/block/$1/holders/* /sys/block/$1/$1*/holders/*; do
        [ ! -e "$holder" ] || walk "${holder##*/}"
    done
}
walk "$1"
"""


@dataclass(frozen=True)
class Disk:
    """One disk of the guest; its names are good until it is unplugged or the guest reboots."""

    agent: GuestAgent
    path: str  # /dev/sda, /dev/nvme0n1

    @property
    def name(self) -> str:
        return self.path[len("/dev/") :]

    @property
    def queue_file(self) -> str:
        """Where the kernel shows what it believes of the cache."""
        return f"/sys/block/{self.name}/queue/write_cache"

    @property
    def is_nvme(self) -> bool:
        return self.name.startswith("nvme")

    @property
    def controller(self) -> str:
        """The NVMe controller's device: the feature belongs to it and not to a namespace."""
        if not self.is_nvme:
            raise LabError(f"{self.path} is no NVMe drive")
        return "/dev/" + self.name.rpartition("n")[0]

    @property
    def generic(self) -> str:
        """The SCSI generic node, such as ``/dev/sg0``."""
        return "/dev/" + self._list(f"/sys/block/{self.name}/device/scsi_generic")

    @property
    def cache_type_file(self) -> str:
        """The switch of the SCSI disk driver."""
        folder = f"/sys/block/{self.name}/device/scsi_disk"
        return f"{folder}/{self._list(folder)}/cache_type"

    def kernel_view(self) -> str:
        """``write back`` or ``write through``, as the disk's queue has it."""
        return kernel_view(self.agent, self.name)

    def layers(self) -> dict[str, str]:
        """The kernel's view of the disk and of every block device above it, by name."""
        shown = self.agent.run(["/bin/sh", "-c", LAYERS, "layers", self.name]).checked()
        pairs = (line.partition(" ") for line in shown.splitlines())
        return {name: view for name, _, view in pairs}

    def device_cache_on(self) -> bool:
        """What the drive itself reports, asked through a tool of its protocol."""
        if self.is_nvme:
            shown = self.agent.run(
                ["nvme", "get-feature", self.controller, "--feature-id=6"]
            ).checked()
            return int(shown.strip().rpartition(":")[2], 16) & 1 == 1
        # the first command after a MODE SELECT may meet a unit attention: ask again
        for _ in range(2):
            shown = self.agent.run(["sdparm", "--get=WCE", "--long", self.path]).stdout
            for line in shown.splitlines():
                words = line.split()
                if words[:1] == ["WCE"]:
                    return words[1] == "1"
        raise LabError(f"{self.path} does not report WCE")

    def set_cache_type(self, words: str) -> int:
        """Write to the driver's switch; return the exit code of the shell that did."""
        return self.agent.sh(f"echo '{words}' > {self.cache_type_file}").returncode

    def rescan(self) -> None:
        """Have the kernel look at the disk anew, cache mode included."""
        self.agent.sh(f"echo 1 > /sys/block/{self.name}/device/rescan").checked()

    def _list(self, folder: str) -> str:
        return self.agent.run(["ls", folder]).checked().split()[0]


def kernel_view(agent: GuestAgent, block_name: str) -> str:
    """What the kernel believes of any block device: ``sda``, ``dm-0``, ``md0``."""
    return agent.run(["cat", f"/sys/block/{block_name}/queue/write_cache"]).checked().strip()


FIND_DRIVES = r"""
for disk in /sys/block/sd* /sys/block/nvme*; do
    [ -e "$disk" ] || continue
    case "${disk##*/}" in nvme*c*) continue ;; esac  # a hidden path to a disk
    identity=$(cat "$disk/device/wwid" "$disk/device/serial" 2>/dev/null)
    echo "${disk##*/}" $identity
done | sed 's/naa\.//'
"""


def find_disk(agent: GuestAgent, identities: Collection[str], name: str) -> str:
    """Path of the disk that has one of these identities; waits for it."""
    deadline = time.monotonic() + APPEAR_TIMEOUT_S
    while True:
        listing = agent.run(["/bin/sh", "-c", FIND_DRIVES]).stdout
        for line in listing.splitlines():
            disk, _, identity = line.partition(" ")
            if any(word in identity.split() for word in identities):
                return f"/dev/{disk}"
        if time.monotonic() > deadline:
            raise LabError(f"drive {name} did not appear in the guest:\n{listing}")
        time.sleep(0.1)
