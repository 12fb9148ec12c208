"""A running lab: the guest, its drives, and the hand on plugs and power.

    with Lab(Path("qa/drive_models/lab.toml")) as lab:
        lab.guest.sh("lsblk").checked()
        lab.true_state("hdd")

Everything it makes is in one temporary folder and in child processes that the kernel kills
with it.  A folder whose owner was killed is swept by the next lab.
"""

from __future__ import annotations

import fcntl
import shutil
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Mapping

from wcache_sim.drive_schema import load_drive_file
from wcache_sim.placement import place

from .agent import GuestAgent
from .disk import APPEAR_TIMEOUT_S, Disk, find_disk
from .drives.backend import BackendSpec
from .drives.counters import Counters, read_counters
from .drives.truth import TrueState, observe
from .images import artefacts, booting_root
from .images.booting_root import Initramfs
from .machine import (
    LabDrive,
    LoadedKernel,
    MachineSpec,
    booting_options,
    check_drives,
    fit_slots,
    lab_options,
    qemu_argv,
)
from .processes import Children, LabError, connect, kill_recorded, last_lines, wait_for
from .qmp import Qmp

PROJECT = Path(__file__).resolve().parents[2]
PREFIX = "wcache-lab-"
BOOT_TIMEOUT_S = 1800.0
CONSOLE_LINES = 40
SEED = 20
NBD_PLUGIN = Path(__file__).resolve().parent / "drives" / "nbd_drive.py"


class DriveHandle:
    """What the host can see of, and do to, one drive of a running lab."""

    def __init__(self, lab: Lab, fitted: LabDrive) -> None:
        self._lab = lab
        self.fitted = fitted
        self.name = fitted.name

    def counters(self) -> Counters:
        """What reached the drive since the lab started."""
        return read_counters(self._lab.share / f"{self.name}.counters")

    def power_cut(self) -> int:
        """Lose what the drive holds in its volatile cache; return the blocks lost.

        The switch keeps its position: unplug and replug, or reboot, for a full power-on.
        """
        return self._control(b"cut")

    def power_off(self) -> int:
        """The same, and writes go nowhere until ``power_on``; the guest is told nothing."""
        return self._control(b"off")

    def power_on(self) -> None:
        """Take writes again."""
        self._control(b"on")

    @property
    def backing(self) -> Path:
        """What is on the medium, as a file; what is volatile is not in it."""
        return self._lab.folder / f"{self.name}.img"

    def _control(self, command: bytes) -> int:
        with connect(self._lab.folder / f"{self.name}.control", 10.0) as control:
            control.settimeout(10.0)
            control.sendall(command)
            return int(control.recv(64))

    def qmp_writeback(self) -> bool:
        """Whether QEMU's disk has its write cache on; raise LabError when it is unplugged."""
        for block in self._lab.qmp.command("query-block"):
            # scsi-hd and ide-hd are known by their id, nvme by the path of its namespace
            if block.get("inserted", {}).get("node-name") == self.fitted.node:
                return bool(block["inserted"]["cache"]["writeback"])
        raise LabError(f"drive {self.name} is not plugged in")

    def disk(self) -> Disk:
        """The drive as the guest sees it now; waits until it is there."""
        return Disk(self._lab.guest, self._lab.find(self.fitted))


