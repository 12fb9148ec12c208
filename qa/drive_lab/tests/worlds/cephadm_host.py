"""The guest as cephadm has a host: podman runs the file that cephadm wrote for the probe.

Podman, the root that it runs in and Ceph's image are those of the cephadm rig, by 9p.  The guest
has no systemd: what a unit of cephadm's does around that file is done here.
"""

import re

import zipapps
from drive_lab.osds import HOME
from drive_lab.probe import STATE_DIR

ROOT = "/host"  # of podman's host, in the guest
# A start of podman reads its image by 9p, on a processor that is emulated.
START_S = 600.0
LOG = "container.log"  # on the shared folder

# $1 the cluster's fsid
PREPARE = f"""
modprobe overlay
mkdir -p {ROOT}/lower {ROOT}/more {ROOT}/root
options=trans=virtio,version=9p2000.L,msize=512000,ro,cache=loose
mount -t 9p -o $options hosts {ROOT}/lower
mount -t tmpfs tmpfs {ROOT}/more
mkdir {ROOT}/more/upper {ROOT}/more/work
mount -t overlay overlay {ROOT}/root \\
    -o lowerdir={ROOT}/lower,upperdir={ROOT}/more/upper,workdir={ROOT}/more/work
mount -t cgroup2 cgroup2 /sys/fs/cgroup
cd {ROOT}/root
mkdir -p images
mount -t 9p -o $options images images
for each in proc sys dev run; do mount --rbind /$each $each; done
mkdir -p var/lib/containers /run/wcache {HOME}
mount -t tmpfs tmpfs tmp
mount -t tmpfs tmpfs var/lib/containers
mkdir -p "/var/lib/ceph/$1"
mount --bind {HOME} "/var/lib/ceph/$1"
for each in {STATE_DIR} /var/lib/ceph /etc/ceph /etc/udev /boot; do
    mkdir -p $each .$each
    mount --rbind $each .$each
done
install -m 755 /share/wcache-probe usr/bin/
cp /share/containers.conf /share/storage.conf etc/containers/
cp /share/keyring /etc/ceph/ceph.client.wcache.$(uname -n).keyring
"""
# Podman writes a container's start there, and ends where nobody listens.
JOURNAL = f"""
import os, socket
os.makedirs("/run/systemd/journal", exist_ok=True)
end = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
end.bind("/run/systemd/journal/socket")
with open("/share/{LOG}", "ab", buffering=0) as log:
    while True:
        log.write(end.recv(1 << 18) + b"\\n")
"""
CONTAINERS = """[containers]
pids_limit = 0
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
"""
# A control group of its own, as each start of a unit has (`--cgroups=split`), and no old files.
START = f"""
group=/sys/fs/cgroup/unit.$$
mkdir $group
echo $$ >$group/cgroup.procs
rm -f /run/ceph-*-pid /run/ceph-*-cid
exec chroot {ROOT}/root /bin/bash /root/unit.run
"""


class CephadmHost:
    """The guest, and the probe's container in it."""

    def __init__(self, lab, *, storage, fsid, keyring):
        self._lab = lab
        share = lab.share
        zipapps.build("wcache-probe", share)
        for name, text in (
            ("containers.conf", CONTAINERS), ("storage.conf", storage),
            ("keyring", keyring.read_text()),
        ):
            (share / name).write_text(text)
        lab.guest.run(["/bin/sh", "-euc", PREPARE, "prepare", fsid], timeout_s=START_S).checked()
        lab.guest.spawn(["python3", "-c", JOURNAL])

    def use(self, unit):
        """Have this text be the file that a unit runs."""
        (self._lab.share / "unit.run").write_text(unit)
        self._lab.guest.run(["cp", "/share/unit.run", f"{ROOT}/root/root/"]).checked()

    def start(self):
        """Run the file that a unit runs."""
        self._lab.guest.sh(START, timeout_s=START_S).checked()

    def once(self, unit, words):
        """Run another command of the probe to its end, in a container as that text has it."""
        of_unit = unit[unit.index("/usr/bin/podman run"):].replace("\\\n", " ")
        run = re.sub(r"--name .* --cgroups=split ", "", of_unit).partition(" run --hostname")[0]
        script = f"exec chroot {ROOT}/root {run} {words}"
        return self._lab.guest.sh(script, timeout_s=START_S).checked()

    def stop(self):
        """Stop the container, as the unit's end does."""
        self._podman("stop --all")

    def kill(self):
        """kill -9 of the probe: nothing in the container has a word in this."""
        self._lab.guest.sh("pkill -9 -f '[/]usr/bin/wcache-probe run'").checked()

    def running(self):
        """The names of the containers that run."""
        return self._podman("ps --format '{{.Names}}'").split()

    def log(self):
        """What podman and the probe have written to the journal."""
        path = self._lab.share / LOG
        return path.read_text(errors="replace") if path.exists() else ""

    def _podman(self, words):
        script = f"exec chroot {ROOT}/root podman {words}"
        return self._lab.guest.sh(script, timeout_s=START_S).checked()
