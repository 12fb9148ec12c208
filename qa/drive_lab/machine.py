"""The guest's hardware as QEMU's command line: disks behind the controllers they name."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Mapping, Sequence

from wcache.core.model import CacheMode, Transport
from wcache_sim.drive_schema import DriveModelSpec, Toggle
from wcache_sim.placement import PlacedDrive

from .images.booting_root import Initramfs
from .processes import LabError

AHCI_PORTS = 6
SAS_PORTS = 8

DRIVERS = {
    Transport.SCSI: ("virtio_scsi", "sd_mod", "sg"),
    Transport.SAS: ("mptsas", "sd_mod", "sg"),
    Transport.SATA: ("ahci", "sd_mod", "sg"),
    Transport.NVME: ("nvme",),
}


@dataclass(frozen=True)
class LabDrive:
    """One drive of the lab: a placed drive model, and the slot of its controller it is in."""

    placed: PlacedDrive
    slot: int  # among the drives of the same transport

    @property
    def name(self) -> str:
        return self.placed.name

    @property
    def spec(self) -> DriveModelSpec:
        return self.placed.spec

    @property
    def node(self) -> str:
        """QEMU's name of the backend, which outlives the device."""
        return f"node-{self.name}"

    @property
    def device(self) -> str:
        """QEMU's name of the device, which a hot unplug removes."""
        return f"dev-{self.name}"

    @property
    def hot_pluggable(self) -> bool:
        """QEMU's AHCI ports have no hot plug, unlike those of real machines."""
        return self.spec.transport is not Transport.SATA

    @property
    def on_at_power_on(self) -> bool:
        """Whether the drive starts with its write cache on."""
        cache = self.spec.cache
        return cache.present and cache.default is CacheMode.WRITE_BACK

    def device_option(self, cache_on: bool) -> str:
        """QEMU's device, as ``-device`` and the monitor's ``device_add`` take it."""
        spec = self.spec
        common = {
            "id": self.device,
            "drive": self.node,
            "serial": self.placed.serial,
            "write-cache": "on" if cache_on else "off",
        }
        if spec.transport is Transport.NVME:
            return _option("nvme", {"bus": _nvme_port(self.slot, 0), **common})
        common["rotation_rate"] = "7200" if spec.rotational else "1"
        common["wwn"] = self.placed.wwn
        if spec.transport is Transport.SATA:
            ahci, port = divmod(self.slot, AHCI_PORTS)
            place = {"bus": f"ahci{ahci}.{port}"}
            return _option(
                "ide-hd", {**place, "model": spec.model, "ver": spec.firmware[:8], **common}
            )
        bus = "vscsi.0" if spec.transport is Transport.SCSI else "sas.0"
        return _option(
            "scsi-hd",
            {
                "bus": bus,
                "scsi-id": str(self.slot),
                # INQUIRY's fields are shorter than ATA's
                "vendor": spec.vendor[:8],
                "product": spec.model[:16],
                "ver": spec.firmware[:4],
                **common,
            },
        )


def fit_slots(placed: Sequence[PlacedDrive]) -> list[LabDrive]:
    """Give each drive a slot of the controller of its transport, in order."""
    used: dict[Transport, int] = {}
    fitted = []
    for drive in placed:
        slot = used.get(drive.spec.transport, 0)
        used[drive.spec.transport] = slot + 1
        fitted.append(LabDrive(drive, slot))
    return fitted


def check_drives(drives: Sequence[LabDrive]) -> None:
    """Raise LabError for a drive that QEMU cannot play, rather than play another one."""
    for drive in drives:
        spec = drive.spec
        if spec.transport not in DRIVERS:
            raise LabError(
                f"drive {drive.name}: the lab has no transport {spec.transport.value!r}; "
                f"it has {', '.join(sorted(known.value for known in DRIVERS))}"
            )
        if spec.transport is Transport.SAS and drive.slot >= SAS_PORTS:
            raise LabError(f"drive {drive.name}: the SAS adapter has {SAS_PORTS} ports")
        if spec.cache.toggle is not Toggle.OBEYS or spec.cache.savable:
            raise LabError(
                f"drive {drive.name}: QEMU's drives obey every toggle and save none; "
                "use the simulator for toggle and savable"
            )


