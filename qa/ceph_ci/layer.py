"""What Ceph's scripts need on top of a release's root, kept in the cache: packages, teuthology.

It is the upper layer of an overlay over that root, so that the root stays as others have it.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from harness.releases import cache_folder, cache_lock, ensure_release, run

# What vstart.sh, stop.sh, the runner and the workunits call beside Ceph's programs.
PACKAGES = (
    "bc", "git", "hostname", "iproute2", "jq", "logrotate", "procps", "python3-venv", "sqlite3",
    "sudo",
)
TEUTHOLOGY = "/teuthology"
# Of teuthology's requirements those that running tasks on one machine imports, and what Ceph's
# tasks import besides.  It pins gevent < 25, which does not build on Python 3.14.
REQUIREMENTS = (
    "gevent==26.9.0", "cffi", "setuptools", "apache-libcloud", "beanstalkc3", "configobj", "docopt",
    "httplib2", "humanfriendly", "lupa", "lxml", "netaddr", "oauthlib", "paramiko", "pexpect",
    "prettytable", "prometheus_client", "psutil", "python-dateutil", "PyYAML", "requests",
    "requests-oauthlib", "sentry-sdk", "urllib3", "IPy", "xmltodict",
)
ITSELF = "teuthology==1.3.0"

# apt has no way into a root that has no apt, but for its own options.  The authorities that
# this machine trusts come along, as pip may be behind one of them.
# $1 root, $2 layer, $3 work folder, $4 where to mount, then packages
_BUILD = """
set -e
lower=$1 upper=$2 work=$3 root=$4
shift 4
mount -t overlay overlay "$root" -o "lowerdir=$lower,upperdir=$upper,workdir=$work"
for each in proc sys dev; do mount --rbind "/$each" "$root/$each"; done
mount -t tmpfs tmpfs "$root/tmp"
mkdir -p "$root/var/lib/apt/lists/partial" "$root/var/cache/apt/archives/partial"
apt() {
    apt-get -o "Dir=$root" -o "DPkg::Chroot-Directory=$root" \
        -o Dir::Bin::methods=/usr/lib/apt/methods -o Dir::Etc::TrustedParts=/etc/apt/trusted.gpg.d \
        -o APT::Sandbox::User=root \
        -o Acquire::Check-Valid-Until=false -o Acquire::Languages=none -qq "$@"
}
apt update
apt install -y --no-install-recommends "$@"
apt clean
rm -rf "$root/var/lib/apt/lists/"*
mkdir -p "$root/etc/ssl/certs"
for each in /etc/resolv.conf /etc/ssl/certs/ca-certificates.crt; do
    test -e "$root$each" || touch "$root$each"
    mount --bind "$each" "$root$each"
done
chroot "$root" python3 -m venv --system-site-packages /teuthology
pip() {
    chroot "$root" env PIP_CERT=/etc/ssl/certs/ca-certificates.crt /teuthology/bin/pip \
        --disable-pip-version-check --quiet --no-cache-dir "$@"
}
pip install $REQUIREMENTS
pip install --no-deps $ITSELF
chmod +x "$root"/teuthology/lib/python3*/site-packages/teuthology/task/install/bin/*
"""


def ensure_layer(number: int) -> str:
    """The `lowerdir` of an overlay: a release's root with this layer on it."""
    root = ensure_release(number, native_allowed=False).inside("/")
    key_of = "\0".join((str(root), _BUILD, ITSELF, *PACKAGES, *REQUIREMENTS))
    layer = cache_folder() / f"ceph-ci-{number}-{hashlib.sha256(key_of.encode()).hexdigest()[:12]}"
    with cache_lock(f"ceph-ci-{number}"):
        if not layer.is_dir():
            _build(number, root, layer)
    return f"{layer}:{root}"


def _build(number: int, root: Path, layer: Path) -> None:
    """Build beside the real folder, then rename: it is whole or not there."""
    with tempfile.TemporaryDirectory(prefix=f"tmp-ceph-ci-{number}-", dir=layer.parent) as name:
        folders = [Path(name, each) for each in ("upper", "work", "root")]
        for each in folders:
            each.mkdir()
        alone = ["unshare", "--mount", "--propagation", "slave"]
        environment = [f"REQUIREMENTS={' '.join(REQUIREMENTS)}", f"ITSELF={ITSELF}"]
        run(
            [*alone, "env", *environment, "sh", "-c", _BUILD, "build", str(root),
             *map(str, folders), *PACKAGES],
            f"what Ceph's scripts need on release {number}",
        )
        os.rename(folders[0], layer)
