"""The lab of the power cuts: the guest, a probe, a volume and a writer for each drive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

# what the tests of the lab do to a probe; that of each drive has a journal of its own
from lab_bench import Bench
from probe_bench import ProbeOf
from wcache.core.model import CacheMode

from ..disk import Disk
from ..forked_probe import ProbeForks
from ..lab import Lab
from ..machine import MachineSpec
from ..processes import LabError
from .plan import RoundPlan
from .volumes import Volume
from .writer import Order, Writer, Writing

DRIVE_FILE = Path(__file__).resolve().parent / "drives.toml"
BACK, THROUGH = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH


class Rig:
    """A lab whose drives all have a volume; a context manager.

    What is known of the guest is forgotten at each boot.
    """

    def __init__(self, release: int) -> None:
        self.lab = Lab(DRIVE_FILE, release=release, machine=MachineSpec(memory_mib=1536))
        self.bench = Bench(self.lab)
        self.forks = ProbeForks(self.lab)
        self.writer = Writer(self.lab)
        self._probes: dict[str, Any] = {}
        self._volumes: dict[str, Volume] = {}
        self._disks: dict[str, Disk] = {}
        self.boots = 0

    def __enter__(self) -> Rig:
        self.lab.__enter__()
        return self

    def __exit__(self, *ended: Any) -> None:
        self.lab.close()

    # ---- the machine

    def booted(self) -> None:
        """Start what a boot ends."""
        self.boots += 1
        self._disks.clear()
        for probe in self._probes.values():
            probe.running = None
        self.writer.start()
        self.forks.start()
        self.writer.wait_ready()

    def prepare(self) -> None:
        """Have the host prepared: a boot rule pins the drives of OSDs as they appear.

        One rule names all of them, so each has an OSD before it is written.
        """
        names = [fitted.name for fitted in self.lab.drives]
        for name in names:
            self.probe(name).make_osd(self.disk(name).path)
        for name in names:
            self.probe(name).prepare()

    def warm_reboot(self) -> None:
        """Reset the guest: drives keep power, data and mode."""
        self.lab.reset()
        self.booted()

    def power_cycle(self) -> None:
        """Cut the power of guest and drives where that was not done, and boot."""
        self.lab.power_cut()
        for fitted in self.lab.drives:
            self.lab.drive(fitted.name).power_on()
        self.lab.power_on()
        self.booted()

    # ---- a drive

    def disk(self, name: str) -> Disk:
        """A drive in the guest, as it is named since the last boot."""
        if name not in self._disks:
            self._disks[name] = self.lab.drive(name).disk()
        return self._disks[name]

    def volume(self, plan: RoundPlan) -> Volume:
        """The volume of a round's drive."""
        return self._volumes.setdefault(plan.drive, Volume(self.lab, plan.drive))

    def probe(self, name: str) -> Any:
        """The probe of a drive."""
        if name not in self._probes:
            self._probes[name] = ProbeOf(self.bench, self.forks, name)
        return self._probes[name]

    def on(self, name: str) -> bool:
        """Whether a drive's cache is on, by QEMU's word."""
        return self.lab.drive(name).qmp_writeback()

    def begin(self, plan: RoundPlan) -> None:
        """The round's drive in its prior mode and safe, with no override and no journal."""
        probe, disk, volume = self.probe(plan.drive), self.disk(plan.drive), self.volume(plan)
        probe.end()
        volume.become(plan.stack, disk)
        folder = f"{probe.data}/osd.0"
        script = [
            volume.open_script(),
            "udevadm settle --timeout=20",
            _set_mode(disk, BACK),
            # a volume that was made while the kernel did not flush never does
            f"if {_walk(disk)} | grep -q 'write through'; then",
            volume.close_script(),
            volume.open_script(),
            ":; fi",
            f"rm -rf {probe.folders[1]}/journal {probe.folders[3]} {probe.data}",
            f"mkdir -p {folder}",
            f"echo {plan.drive} > {folder}/fsid",
            "udevadm settle --timeout=20",
        ]
        if plan.prior is THROUGH:
            script += [_set_mode(disk, THROUGH), "udevadm settle --timeout=20"]
        script.append(_walk(disk))
        views = self.lab.guest.sh("\n".join(script)).checked().split("\n")[:-1]
        probe.make_osd(volume.path(disk))
        layers = views[1:]
        want = "write back" if disk.is_nvme else plan.prior.value
        if views[0] != want or set(layers) - {"write back"} or self.on(plan.drive) is not (
            plan.prior is BACK
        ):
            raise LabError(f"{plan.drive} did not come into {plan.prior.value}: {views}")

    def lower(self, name: str) -> None:
        """Tell the kernel by hand that a drive whose cache is on needs no flush."""
        disk = self.disk(name)
        if disk.is_nvme:
            script = f"echo 'write through' > {disk.queue_file}"
        else:
            script = f"echo 'temporary write through' > {disk.cache_type_file}"
        self.lab.guest.sh(script).checked()
        if disk.kernel_view() != "write through" or not self.on(name):
            raise LabError(f"{name}: the kernel view is not lowered, there is no control")

    def flushes(self, name: str) -> bool:
        """Whether the kernel flushes a drive and everything on it."""
        disk = self.disk(name)
        views = self.lab.guest.sh(_walk(disk)).checked().split("\n")[:-1]
        return set(views) == {"write back"}

    def write(self, plan: RoundPlan, tag: int, first: int) -> Writing:
        """Start the round's writer; it numbers its writes from ``first``."""
        return self.writer.write(
            Order(
                path=self.volume(plan).path(self.disk(plan.drive)),
                fsid=f"{self.probe(plan.drive).data}/osd.0/fsid",
                tag=tag,
                first=first,
                seed=f"{tag} {first}",
                direct=plan.direct,
                batch_max=plan.batch_max,
                pause_s=plan.pause_s,
            )
        )

    def osd_restart(self, plan: RoundPlan) -> None:
        """Take the volume down and make it anew, as an OSD's activation does."""
        volume = self.volume(plan)
        script = volume.close_script() + volume.open_script()
        if script:
            # udev looks at what was just closed, and holds it open for that
            self.lab.guest.sh(f"udevadm settle --timeout=20\n{script}").checked()
        self.probe(plan.drive).make_osd(volume.path(self.disk(plan.drive)))

    def open(self, plan: RoundPlan) -> None:
        """Activate the volume after a boot."""
        volume = self.volume(plan)
        script = volume.open_script()
        if script:
            self.lab.guest.sh(script).checked()
        self.probe(plan.drive).make_osd(volume.path(self.disk(plan.drive)))


def _set_mode(disk: Disk, mode: CacheMode) -> str:
    """Shell that sets drive and kernel, with no override."""
    if disk.is_nvme:
        return (
            f"nvme set-feature {disk.controller} --feature-id=6 --value={int(mode is BACK)} "
            f">/dev/null; echo 'write back' > {disk.queue_file}"
        )
    # dash takes no pattern in a redirection
    return (
        f"for file in /sys/block/{disk.name}/device/scsi_disk/*/cache_type; do "
        f"echo '{mode.value}' > $file; done"
    )


def _walk(disk: Disk) -> str:
    """Shell that prints the kernel view of the disk, then of each layer above it."""
    return (
        f"{{ cat {disk.queue_file}; for a in /sys/block/{disk.name}/holders/*; do "
        '[ ! -e "$a" ] || { cat "$a/queue/write_cache"; for b in "$a"/holders/*; do '
        '[ ! -e "$b" ] || cat "$b/queue/write_cache"; done; }; done; }'
    )
