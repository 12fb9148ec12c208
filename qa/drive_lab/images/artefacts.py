"""What the guest boots from: kernel, initramfs and root image, built once and cached.

Each artefact is a folder under ``${XDG_CACHE_HOME:-~/.cache}/wcache`` whose name carries a
hash of its recipe.  It is built beside its final place and renamed into it, under a lock,
so an interrupted build leaves nothing that a later run would trust.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import inspect
import lzma
import os
import shutil
import struct
import subprocess
import tempfile
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Iterator, Sequence

GUEST = Path(__file__).resolve().parents[1] / "guest"

HOST_PACKAGES = (
    "qemu-system-x86",
    "qemu-utils",
    "seabios",
    "ipxe-qemu",
    "nbdkit",
    "nbdkit-plugin-python",
    "busybox-static",
    "cpio",
    "mmdebstrap",
    "e2fsprogs",
    "kmod",
    "iproute2",
    "util-linux",
)

# Present in every guest.  mount is a package of its own in newer Debian.
GUEST_PACKAGES = (
    "bcache-tools",
    "busybox-static",
    "ceph-common",
    "ceph-osd",
    "cryptsetup-bin",
    "fio",
    "hdparm",
    "iproute2",
    "kmod",
    "lsscsi",
    "lvm2",
    "mdadm",
    "mount",
    "nvme-cli",
    "procps",
    "python3",
    "python3-rados",
    "qemu-guest-agent",
    "sdparm",
    "sg3-utils",
    "smartmontools",
    "udev",
    "util-linux",
)

# ceph-volume is part of ceph-osd in 16 and a package of its own after that.
FLAVOURS = {
    16: ("bookworm", GUEST_PACKAGES),
    18: ("trixie", (*GUEST_PACKAGES, "ceph-volume")),
    20: ("forky", (*GUEST_PACKAGES, "ceph-volume")),
}

# Loaded by the initramfs, with all they depend on, before the root is there.
BOOT_MODULES = ("virtio_pci", "virtio_blk", "ext4", "crc32c_generic", "9p", "9pnet_virtio")

# Offered to the guest through /lib/modules.
GUEST_MODULES = (
    *BOOT_MODULES,
    "ahci", "megaraid_sas", "mptsas", "nvme", "sd_mod", "sg", "virtio_console", "virtio_net",
    "virtio_scsi", "target_core_user", "tcm_loop",
    "bcache", "dm_crypt", "dm_delay", "dm_flakey", "dm_mod", "dm_multipath", "dm_snapshot",
    "loop", "md_mod", "null_blk", "overlay", "raid1", "scsi_debug", "aesni_intel",
    "algif_skcipher", "cbc", "essiv", "sha256_generic", "xts",
)  # fmt: skip

ROOT_IMAGE_BYTES = 3 << 30


class BuildError(Exception):
    """An artefact could not be built; the message says what to do."""


@dataclass(frozen=True)
class Artefacts:
    """Paths a guest boots from; all are read-only and shared by every lab on this machine."""

    vmlinux: Path
    initramfs: Path
    modules: Path
    root_image: Path


def cache_root() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "wcache"


def ensure(release: int) -> Artefacts:
    """Return the artefacts for a Ceph release, building what is missing (about 40 s each)."""
    if release not in FLAVOURS:
        raise BuildError(f"no guest for Ceph {release}: choose one of {sorted(FLAVOURS)}")
    install_host_packages()
    kernel = _kernel()
    root = _root(release)
    return Artefacts(
        vmlinux=kernel / "vmlinux",
        initramfs=kernel / "initramfs.cpio.gz",
        modules=kernel / "modules",
        root_image=root / "root.img",
    )


def _run(*argv: str, cwd: Path | None = None) -> str:
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-8:])
        raise BuildError(f"{' '.join(argv[:6])} failed (exit {done.returncode}):\n{tail}")
    return done.stdout


def install_host_packages() -> None:
    """Install what the lab needs of this machine, where it is missing."""
    missing = [name for name in HOST_PACKAGES if not _is_installed(name)]
    if not missing:
        return
    if os.geteuid() != 0:
        raise BuildError(f"install these packages first: {' '.join(missing)}")
    install = (  # a fresh machine may be installing its own updates
        "apt-get", "-o", "DPkg::Lock::Timeout=300", "install", "-y", "--no-install-recommends",
        *missing,
    )
    try:
        _run(*install)
    except BuildError:
        _run("apt-get", "update")
        _run(*install)


def _is_installed(package: str) -> bool:
    done = subprocess.run(
        ["dpkg-query", "-W", "-f", "${db:Status-Status}", package],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout == "installed"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def compiled_folder(project: Path) -> Path:
    """Where guests keep what Python compiled of a project, for the next guest.

    Compiling all of the probe takes a guest without KVM half a minute.  Python replaces a file
    whole, so that guests may share it.
    """
    key = hashlib.sha256(str(project).encode()).hexdigest()[:12]
    folder = cache_root() / f"lab-compiled-{key}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def cached(name: str, recipe: Sequence[str], build: Callable[[Path], None]) -> Path:
    """Return the folder that ``build`` filled for this recipe, building it at most once."""
    key = hashlib.sha256("\0".join(recipe).encode()).hexdigest()[:12]
    final = cache_root() / f"{name}-{key}"
    if final.is_dir():
        return final
    with _locked(cache_root() / f"{name}-{key}.lock"):
        if not final.is_dir():
            work = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=cache_root()))
            try:
                build(work)
                work.chmod(0o755)
                work.rename(final)
            finally:
                shutil.rmtree(work, ignore_errors=True)
    return final


# kernel ------------------------------------------------------------------------------------


def _kernel() -> Path:
    package = _kernel_package()
    recipe = [package, (GUEST / "initramfs_init").read_text(), *GUEST_MODULES]
    recipe += [inspect.getsource(step) for step in (_build_kernel, _build_initramfs)]
    return cached("lab-kernel", recipe, lambda work: _build_kernel(package, work))


def _kernel_package() -> str:
    """Name and version of the current kernel, as ``apt-get download`` takes it."""
    for attempt in (0, 1):
        try:
            depends = _run("apt-cache", "depends", "linux-image-amd64")
            names = [line.split()[-1] for line in depends.splitlines() if "Depends: linux" in line]
            shown = _run("apt-cache", "show", "--no-all-versions", names[0])
            version = next(
                line.split()[1] for line in shown.splitlines() if line.startswith("Version:")
            )
            return f"{names[0]}={version}"
        except (BuildError, IndexError, StopIteration):
            if attempt:
                raise BuildError("apt knows no linux-image-amd64: run this on Debian") from None
            _run("apt-get", "update")
    raise AssertionError


def _build_kernel(package: str, work: Path) -> None:
    unpacked = work / "unpacked"
    try:
        _run("apt-get", "download", package, cwd=work)
    except BuildError:
        _run("apt-get", "update")
        _run("apt-get", "download", package, cwd=work)
    (deb,) = work.glob("*.deb")
    _run("dpkg", "-x", str(deb), str(unpacked))
    (image,) = (unpacked / "boot").glob("vmlinuz-*")
    version = image.name[len("vmlinuz-") :]
    (work / "vmlinux").write_bytes(decompressed_kernel(image.read_bytes()))

    (lib_modules,) = (path for path in (unpacked / "lib", unpacked / "usr/lib") if path.is_dir())
    _run("depmod", "-b", str(lib_modules.parent), version)
    source = lib_modules / "modules" / version
    closure = ModuleClosure.read(source)
    for relative in closure.files(GUEST_MODULES):
        target = work / "modules" / version / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / relative, target)
    for index in source.glob("modules.builtin*"):
        shutil.copy(index, work / "modules" / version / index.name)
    # depmod wants <base>/lib/modules/<version>
    staging = work / "staging"
    (staging / "lib").mkdir(parents=True)
    (work / "modules").rename(staging / "lib" / "modules")
    _run("depmod", "-b", str(staging), version)
    (staging / "lib" / "modules").rename(work / "modules")

    _build_initramfs(work, source, closure.files(BOOT_MODULES))
    for leftover in (unpacked, staging, deb):
        shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()


@dataclass(frozen=True)
class ModuleClosure:
    """Kernel modules by name, with the dependency order that modules.dep gives."""

    depends: dict[str, tuple[str, ...]]
    by_name: dict[str, str]

    @staticmethod
    def read(folder: Path) -> ModuleClosure:
        depends: dict[str, tuple[str, ...]] = {}
        for line in (folder / "modules.dep").read_text().splitlines():
            path, _, needs = line.partition(":")
            depends[path] = tuple(needs.split())
        by_name = {Path(path).name.split(".ko")[0].replace("-", "_"): path for path in depends}
        return ModuleClosure(depends=depends, by_name=by_name)

    def files(self, names: Sequence[str]) -> list[str]:
        """Paths to load for these modules, dependencies first; a built-in one has no path."""
        ordered: dict[str, None] = {}
        for name in names:
            path = self.by_name.get(name)
            if path is not None:
                # modules.dep lists the nearest dependency first
                for needed in (*reversed(self.depends[path]), path):
                    ordered[needed] = None
        return list(ordered)


def decompressed_kernel(image: bytes) -> bytes:
    """Return the ELF payload of a bzImage, which QEMU boots by PVH three seconds sooner.

    Offsets are those of the x86 boot protocol (Documentation/arch/x86/boot.rst).  An unknown
    compression returns the image itself: QEMU boots that as well.
    """
    (setup_sectors,) = struct.unpack_from("<B", image, 0x1F1)
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = (setup_sectors + 1) * 512 + offset
    payload = image[start : start + length]
    if payload[:6] == b"\xfd7zXZ\x00":
        return lzma.LZMADecompressor().decompress(payload)
    if payload[:2] == b"\x1f\x8b":
        return zlib.decompressobj(wbits=31).decompress(payload)
    return image


def _build_initramfs(work: Path, modules: Path, files: Sequence[str]) -> None:
    tree = work / "initramfs"
    for folder in ("bin", "dev", "proc", "sys", "root", "modules"):
        (tree / folder).mkdir(parents=True)
    busybox = shutil.which("busybox")
    if busybox is None:
        raise BuildError("busybox is missing: install busybox-static")
    shutil.copy(busybox, tree / "bin" / "busybox")
    names: list[str] = []
    for relative in files:
        names.append(f"{len(names):02d}-{Path(relative).name}")
        shutil.copy(modules / relative, tree / "modules" / names[-1])
    init = tree / "init"
    shutil.copy(GUEST / "initramfs_init", init)
    init.chmod(0o755)
    listing = "\n".join(str(path.relative_to(tree)) for path in sorted(tree.rglob("*")))
    packed = subprocess.run(
        ["cpio", "--create", "--format=newc", "--quiet", "--owner=0:0"],
        cwd=tree, input=listing.encode(), capture_output=True, check=True,
    ).stdout  # fmt: skip
    (work / "initramfs.cpio.gz").write_bytes(gzip.compress(packed, compresslevel=1))
    shutil.rmtree(tree)


# root --------------------------------------------------------------------------------------


def _root(release: int) -> Path:
    suite, packages = FLAVOURS[release]
    recipe = [suite, *packages, str(ROOT_IMAGE_BYTES), inspect.getsource(_build_root)]
    return cached(f"lab-root{release}", recipe, lambda work: _build_root(suite, packages, work))


def _build_root(suite: str, packages: Sequence[str], work: Path) -> None:
    tree = work / "tree"
    _run(
        "mmdebstrap",
        "--variant=minbase",
        # a suite under development is mirrored later than its release file says
        '--aptopt=Acquire::Check-Valid-Until "false"',
        "--include=" + ",".join(packages),
        suite,
        str(tree),
    )
    for mount_point in ("wcache", "share", "lib/modules"):
        (tree / mount_point).mkdir(parents=True, exist_ok=True)
    image = work / "root.img"
    with image.open("wb") as handle:
        handle.truncate(ROOT_IMAGE_BYTES)
    _run(
        "mke2fs", "-q", "-F", "-t", "ext4", "-d", str(tree), "-N", "131072",
        # or the guest's kernel would zero inode tables in the middle of a measurement
        "-E", "lazy_itable_init=0,lazy_journal_init=0", str(image),
    )  # fmt: skip
    shutil.rmtree(tree)
