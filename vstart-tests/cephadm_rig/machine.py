"""One machine of a rig: a Debian with systemd as its first process, in namespaces of its own."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Sequence

from harness.access import PROJECT, Result
from harness.errors import CommandError, HarnessError
from harness.processes import is_alive, pid_from_file, send_signal, wait_until
from harness.roots import RIG_FILE, SYSTEM_PATH

from .images import Images
from .keeper import BRIDGE, control_group

BOOT = Path(__file__).with_name("boot.sh")
BOOT_TIMEOUT_S = 60.0
# What has nothing to do in namespaces, or would reach the machine outside.
MASKED = (
    "apt-daily-upgrade.timer", "apt-daily.timer", "console-getty.service", "dev-hugepages.mount",
    "dev-mqueue.mount", "dpkg-db-backup.timer", "getty.target", "lvm2-lvmpolld.socket",
    "lvm2-monitor.service", "proc-sys-fs-binfmt_misc.automount", "sys-fs-fuse-connections.mount",
    "sys-kernel-config.mount", "sys-kernel-debug.mount", "sys-kernel-tracing.mount",
    "systemd-modules-load.service", "systemd-remount-fs.service", "systemd-sysctl.service",
    "systemd-udev-trigger.service", "systemd-udevd-control.socket",
    "systemd-udevd-kernel.socket", "systemd-udevd.service",
)
# cephadm takes no host whose clock is not synchronized: all machines have one clock.
CHRONY = """[Unit]
Description=stand-in for chrony
[Service]
ExecStart=/usr/bin/sleep infinity
[Install]
WantedBy=multi-user.target
"""
# The control group has no controllers, so none can count processes.
# systemd is told that it runs in a container (boot.sh), as it would mount and load what is the
# kernel's else.  To programs it is a host: its /etc and /boot are its own.
NO_CONTAINER = (
    "rm -f /run/systemd/container; : > /run/environ-of-first; "
    "mountpoint -q /proc/1/environ || mount --bind /run/environ-of-first /proc/1/environ"
)
CONTAINERS = "[containers]\npids_limit = 0\n"
STORAGE = """[storage]
driver = "overlay"
runroot = "/run/containers/storage"
graphroot = "/var/lib/containers/storage"
[storage.options]
additionalimagestores = ["/images"]
"""
SSH = "Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n"


@dataclass
class Machine:
    """A machine that boots, is shut down and boots again; its disk stays in between."""

    name: str
    address: str
    rig: Path  # the rig's folder
    images: Images
    first_pid: int  # of the rig's namespaces
    drives: Sequence[str] = ()
    _started: Optional[subprocess.Popen[bytes]] = field(default=None, repr=False)

    @property
    def folder(self) -> Path:
        """Where its disk is."""
        return self.rig / self.name

    def prepare(self, names: Mapping[str, str], key: Path) -> None:
        """Make its disk: the hosts' root with what tells this machine from others.

        `names` are addresses by name, `key` is the ssh key that root has everywhere.
        """
        for each in ("upper", "work", "root", "containers"):
            (self.folder / each).mkdir(parents=True)
        public = key.with_suffix(".pub").read_text(encoding="ascii")
        known = {"localhost": "127.0.0.1", **names}
        hosts = [f"{address} {name}" for name, address in known.items()]
        self.write(RIG_FILE, "")
        self.write("/etc/hostname", f"{self.name}\n")
        self.write("/etc/hosts", "\n".join(hosts) + "\n")
        self.write("/etc/machine-id", f"{uuid.uuid4().hex}\n")
        self.write("/etc/resolv.conf", "")
        self.write("/etc/containers/containers.conf", CONTAINERS)
        self.write("/etc/containers/storage.conf", STORAGE)
        self.write("/root/.ssh/config", SSH, 0o600)
        self.write("/root/.ssh/id_ed25519", key.read_text(encoding="ascii"), 0o600)
        for name in ("id_ed25519.pub", "authorized_keys"):
            self.write(f"/root/.ssh/{name}", public, 0o600)
        self.write("/etc/systemd/system/chrony.service", CHRONY)
        units = self.folder / "upper/etc/systemd/system"
        (units / "multi-user.target.wants").mkdir()
        (units / "multi-user.target.wants/chrony.service").symlink_to("../chrony.service")
        for unit in MASKED:
            (units / unit).symlink_to("/dev/null")

    def write(self, inside: str, text: str, mode: int = 0o644) -> None:
        """Make a file on its disk, before it is booted."""
        path = self.folder / "upper" / inside.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)

    # Power

    def power_on(self) -> None:
        """Start it, without waiting until it is up."""
        (self.folder / "pid").unlink(missing_ok=True)
        group = control_group(self.rig) / self.name
        group.mkdir(parents=True, exist_ok=True)
        words = [
            str(self.images.host), str(self.folder), self.name, str(self.images.store),
            str(PROJECT), f"{self.address}/24", *self.drives,
        ]
        enter = [
            "nsenter", f"--target={self.first_pid}", "--pid", "--mount", "--net",
            "unshare", "--fork", "--kill-child", "--pid", "--mount", "--uts", "--ipc", "--net",
            "--cgroup", "sh", str(BOOT), *words,
        ]
        with open(self.folder / "console", "ab") as console:
            self._started = subprocess.Popen(
                ["sh", "-ec", 'echo $$ > "$0"; exec "$@"', str(group / "cgroup.procs"), *enter],
                stdin=subprocess.DEVNULL, stdout=console, stderr=console, start_new_session=True,
                cwd="/",
            )
        if not wait_until(lambda: self._booting_pid() != 0, BOOT_TIMEOUT_S):
            raise HarnessError(f"{self.name} does not boot:\n{self.console()}")
        end, pid = f"v-{self.name}", str(self.pid)
        in_rig = ["nsenter", f"--target={self.first_pid}", "--net", "ip", "link"]
        for words in (
            ["add", end, "type", "veth", "peer", "name", "eth0", "netns", pid],
            ["set", end, "master", BRIDGE], ["set", end, "up"],
        ):
            _run_outside([*in_rig, *words])

    def _booting_pid(self) -> int:
        return pid_from_file(self.folder / "pid") or 0

    @property
    def pid(self) -> int:
        """Its first process; raises HarnessError where it is off."""
        pid = self._booting_pid()
        if not pid or not is_alive(pid):
            raise HarnessError(f"{self.name} is off:\n{self.console()}")
        return pid

    @property
    def is_on(self) -> bool:
        """Whether it runs."""
        pid = self._booting_pid()
        return pid != 0 and is_alive(pid)

    def wait_up(self) -> None:
        """Wait until systemd has started all that it has to."""

        def is_up() -> bool:
            asked = self.run("systemctl is-system-running", check=False)
            return asked.stdout.strip() in ("running", "degraded")

        if not wait_until(is_up, BOOT_TIMEOUT_S, 0.2):
            said = self.console()
            raise HarnessError(f"{self.name} is not up in {BOOT_TIMEOUT_S:.0f} s:\n{said}")
        self.run(NO_CONTAINER)

    def power_off(self, *, cut: bool = False) -> None:
        """Shut it down, or cut its power: everything on it is killed at once."""
        pid = self.pid
        if cut:
            send_signal(pid, signal.SIGKILL)
        else:
            self.run("systemctl poweroff", check=False)
        if not wait_until(lambda: not is_alive(pid), 120.0, 0.2):
            raise HarnessError(f"{self.name} does not end:\n{self.console()}")
        if self._started is not None:
            self._started.wait()

    def console(self, lines: int = 10) -> str:
        """The end of what it has printed."""
        path = self.folder / "console"
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    # Programs

    def entry(self, argv: Sequence[str], env: Optional[Mapping[str, str]] = None) -> List[str]:
        """The words that run a program on it, from outside."""
        variables: Dict[str, str] = {
            "PATH": f"/usr/local/bin:{SYSTEM_PATH}", "HOME": "/root", "LC_ALL": "C.UTF-8",
            "TERM": os.environ.get("TERM", "dumb"), **(env or {}),
        }
        words = [f"{name}={value}" for name, value in variables.items()]
        enter = ["nsenter", f"--target={self.pid}", "--all"]
        return [*enter, "env", "--chdir=/root", "-i", *words, *argv]

    def run(
        self, command: str, *, input_text: str = "", timeout_s: float = 60.0, check: bool = True,
        folder: str = "/root",
    ) -> Result:
        """Type a command as root; raises CommandError where it fails or takes too long."""
        typed = f"cd {shlex.quote(folder)} && {{ {command}\n}}"
        try:
            done = subprocess.run(
                self.entry(["/bin/bash", "-c", typed]), input=input_text.encode(),
                capture_output=True, timeout=timeout_s, check=False,
            )
        except subprocess.TimeoutExpired as late:
            raise CommandError(f"{self.name}: {command}: no end in {timeout_s:.0f} s") from late
        result = Result(
            done.returncode, done.stdout.decode("utf-8", "replace"),
            done.stderr.decode("utf-8", "replace"),
        )
        if check and result.rc:
            said = f"{result.stdout}{result.stderr}".strip()
            raise CommandError(f"{self.name}: {command}: exit code {result.rc}: {said}", result.rc)
        return result

    def path(self, inside: str) -> Path:
        """A file of it as it is seen from outside, while it is on."""
        return Path(f"/proc/{self.pid}/root") / inside.lstrip("/")


def _run_outside(argv: Sequence[str]) -> None:
    done = subprocess.run(argv, capture_output=True, timeout=30, check=False, text=True, env={
        **os.environ, "LC_ALL": "C",
    })
    if done.returncode:
        raise HarnessError(f"{' '.join(argv)}: {done.stderr.strip()}")