KERNEL_OPTIONS = (
    "console=ttyS0 quiet nokaslr mitigations=off tsc=reliable no_timer_check "
    "random.trust_cpu=on nowatchdog panic=-1 net.ifnames=0"
)


def lab_options(machine: MachineSpec, drives: Sequence[LabDrive]) -> str:
    """Kernel command line of the guest whose process 1 is the lab's own script."""
    settings = {
        "hostname": machine.hostname,
        "udev": "1" if machine.udev else "0",
        "modules": ",".join(drivers(machine, drives)),
    }
    if machine.tap:
        settings["address"] = machine.address
    words = (f"wcache.{name}={value}" for name, value in settings.items() if value)
    return " ".join((KERNEL_OPTIONS, *words))


def booting_options(machine: MachineSpec) -> str:
    """Kernel command line of the guest that boots by itself, as its boot loader would have it."""
    options = (
        f"{KERNEL_OPTIONS} root=/dev/vda rw rootflags=noatime fsck.mode=skip "
        "systemd.show_status=auto rcupdate.rcu_cpu_stall_suppress=1"
    )
    return " ".join((options, *machine.kernel_options))


def drivers(machine: MachineSpec, drives: Sequence[LabDrive]) -> list[str]:
    """Kernel modules the guest needs for these drives."""
    names = dict.fromkeys(name for d in drives for name in DRIVERS[d.spec.transport])
    megaraid = machine.sas_adapter.startswith("megasas")
    return ["megaraid_sas" if megaraid and name == "mptsas" else name for name in names]


@dataclass(frozen=True)
class MachineSpec:
    """What of the guest can be chosen."""

    memory_mib: int = 2048
    cpus: int = 2
    udev: bool = True
    hostname: str = "wcache-lab"
    tap: str = ""  # empty: no network
    address: str = "10.77.0.2/24"
    sas_adapter: str = "mptsas1068"  # QEMU's device that SAS drives hang on, with its options
    nvme_paths: int = 1  # controllers of each NVMe drive; with several it cannot be unplugged
    # with any other than the lab's own the guest boots by itself: systemd, LVM, its own /boot
    initramfs: Initramfs = Initramfs.LAB
    kernel_options: Sequence[str] = ()  # besides the lab's own, for such a guest
    # folders of the host that the guest may mount and not write to, by their 9p tag
    folders: Mapping[str, Path] = field(default_factory=dict)
    # Images of further roots, on /dev/vdb and so on; what is written to them goes at power off.
    more_roots: Sequence[Path] = ()


@dataclass(frozen=True)
class LoadedKernel:
    """What the boot loader starts, and the host folder that this guest mounts beside the rest."""

    kernel: Path
    initramfs: Path
    command_line: str
    folder_tag: str
    folder: Path
    folder_mode: str = ""


