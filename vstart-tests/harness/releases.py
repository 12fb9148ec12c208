"""The Ceph releases that tests run on, and where their packages come from.

A release is native where this machine's own distribution ships it, and otherwise a root
(a folder to chroot into) built once from that distribution's packages and kept in the cache.
The cache key is a hash of the recipe, so that a changed recipe is a new root.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Sequence, Tuple

from .errors import HarnessError
from .roots import Root

CEPH_PACKAGES = (
    "ceph-mon",
    "ceph-mgr",
    "ceph-osd",
    "ceph-common",
    "ceph-mgr-modules-core",
    "python3-rados",
    "python3-numpy",
    "python3-scipy",
    "python3-jinja2",
)
# What a minimal root lacks and the probe or Ceph's own scripts call.
ROOT_PACKAGES = ("mount", "util-linux", "gawk")

# Nobody reads manuals in a test root: a third of its size.
EXCLUDED_PATHS = (
    "/usr/share/doc/*",
    "/usr/share/man/*",
    "/usr/share/info/*",
    "/usr/share/locale/*",
    "/usr/share/i18n/*",
)

# The root is also the image of the cephadm rig: what cephadm and its containers call.
CEPHADM_PACKAGES = (
    "ceph-mgr-cephadm",
    "ceph-volume",
    "cephadm",
    "hostname",
    "iproute2",
    "lvm2",
    "nvme-cli",
    "procps",
    "sg3-utils",
    "smartmontools",
    "udev",
)

INSTALL_TIMEOUT_S = 1500


@dataclass(frozen=True)
class Release:
    """One Ceph release as a distribution packages it."""

    number: int
    suite: str  # the Debian suite whose packages are this release
    # 18.2.7 as packaged imports bcrypt, a PyO3 module, which refuses to load in the
    # sub-interpreter that the mgr gives each module.
    bcrypt_breaks_modules: bool = False
    more_packages: Tuple[str, ...] = ()


RELEASES: Dict[int, Release] = {
    16: Release(16, "bookworm"),
    18: Release(18, "trixie", bcrypt_breaks_modules=True),
    20: Release(20, "forky", more_packages=(*CEPHADM_PACKAGES, "ceph-mgr-dashboard")),
}


def cache_folder() -> Path:
    """The folder for everything that is built once and kept between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(base) / "wcache"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def cache_lock(name: str) -> Iterator[None]:
    """Hold a lock by name among all processes that share the cache; freed if we die."""
    with open(cache_folder() / f"{name}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def find_release(number: int) -> Release:
    """The release of that number.  Raises HarnessError naming the ones there are."""
    try:
        return RELEASES[number]
    except KeyError:
        known = ", ".join(str(each) for each in sorted(RELEASES))
        raise HarnessError(f"no release {number}: choose one of {known}") from None


def ensure_release(number: int, *, native_allowed: bool = True) -> Root:
    """Make a release's programs available and return how to run them.

    Takes half a minute the first time (downloads), and next to nothing after that.
    Raises HarnessError where packages cannot be had.
    """
    release = find_release(number)
    if os.geteuid() != 0:
        raise HarnessError("a cluster needs root (loop devices, chroot): run this with sudo")
    if native_allowed and _own_codename() == release.suite:
        install_packages(CEPH_PACKAGES)
        return Root(number, None)
    return Root(number, _ensure_chroot(release))


def _own_codename() -> str:
    try:
        text = Path("/etc/os-release").read_text(encoding="utf-8")
    except OSError:
        return ""
    for line in text.splitlines():
        key, _, value = line.partition("=")
        if key == "VERSION_CODENAME":
            return value.strip('"')
    return ""


def run(argv: Sequence[str], what: str) -> None:
    """Run an installer; on failure raise HarnessError with the end of what it said."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            timeout=INSTALL_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HarnessError(f"{what}: {error}") from error
    if done.returncode != 0:
        tail = b"\n".join(done.stdout.splitlines()[-8:]).decode("utf-8", "replace")
        raise HarnessError(f"{what}: {argv[0]} ended with {done.returncode}:\n{tail}")


def _missing_packages(packages: Sequence[str]) -> List[str]:
    asked = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *packages],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
        text=True,
    )
    present = {line.split()[0] for line in asked.stdout.splitlines() if line.endswith(" installed")}
    return [each for each in packages if each not in present]


def install_packages(packages: Sequence[str]) -> None:
    """Install what is missing of these on this machine; raises HarnessError."""
    with cache_lock("apt"):
        _apt_install(packages)


def _apt_install(packages: Sequence[str]) -> None:
    missing = _missing_packages(packages)
    if not missing:
        return
    print("installing " + " ".join(missing), file=sys.stderr, flush=True)
    run(["apt-get", "update", "-qq"], "refreshing the package lists")
    run(
        [
            "apt-get", "install", "-y", "-qq", "--no-install-recommends",
            "-o", "DPkg::Lock::Timeout=300", *missing,
        ],
        "installing packages",
    )  # fmt: skip


def _debian_mirror() -> Tuple[str, ...]:
    """This machine's own mirror, from apt's configuration; none: mmdebstrap's default."""
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI) $(ORIGIN) $(RELEASE) $(COMPONENT)"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
        text=True,
    )
    own = _own_codename()
    for line in listed.stdout.splitlines():
        words = line.split()
        if len(words) == 4 and words[1:] == ["Debian", own, "main"]:
            return (words[0],)
    return ()


