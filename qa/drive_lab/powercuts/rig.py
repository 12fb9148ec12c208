"""The lab of the power cuts: the guest, a probe, a volume and a writer for each drive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

# what the tests of the lab do to a probe; that of each drive has a journal of its own
from fake_mgr import FSID as CLUSTER
from lab_bench import Bench
from probe_bench import ALL_OSDS, ProbeOf, fsid_of
from wcache.core import codec
from wcache.core.drive.prior import Prior, prior_from
from wcache.core.model import CacheMode
from wcache.core.protocol import DrivesOutcome, LookRequest
from wcache_probe.linux.persistence.udev_rule import FILE_NAME

from ..disk import Disk
from ..forked_probe import ProbeForks
from ..lab import Lab
from ..machine import MachineSpec
from ..probe import BOOTED_SINCE
from ..processes import LabError
from .hand import Hand, Order, Writing
from .plan import PATHS, RoundPlan, Verb, path_name
from .volumes import PATIENCE_S, SETTLE, Volume

DRIVE_FILE = Path(__file__).resolve().parent / "drives.toml"
BACK, THROUGH = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH
TRIES = 5
# of an event that was not seen yet
FIRST_S = 2.0


class CachedBench(Bench):  # type: ignore[misc]  # of the tests, which are not typed
    """What tests do to a lab, with drives that are looked for once after each boot."""

    def __init__(self, lab: Lab, hand: Hand) -> None:
        super().__init__(lab)
        self._hand = hand
        self._disks: dict[str, Disk] = {}

    def disk(self, name: str) -> Disk:
        if not self._disks:
            found: dict[str, list[str]] = self._hand.ask("find")
            for fitted in self.lab.drives:
                ours = {fitted.placed.wwn[2:], fitted.placed.serial}
                (disk,) = [disk for disk, words in found.items() if ours & set(words)]
                self._disks[fitted.name] = Disk(self.lab.guest, f"/dev/{disk}")
        return self._disks[name]

    def forget(self) -> None:
        """After a boot: drives may have other names."""
        self._disks = {}


class Rig:
    """A lab whose drives all have a volume; a context manager."""

    def __init__(self, release: int) -> None:
        self.lab = Lab(DRIVE_FILE, release=release, machine=MachineSpec(memory_mib=1536))
        self.hand = Hand(self.lab)
        self.bench = CachedBench(self.lab, self.hand)
        self.forks = ProbeForks(self.lab)
        self._probes: dict[str, Any] = {}
        self._volumes = {
            path_name(*path): Volume(self.lab, path_name(*path), path[1]) for path in PATHS
        }
        self.boots = 0
        # drives whose volumes were activated since the last boot
        self._opened: set[str] = set()
        self._took_s: dict[Verb, float] = {}

    def __enter__(self) -> Rig:
        self.lab.__enter__()
        return self

    def __exit__(self, *ended: Any) -> None:
        self.lab.close()

    # ---- time

    def took(self, verb: Verb, seconds: float) -> None:
        """An event has taken so long."""
        self._took_s[verb] = (self._took_s.get(verb, seconds) + seconds) / 2

    def usual_s(self, verb: Verb) -> float:
        """How long it takes on this machine, by the last few."""
        return self._took_s.get(verb, FIRST_S)

    # ---- the machine

    def booted(self) -> None:
        """Start what a boot ends."""
        self.boots += 1
        self.bench.forget()
        self._opened = set()
        for probe in self._probes.values():
            probe.running = None
        self.hand.start()
        self.forks.start()
        self.hand.wait_ready()

    def prepare(self) -> None:
        """Have the host prepared: a boot rule pins the drives of OSDs as they appear.

        One rule names all of them, so each has an OSD before it is written.
        """
        probes = [self.probe(name) for name in self._volumes]
        script = "".join(
            f"mkdir -p {probe.data}/osd.0; cd {probe.data}/osd.0; echo 0 > whoami; "
            f"echo {fsid_of(probe.name)} > ceph_fsid; ln -sfn {self.disk(probe.name).path} block\n"
            for probe in probes
        )
        self.lab.guest.sh(script, timeout_s=PATIENCE_S).checked()
        first, *others = probes
        pinnable = sum(not self.disk(probe.name).is_nvme for probe in probes)
        for _ in range(TRIES):
            done = self.forks.fork(
                ["prepare", *first.folders, "--image-elsewhere", "--osd-data", ALL_OSDS]
            )
            if done.wait(PATIENCE_S) != 0:
                raise LabError(f"the host cannot be prepared: {done.output()}")
            rule = self.lab.guest.sh(f"cat /etc/udev/rules.d/{FILE_NAME} || :").checked()
            # in a slow guest udev or LVM may hold a drive while `prepare` looks
            if rule.count('="temporary write back"') == pinnable:  # the first line of each drive
                break
        else:
            raise LabError(f"the boot rule does not name every drive: {done.output()}")
        # a look costs a guest without KVM half a minute of processor time
        drives = first.drives_of(["look", *first.folders, "--osd-data", ALL_OSDS])
        for probe in probes:
            probe.among(drives)
        # each drive has a probe of its own here, and it is one host
        copies = "".join(
            f"mkdir -m 700 -p {probe.folders[1]}; "
            f"cp {first.folders[1]}/prepared.json {probe.folders[1]}/\n"
            for probe in others
        )
        booted = f"{' '.join(BOOTED_SINCE)} {first.folders[1]}\n"
        self.lab.guest.sh(f"{booted}{copies}sync", timeout_s=PATIENCE_S).checked()

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
        return self.bench.disk(name)

    def volume(self, plan: RoundPlan) -> Volume:
        """The volume of a round's drive."""
        return self._volumes[plan.drive]

    def probe(self, name: str) -> Any:
        """The probe of a drive."""
        if name not in self._probes:
            self._probes[name] = ProbeOf(self.bench, self.forks, name)
            self._probes[name].timeout_s = PATIENCE_S
        return self._probes[name]

    def on(self, name: str) -> bool:
        """Whether a drive's cache is on, by QEMU's word."""
        return self.lab.drive(name).qmp_writeback()

    def begin(self, plan: RoundPlan) -> None:
        """The round's drive in its prior mode and safe, with no override and no journal."""
        self.probe(plan.drive).end()
        volume, disk = self.volume(plan), self.disk(plan.drive)
        volume.ensure(disk)
        self._open_volume(plan)
        on = plan.prior is BACK
        want = "write back" if disk.is_nvme else plan.prior.value
        views: list[str] = []
        for _ in range(TRIES):
            views = self._bring(plan, on)
            if views[0] == want and set(views[1:]) <= {"write back"} and self.on(plan.drive) is on:
                return
            # a volume that was made while the kernel did not flush never does
            script = f"{SETTLE}{volume.close_script()}{volume.open_script()}"
            self.lab.guest.sh(script, timeout_s=PATIENCE_S).checked()
        raise LabError(f"{plan.drive} did not come into {plan.prior.value}: {views}")

    def _bring(self, plan: RoundPlan, on: bool) -> list[str]:
        """See ``begin`` of ``guest_hand.py``."""
        probe, disk = self.probe(plan.drive), self.disk(plan.drive)
        folder = f"{probe.data}/osd.0"
        views: list[str] = self.hand.ask(
            "begin", disk=disk.name, on=on, link=f"{folder}/block",
            device=self.volume(plan).path(disk),
            remove=[f"{probe.folders[1]}/journal", probe.folders[3], probe.data],
            files={
                f"{folder}/whoami": "0\n", f"{folder}/ceph_fsid": f"{fsid_of(plan.drive)}\n",
                f"{folder}/fsid": f"{plan.drive}\n",
            },
        )  # fmt: skip
        return views

    def lower(self, name: str) -> None:
        """Tell the kernel by hand that a drive whose cache is on needs no flush."""
        views = self.hand.ask("lower", disk=self.disk(name).name)
        if views[0] != "write through" or not self.on(name):
            raise LabError(f"{name}: the kernel view is not lowered, there is no control")

    def flushes(self, name: str) -> bool:
        """Whether the kernel flushes a drive and everything on it."""
        return set(self.hand.ask("views", disk=self.disk(name).name)) == {"write back"}

    def look(self, name: str) -> Prior:
        """What the mgr stores before a first touch: the probe that runs is asked to look."""
        probe = self.probe(name)
        outcome = probe.ask(LookRequest(probe.domain_id), lease=False)
        if outcome is None or outcome["kind"] != DrivesOutcome.KIND:
            raise LabError(f"{name} could not be looked at: {outcome}")
        found = codec.decode(DrivesOutcome, outcome, "outcome")
        return prior_from(CLUSTER, probe.domain_id, found.drives)

    def write(self, plan: RoundPlan, tag: int, first: int) -> Writing:
        """Start the round's writer; it numbers its writes from ``first``."""
        return self.hand.write(
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
            self.lab.guest.sh(f"{SETTLE}{script}", timeout_s=PATIENCE_S).checked()

    def open(self, plan: RoundPlan) -> None:
        """Activate the volume after a boot, and make its OSD's folder."""
        self._open_volume(plan)
        self.probe(plan.drive).make_osd(self.volume(plan).path(self.disk(plan.drive)))

    def _open_volume(self, plan: RoundPlan) -> None:
        """Activate the volume where that was not done since the last boot."""
        script = self.volume(plan).open_script()
        if script and plan.drive not in self._opened:
            self.lab.guest.sh(script, timeout_s=PATIENCE_S).checked()
        self._opened.add(plan.drive)
