"""What the rig is made of, built once and kept in the cache: hosts' root, and Ceph's image.

A host is a Debian with systemd, podman and ssh.  Ceph's image is the root that all other tests
of the release run in, brought into a store of podman's that every host mounts.
"""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from harness.releases import (
    ensure_built,
    ensure_release,
    ensure_root,
    install_packages,
    root_recipe,
    run,
)

from .keeper import check_possible

IMAGE = "localhost/ceph"
# The host's, whatever Ceph's release: cephadm wants podman, lvm2, ssh, Python and a clock.
HOST_SUITE = "bookworm"
HOST_PACKAGES = (
    "ca-certificates",
    "catatonit",
    "dbus",
    "hostname",
    "iproute2",
    "iputils-ping",
    "kmod",
    "lvm2",
    "make",
    "mount",
    "openssh-client",
    "openssh-server",
    "podman",
    "procps",
    "python3",
    "python3-jinja2",
    "python3-yaml",
    "runc",
    "systemd",
    "systemd-sysv",
    "udev",
    "util-linux",
)
OWN_PACKAGES = ("iproute2", "mount", "openssh-client", "procps", "util-linux")

# Python 3.14 starts processes by its fork server, which cephadm's module cannot live with inside
# a mgr: "No child processes" for each host that it looks at.
PYTHON_STARTS = 'import multiprocessing\nmultiprocessing.set_start_method("fork")\n'
STARTS_FILE = "etc/python3.14/sitecustomize.py"

# $1 Ceph's root, $2 the hosts' root, $3 the folder for the store, $4 the image's name.  Podman is
# the hosts'; what it mounts and leaves goes with the mount namespace.
_IMPORT = """
set -e
mount -t tmpfs tmpfs /mnt
mkdir -p /mnt/more/upper /mnt/more/work /mnt/ceph /mnt/host-more/upper /mnt/host-more/work /mnt/host
mkdir -p "/mnt/more/upper/$(dirname "$5")"
printf '%s' "$6" > "/mnt/more/upper/$5"
mount -t overlay overlay -o "lowerdir=$1,upperdir=/mnt/more/upper,workdir=/mnt/more/work" /mnt/ceph
mount -t overlay overlay \\
    -o "lowerdir=$2,upperdir=/mnt/host-more/upper,workdir=/mnt/host-more/work" /mnt/host
for each in proc sys dev; do mount --rbind /$each /mnt/host/$each; done
mkdir -p /mnt/host/images /mnt/host/var/tmp
mount --bind "$3" /mnt/host/images
mkdir -p /mnt/host/images/tmp
mount --bind /mnt/host/images/tmp /mnt/host/var/tmp
tar -C /mnt/ceph -c . | chroot /mnt/host env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin \\
    podman --root /images --runroot /run/containers/storage --storage-driver overlay import -q \\
    --change 'ENV CEPH_VOLUME_ALLOW_LOOP_DEVICES=true' --change 'LABEL ceph=True' - "$4"
rm -r /mnt/host/images/tmp
"""


@dataclass(frozen=True)
class Images:
    """Folders in the cache, which nobody writes to."""

    host: Path  # the root that every host is an overlay of
    ceph: Path  # the release's root
    store: Path  # podman's store with the image in it
    name: str  # of the image


def ensure_images(release: int) -> Images:
    """All of it, built where it is not there yet.

    Raises NotPossible where no machines could run here, which costs nothing to find out, and
    HarnessError where something cannot be had.
    """
    install_packages(OWN_PACKAGES)
    check_possible()
    with ThreadPoolExecutor(2) as pool:  # what is downloaded has to be waited for
        hosts = pool.submit(ensure_root, "cephadm-host", root_recipe(HOST_SUITE, HOST_PACKAGES))
        ceph = ensure_release(release, native_allowed=False).path
        host = hosts.result()
    assert ceph is not None
    name = f"{IMAGE}:{release}"
    key = "\0".join((ceph.name, host.name, _IMPORT, PYTHON_STARTS, STARTS_FILE))

    def build(folder: Path) -> None:
        run(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", _IMPORT, "import",
             str(ceph), str(host), str(folder), name, STARTS_FILE, PYTHON_STARTS],
            f"podman's image of Ceph {release}",
        )

    digest = hashlib.sha256(key.encode()).hexdigest()[:12]
    return Images(host, ceph, ensure_built(f"cephadm-image-{release}", digest, build), name)