class Lab:
    """The guest and its drives; a context manager that stops and removes all of it."""

    def __init__(
        self,
        drive_file: Path,
        *,
        release: int = 20,
        machine: MachineSpec | None = None,
        seed: int = SEED,
        home: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """``home`` is a new folder to be in instead of a temporary one.

        ``environment``: see ``Children``; with it the lab can ``leave_running``.
        """
        self.drive_file = drive_file.resolve()
        self.drives = fit_slots(place(load_drive_file(str(self.drive_file))))
        check_drives(self.drives)
        self.release = release
        self.machine = machine or MachineSpec()
        self._root = (
            artefacts.ensure(release)
            if self.machine.initramfs is Initramfs.LAB
            else booting_root.ensure()
        )
        self._seed = seed
        self._home = home
        self._environment = environment
        self._handles = {drive.name: DriveHandle(self, drive) for drive in self.drives}
        self.folder = Path()
        self._qmp: Qmp | None = None
        self._guest: GuestAgent | None = None

    def __enter__(self) -> Lab:
        sweep()
        if self._home is None:
            self.folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        else:
            self.folder = self._home
            self.folder.mkdir()
        self._alive = (self.folder / "alive").open("w")
        fcntl.flock(self._alive, fcntl.LOCK_EX)
        self._children = Children(self.folder, self._environment)
        self.share.mkdir()
        try:
            for drive in self.drives:
                self._start_backend(drive)
            self._make_root()
            self.power_on()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop everything and remove it; harmless when done twice."""
        self._disconnect()
        self._children.stop_all()
        self._alive.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def leave_running(self) -> None:
        """Let guest and drives live on; this object is done with them."""
        self._disconnect()
        self._children.leave_running()
        self._alive.close()

    # what tests ask for

    @property
    def boot_folder(self) -> Path:
        """``/boot`` of a guest that boots by itself: its next boot is from the image in it."""
        return self.folder / "boot"

    def put_into_image(self, files: Mapping[str, str]) -> None:
        """Have the guest's initramfs image hold these files; paths are relative to its root.

        For tests that have no minute to let the guest make its image anew.
        """
        if not isinstance(self._root, booting_root.BootingRoot):
            raise LabError("the lab's own initramfs is made with the lab")
        kind = self.machine.initramfs
        booting_root.put_into_image(self._root, self.boot_folder, kind, files)

    @property
    def share(self) -> Path:
        """The folder that host and guest (as ``/share``) both write."""
        return self.folder / "share"

    @property
    def guest(self) -> GuestAgent:
        """Runs commands in the guest."""
        if self._guest is None:
            raise LabError("the guest is switched off")
        return self._guest

    @property
    def qmp(self) -> Qmp:
        if self._qmp is None:
            raise LabError("the guest is switched off")
        return self._qmp

    def drive(self, name: str) -> DriveHandle:
        try:
            return self._handles[name]
        except KeyError:
            known = ", ".join(self._handles)
            raise LabError(f"the lab has no drive {name!r}, it has {known}") from None

    def true_state(self, name: str, path: str = "") -> TrueState:
        """Write and sync one block, and say what the drive saw; see ``truth.observe``.

        ``path`` is the device to go through: the drive itself, or an LV above it.
        """
        handle = self.drive(name)
        return observe(self.guest, path or handle.disk().path, handle.counters)

    # power and plugs

    def power_on(self) -> None:
        """Switch guest and drives on and wait until it answers; drives get their default mode."""
        self._boot({drive.name: drive.on_at_power_on for drive in self.drives})

    def _boot(self, cache_on: dict[str, bool]) -> None:
        """Start the guest's machine; one that hangs before it answers is started once more.

        Nothing of a test has run in the guest by then, and the drives are as they were.
        """
        for tries_left in (1, 0):
            try:
                self._start_machine(cache_on)
                return
            except LabError as error:
                end = last_lines(self.folder / "console.log", CONSOLE_LINES)
                said = f"{error}; its console ends with:\n" + "\n".join(end)
                self._disconnect()
                self._children.stop("qemu")
                if not tries_left:
                    raise LabError(said) from error
                print(f"{said}\nThe guest is started once more.", file=sys.stderr, flush=True)

    def _start_machine(self, cache_on: dict[str, bool]) -> None:
        argv = qemu_argv(
            machine=self.machine,
            loaded=self._loaded(),
            drives=self.drives,
            folder=self.folder,
            project=PROJECT,
            compiled=artefacts.compiled_folder(PROJECT),
            cache_on=cache_on,
        )
        for stale in ("qmp.sock", "agent.sock"):
            (self.folder / stale).unlink(missing_ok=True)
        child = self._children.start("qemu", argv)
        wait_for("the guest's machine", self.folder / "qmp.sock", child, 20.0)
        self._qmp = Qmp(self.folder / "qmp.sock")
        agent = GuestAgent(self.folder / "agent.sock")
        agent.connect(BOOT_TIMEOUT_S)
        self._guest = agent

    def _loaded(self) -> LoadedKernel:
        """What a boot loader would load now."""
        if isinstance(self._root, booting_root.BootingRoot):
            return LoadedKernel(
                kernel=self._root.vmlinux,
                initramfs=booting_root.image_in(self.boot_folder),
                command_line=booting_options(self.machine),
                folder_tag="boot",
                folder=self.boot_folder,
            )
        return LoadedKernel(
            kernel=self._root.vmlinux,
            initramfs=self._root.initramfs,
            command_line=lab_options(self.machine, self.drives),
            folder_tag="modules",
            folder=self._root.modules,
            folder_mode=",readonly=on",
        )

    def power_cut(self) -> dict[str, int]:
        """Cut the power of the guest and all its drives; return the blocks each one lost."""
        self._disconnect()
        # SIGKILL: on any other signal QEMU flushes the drives, as no power cut does
        self._children.stop("qemu")
        return {name: handle.power_cut() for name, handle in self._handles.items()}

    def reboot(self) -> dict[str, int]:
        """Power cut, and power on again."""
        lost = self.power_cut()
        self.power_on()
        return lost

    def reset(self) -> None:
        """Press the guest's reset button: the drives keep their power, data and modes.

        The guest's machine is started anew for it, with each switch where it was: after
        QEMU's own system_reset everything runs three times slower under TCG.
        """
        cache_on = {name: handle.qmp_writeback() for name, handle in self._handles.items()}
        self._disconnect()
        self._children.stop("qemu")
        self._boot(cache_on)

    def unplug(self, name: str) -> int:
        """Pull a drive out of the running guest; return the blocks it lost."""
        handle = self.drive(name)
        if not handle.fitted.hot_pluggable:
            raise LabError(f"drive {name}: QEMU's AHCI has no hot plug; use reboot()")
        device = handle.fitted.device
        self.qmp.command("device_del", id=device)
        if not self.qmp.wait_event("DEVICE_DELETED", device=device, timeout_s=APPEAR_TIMEOUT_S):
            raise LabError(f"drive {name}: the guest did not let go of it")
        return handle.power_cut()

    def replug(self, name: str) -> str:
        """Put an unplugged drive back, in its power-on mode; return its path in the guest."""
        handle = self.drive(name)
        option = handle.fitted.device_option(handle.fitted.on_at_power_on)
        # the monitor for humans takes the syntax of the command line, in quotes for blanks
        quoted = option.replace("\\", "\\\\").replace('"', '\\"')
        line = f'device_add "{quoted}"'
        refusal = self.qmp.command("human-monitor-command", command_line=line).strip()
        if refusal:
            raise LabError(f"drive {name}: {refusal}")
        return handle.disk().path

    def find(self, fitted: LabDrive) -> str:
        """Path of a drive in the guest, by WWN or, for NVMe, by serial; waits for it."""
        return find_disk(self.guest, (fitted.placed.wwn[2:], fitted.placed.serial), fitted.name)

    # starting

    def _start_backend(self, drive: LabDrive) -> None:
        spec = self.folder / f"{drive.name}.json"
        BackendSpec(
            drive_file=str(self.drive_file),
            model_name=drive.spec.name,
            index=drive.placed.index,
            seed=self._seed,
            backing=str(self._handles[drive.name].backing),
            counters=str(self.share / f"{drive.name}.counters"),
            outlives_parent=self._environment is not None,
        ).write(spec)
        socket_path = self.folder / f"{drive.name}.nbd"
        child = self._children.start(
            f"nbdkit-{drive.name}",
            [
                "nbdkit", "--foreground", "--unix", str(socket_path), "--threads", "8",
                "python", str(NBD_PLUGIN), f"spec={spec}",
                f"control={self.folder / f'{drive.name}.control'}",
            ],
        )  # fmt: skip
        wait_for(f"the drive {drive.name}", socket_path, child, 20.0)

    def _make_root(self) -> None:
        child = self._children.start(
            "qemu-img",
            [
                "qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw",
                "-b", str(self._root.root_image), str(self.folder / "root.qcow2"),
            ],
        )  # fmt: skip
        child.process.wait()
        wait_for("the guest's root", self.folder / "root.qcow2", child, 0.0)
        self._children.stop("qemu-img")
        if isinstance(self._root, booting_root.BootingRoot):
            booting_root.fill_boot(self._root, self.boot_folder, self.machine.initramfs)

    def _disconnect(self) -> None:
        for connection in (self._guest, self._qmp):
            if connection is not None:
                connection.close()
        self._guest = self._qmp = None


def sweep() -> None:
    """Remove what labs left behind whose process was killed: a dead owner holds no lock."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            with (folder / "alive").open("r+") as alive:
                fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue
        kill_recorded(folder)
        shutil.rmtree(folder, ignore_errors=True)
