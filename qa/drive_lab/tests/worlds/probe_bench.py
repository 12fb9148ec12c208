"""The project's probe on the lab's drives: OSDs that are stopped, mgrs that are folders.

Each drive is the block device of an OSD of its own, whose data folder is as BlueStore leaves
it; each has its own probe, with its own journal.
"""

from __future__ import annotations

import itertools
import json
import time
import uuid

from drive_lab.probe import BOOTED_SINCE
from fake_mgr import FolderMgr, StoredPriors
from wcache.core import codec
from wcache.core.model import CacheMode
from wcache.core.protocol import (
    PROTOCOL_VERSION,
    ApplyRequest,
    DrivesOutcome,
    Lease,
    LookRequest,
    SetModeRequest,
)

BACK, THROUGH = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH
OTHER = {BACK: THROUGH, THROUGH: BACK}
FSID = "11111111-2222-3333-4444-555555555555"
ALL_OSDS = "/var/lib/wcache-lab/*/osd.*[0-9]"
TTL_S = 600.0
PREPARES_MAX = 5
TIMEOUT_S = 900.0
POLL_S = 0.1  # a guest without KVM has no time for more


def fsid_of(name):
    """The cluster of the osd.0 on a drive: two of one cluster would be one OSD to a probe."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, name))


class ProbeOf:
    """The probe of one drive, and what a test does to both.

    `version` is the protocol of its mgr.
    """

    timeout_s = TIMEOUT_S

    def __init__(self, bench, forks, name, version=PROTOCOL_VERSION):
        self.bench = bench
        self.forks = forks
        self.name = name
        self.version = version
        self.data = f"/var/lib/wcache-lab/{name}"
        self.folders = ["--state-dir", f"/var/lib/wcache-{name}", "--run-dir",
                        f"/run/wcache-{name}"]  # fmt: skip
        self.running = None
        self.mgr = None
        self._domain_id = None
        self._priors = StoredPriors(self._asked_drives, self.journal)

    # the drive

    def begin(self, mode=BACK, device=""):
        """The drive in a mode, safe, with no override; an OSD on it; no journal."""
        self.end()
        disk = self.bench.all_on(self.name)
        if mode is THROUGH:
            if disk.is_nvme:
                self.bench.sh(f"nvme set-feature {disk.controller} --feature-id=6 --value=0")
            else:
                disk.set_cache_type("write through")
        assert self.mode() is mode
        state, run = self.folders[1], self.folders[3]
        self.bench.sh(f"rm -rf {state} {run} {self.data}").checked()
        self.make_osd(device)
        self.prepare()
        return disk

    def end(self):
        """kill -9 where it still runs."""
        if self.running is not None and self.running.ended() is None:
            self.running.kill()
        self.running = None

    def make_osd(self, device=""):
        """The data folder of an OSD, as its activation leaves it for a device."""
        folder = f"{self.data}/osd.0"
        device = device or self.bench.disk(self.name).path
        self.bench.sh(
            f"mkdir -p {folder}; echo 0 > {folder}/whoami; "
            f"echo {fsid_of(self.name)} > {folder}/ceph_fsid; "
            f"ln -sfn {device} {folder}/block"
        ).checked()

    def prepare(self):
        """`prepare`, with the OSDs of all tests (a host has one boot rule), and a boot since."""
        drive = self.bench.disk(self.name).path.rpartition("/")[2]
        for _ in range(PREPARES_MAX):
            done = self.forks.fork([
                "prepare", *self.folders, "--image-elsewhere", "--osd-data", ALL_OSDS,
                "--osd-data", f"{self.data}/osd.*[0-9]",
            ])  # fmt: skip
            assert done.wait(self.timeout_s) == 0, done.output()
            # in a slow guest udev or LVM may hold the drive a while after it was changed
            if f"{drive}: used by" not in done.output():
                break
        self.bench.sh(" ".join([*BOOTED_SINCE, self.folders[1]])).checked()

    def mode(self):
        """What the drive really is in, by QEMU's word."""
        return BACK if self.bench.lab.drive(self.name).qmp_writeback() else THROUGH

    def behind_our_back(self, mode):
        """Switch the drive as nobody notices: through the sg node, or as a feature."""
        disk = self.bench.disk(self.name)
        if disk.is_nvme:
            value = int(mode is BACK)
            script = f"nvme set-feature {disk.controller} --feature-id=6 --value={value}"
        else:
            script = f"sdparm --quiet --{'set' if mode is BACK else 'clear'}=WCE {disk.generic}"
        self.bench.sh(script).checked()
        assert self.mode() is mode

    def check_safe(self, word, path=""):
        """A power cut straight after an acknowledged write, to the drive or what is on it."""
        path = path or self.bench.disk(self.name).path
        self.bench.write_and_sync(path, word)
        assert self.bench.lab.drive(self.name).power_cut() == 0
        assert self.bench.on_the_medium(path) == word

    def reset(self, kind):
        """What the kernel does to a drive that does not answer: "device", "bus" or "host".

        Of an NVMe drive it is the controller, whatever the kind.
        """
        disk = self.bench.disk(self.name)
        if disk.is_nvme:
            self.bench.sh(f"nvme reset {disk.controller}").checked()
        else:
            self.bench.sh(f"sg_reset --{kind} {disk.generic}").checked()

    def adapter_driven_anew(self):
        """Take the host adapter from its driver and give it back: all its disks are new."""
        disk = self.bench.disk(self.name)
        self.bench.sh(
            f"path=$(readlink -f /sys/block/{disk.name}/device)\n"
            "adapter=$(echo $path | grep -o '0000:[0-9a-f:.]*' | tail -n 1)\n"
            "cd /sys/bus/pci/devices/$adapter/driver\n"
            "echo $adapter > unbind; echo $adapter > bind",
        ).checked()
        self.bench.settle()
        assert self.bench.disk(self.name).kernel_view()

    # the probe

    def words(self, command):
        # beside the data folders of running OSDs are sockets and logs
        drives = [] if command == "status" else ["--osd-data", f"{self.data}/osd.*[0-9]"]
        return [command, *self.folders, *drives]

    def look(self):
        """The drive as `look --format json` has it."""
        return self.among(self.drives_of(self.words("look")))

    def drives_of(self, words):
        """Every drive that a `look` shows."""
        done = self.forks.fork([*words, "--format", "json"])
        done.wait(self.timeout_s)
        return json.loads(done.output())["drives"]

    def among(self, drives):
        """The drive among those of a `look`."""
        name = self.bench.disk(self.name).name
        (drive,) = [d for d in drives if d["dev_name"] == name]
        self._domain_id = drive["domain_id"]
        return drive

    def start(self, *, crash_after=0):
        """Start it with a new mgr that says nothing yet."""
        folder = self.forks.lab.share / f"mgr-{self.name}-{next(_numbers)}"
        folder.mkdir()
        self.mgr = FolderMgr(folder, version=self.version)
        self.mgr.say(next_poll_s=POLL_S)
        self.running = self.forks.fork(self.words("run"), crash_after=crash_after, mgr=folder)

    def ask(self, request, *, lease=True):
        """The outcome of a request; None where the probe died of it."""
        request = self._priors.sent_with(request)
        task_id = f"task {next(_numbers)}"
        granted = Lease(f"lease-{self.name}", request.domain_id, TTL_S) if lease else None
        self.mgr.say(request, task_id, granted, next_poll_s=POLL_S)
        deadline = time.monotonic() + self.timeout_s
        while time.monotonic() < deadline:
            for post in self.mgr.posts():
                if post["task_id"] == task_id:
                    return post["outcome"]
            if self.running.ended() is not None:
                return None
            time.sleep(0.02)
        raise AssertionError(f"no answer to {request}: {self.running.output()}")

    def _asked_drives(self, domain_id):
        """The drives of a domain, by the probe that runs.

        Under the lease, as most requests are: without it the probe would end what it holds.
        """
        outcome = self.ask(LookRequest(domain_id))
        assert outcome is not None
        assert outcome["kind"] == DrivesOutcome.KIND, outcome
        return codec.decode(DrivesOutcome, outcome, "outcome").drives

    def set_mode(self, mode, *, consent=True, crash_after=0):
        """Start a probe and have it hold the drive in a mode; None where it died of it."""
        self.start(crash_after=crash_after)
        return self.ask_mode(mode, consent=consent)

    def ask_mode(self, mode, *, consent=True):
        """Have the probe that runs hold the drive in a mode."""
        return self.ask(SetModeRequest(self.domain_id, mode, consent_turn_on=consent))

    def apply(self, action_id, expected, mode, *, persist=False, consent=False):
        """Start a probe and have it apply a change; None where it died of it."""
        self.start()
        request = ApplyRequest(
            self.domain_id, action_id, expected, mode, consent_turn_on=consent,
            consent_persist=persist,
        )
        return self.ask(request, lease=False)

    @property
    def domain_id(self):
        if self._domain_id is None:
            self.look()
        return self._domain_id

    def restore_all(self, *, crash_after=0):
        """`restore --all`: its exit code and what it said."""
        done = self.forks.fork([*self.words("restore"), "--all"], crash_after=crash_after)
        return done.wait(self.timeout_s), done.output()

    def restore_action(self, action_id):
        """`restore --action`: its exit code and what it said."""
        done = self.forks.fork([*self.words("restore"), "--action", action_id])
        return done.wait(self.timeout_s), done.output()

    def restart(self):
        """Start it anew with a mgr that grants nothing, and stop it when that has answered."""
        self.start()
        deadline = time.monotonic() + self.timeout_s
        while not self.mgr.instances():  # it restores before it says its first word
            assert self.running.ended() is None, self.running.output()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return self.running.kill("TERM"), self.running.output()

    def journal(self):
        """Names of the files in its journal."""
        shown = self.bench.sh(f"ls {self.folders[1]}/journal 2>/dev/null || :").checked()
        return [name for name in shown.split() if name.endswith(".json")]


_numbers = itertools.count(1)