def root_recipe(suite: str, packages: Sequence[str]) -> List[str]:
    """The build command without the folder and the mirror: what the cache key covers."""
    recipe = [
        "mmdebstrap",
        "--variant=essential",
        "--skip=check/empty",
        # A testing suite's index may be older than its own date of expiry.
        '--aptopt=Acquire::Check-Valid-Until "false"',
        '--aptopt=Acquire::Languages "none"',
    ]
    recipe += [f"--dpkgopt=path-exclude={each}" for each in EXCLUDED_PATHS]
    return [*recipe, f"--include={','.join(packages)}", suite]


def _ensure_chroot(release: Release) -> Path:
    packages = CEPH_PACKAGES + ROOT_PACKAGES + release.more_packages
    return ensure_root(f"root-{release.number}", root_recipe(release.suite, packages))


def ensure_root(name: str, recipe: Sequence[str]) -> Path:
    """A root in the cache, built by a recipe where it is not there yet.

    `recipe` is mmdebstrap's command line, suite last, without the folder and the mirror.
    """

    def build(folder: Path) -> None:
        install_packages(["mmdebstrap", "debian-archive-keyring"])
        # what it mounts there goes with it, also where it is killed for taking too long: a
        # folder with mounts in it must never be removed
        alone = ["unshare", "--mount", "--propagation", "private"]
        run([*alone, *recipe, str(folder), *_debian_mirror()], f"root for {recipe[-1]}")

    key = hashlib.sha256("\0".join(recipe).encode()).hexdigest()[:12]
    return ensure_built(name, key, build)


def ensure_built(name: str, key: str, build: Callable[[Path], None]) -> Path:
    """A folder in the cache, filled by `build` where there is none of that name and key yet."""
    folder = cache_folder() / f"{name}-{key}"
    if folder.is_dir():
        return folder
    with cache_lock(name):
        if not folder.is_dir():
            _build(name, folder, build)
    return folder


def _build(name: str, folder: Path, build: Callable[[Path], None]) -> None:
    """Build in a folder beside the real one, then rename: it is whole or not there."""
    for leftover in folder.parent.glob(f"tmp-{name}-*"):
        shutil.rmtree(leftover)
    print(f"building {folder}", file=sys.stderr, flush=True)
    began_s = time.monotonic()
    building = Path(tempfile.mkdtemp(prefix=f"tmp-{name}-", dir=folder.parent))
    try:
        building.chmod(0o755)
        build(building)
        os.rename(building, folder)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    took_s = time.monotonic() - began_s
    print(f"built {folder} in {took_s:.0f} s", file=sys.stderr, flush=True)