def qemu_argv(
    *,
    machine: MachineSpec,
    loaded: LoadedKernel,
    drives: Sequence[LabDrive],
    folder: Path,
    project: Path,
    compiled: Path,
    cache_on: Mapping[str, bool],
) -> list[str]:
    """Command line of the guest; ``folder`` holds its sockets, disk and shared folder.

    ``compiled`` keeps what the guest's Python has compiled of the project.

    ``cache_on`` is the position of each drive's cache switch, by the drive's name.
    """
    argv = [
        "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none",
        # KVM is not to be had in most build machines, so nobody gets it: same figures for all
        "-accel", "tcg,thread=multi", "-machine", "q35,hpet=off,sata=off",
        # TCG does `rep movsb` a byte at a time: with erms, copies are four times slower
        "-cpu", "max,-erms,-fsrm",
        "-smp", str(machine.cpus), "-m", f"{machine.memory_mib}M",
        "-kernel", str(loaded.kernel), "-initrd", str(loaded.initramfs),
        "-append", loaded.command_line,
        "-serial", f"file:{folder / 'console.log'}",
        "-qmp", f"unix:{folder / 'qmp.sock'},server=on,wait=off",
        "-chardev", f"socket,id=agent,path={folder / 'agent.sock'},server=on,wait=off",
        "-device", "virtio-serial-pci",
        "-device", "virtserialport,chardev=agent,name=org.qemu.guest_agent.0",
        # unsafe is against a crash of the host only: what the guest synced is in the file
        "-drive", f"file={folder / 'root.qcow2'},format=qcow2,if=virtio,cache=unsafe",
    ]  # fmt: skip
    for image in machine.more_roots:
        argv += ["-drive", f"file={image},format=raw,if=virtio,snapshot=on,cache=unsafe"]
    for tag, path, mode in (
        ("project", project, ",readonly=on"),
        ("compiled", compiled, ""),
        (loaded.folder_tag, loaded.folder, loaded.folder_mode),
        ("share", folder / "share", ""),
        *((tag, path, ",readonly=on") for tag, path in machine.folders.items()),
    ):
        shown = str(path).replace(",", ",,")  # as QEMU wants a comma in a value
        argv += ["-virtfs", f"local,path={shown},mount_tag={tag},security_model=none{mode}"]
    if machine.tap:
        argv += ["-netdev", f"tap,id=net,ifname={machine.tap},script=no,downscript=no"]
        argv += ["-device", "virtio-net-pci,netdev=net,romfile="]
    argv += _controllers(machine, drives)
    for drive in drives:
        argv += ["-blockdev", backend_option(drive, folder)]
        if drive.spec.transport is Transport.NVME and machine.nvme_paths > 1:
            argv += _subsystem(drive, machine.nvme_paths, cache_on[drive.name])
        else:
            argv += ["-device", drive.device_option(cache_on[drive.name])]
    return argv


def _subsystem(drive: LabDrive, paths: int, cache_on: bool) -> list[str]:
    """One namespace that several controllers share, which the guest's kernel makes one disk."""
    name = f"subsystem-{drive.slot}"
    argv = ["-device", _option("nvme-subsys", {"id": name, "nqn": drive.name})]
    for path in range(paths):
        argv += ["-device", _option("nvme", {
            "id": f"{drive.device}-{path}", "bus": _nvme_port(drive.slot, path),
            "serial": drive.placed.serial, "subsys": name,
        })]  # fmt: skip
    return [*argv, "-device", _option("nvme-ns", {
        "id": drive.device, "bus": f"{drive.device}-0", "drive": drive.node, "nsid": "1",
        "shared": "on", "write-cache": "on" if cache_on else "off",
    })]  # fmt: skip


def backend_option(drive: LabDrive, folder: Path) -> str:
    """QEMU's end of the drive's NBD connection."""
    path = str(folder / f"{drive.name}.nbd")
    return _option(
        "driver=nbd",
        {"node-name": drive.node, "server.type": "unix", "server.path": path},
    )


def _nvme_port(slot: int, path: int) -> str:
    return f"nvme-port-{slot}-{path}"


def _controllers(machine: MachineSpec, drives: Sequence[LabDrive]) -> list[str]:
    argv: list[str] = []
    slots = {transport: 0 for transport in DRIVERS}
    for drive in drives:
        transport = drive.spec.transport
        slots[transport] = max(slots[transport], drive.slot + 1)
    if slots[Transport.SCSI]:
        argv += ["-device", "virtio-scsi-pci,id=vscsi"]
    if slots[Transport.SAS]:
        argv += ["-device", f"{machine.sas_adapter},id=sas"]
    for ahci in range(-(-slots[Transport.SATA] // AHCI_PORTS)):
        argv += ["-device", f"ich9-ahci,id=ahci{ahci}"]
    for number in range(slots[Transport.NVME] * machine.nvme_paths):
        # a root port each, because only those take and give up a drive at run time
        port = _nvme_port(*divmod(number, machine.nvme_paths))
        argv += ["-device", f"pcie-root-port,id={port},chassis={number + 1}"]
    return argv


def _option(driver: str, properties: dict[str, str]) -> str:
    # a comma in a value is doubled (qemu(1), option syntax)
    pairs = (f"{key}={value.replace(',', ',,')}" for key, value in properties.items())
    return ",".join([driver, *pairs])
