"""Files out of a release's source, from its Debian source package.

Fetched once and kept in the cache: the package is a quarter of a gigabyte, what is wanted of
it a few megabytes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Sequence

from .errors import HarnessError
from .releases import cache_folder, cache_lock, ensure_release, find_release, run

ARCHIVE_KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"


def ensure_source(number: int, wanted: Sequence[str], without: Sequence[str] = ()) -> Path:
    """The folder that holds what matches `wanted` (tar's wildcards) of a release's source.

    Not what matches `without`, and not what Debian has left out of its package.

    Needs apt, and the release's root for the address of its mirror.  Raises HarnessError
    where the package cannot be had, or holds nothing like one of the wanted.
    """
    release = find_release(number)
    key = hashlib.sha256("\0".join((release.suite, *wanted, *without)).encode()).hexdigest()[:12]
    folder = cache_folder() / f"source-{number}-{key}"
    with cache_lock(f"source-{number}"):
        if not folder.is_dir():
            root = ensure_release(number, native_allowed=False)
            _fetch(release.suite, root.inside("/etc/apt/sources.list"), wanted, without, folder)
    return folder


def _fetch(
    suite: str, listed: Path, wanted: Sequence[str], without: Sequence[str], folder: Path
) -> None:
    """Unpack beside the real folder, then rename: it is whole or not there."""
    with tempfile.TemporaryDirectory(prefix=f"tmp-source-{suite}-", dir=folder.parent) as name:
        home = Path(name)
        home.chmod(0o755)
        for each in ("state/lists/partial", "cache/archives/partial", "tree"):
            (home / each).mkdir(parents=True)
        (home / "status").touch()
        (home / "sources.list").write_text(
            f"deb-src [signed-by={ARCHIVE_KEYS}] {_mirror(listed)}\n"
        )
        (home / "apt.conf").write_text(
            f'Dir::State "{home}/state";\nDir::State::status "{home}/status";\n'
            f'Dir::Cache "{home}/cache";\nDir::Etc::sourcelist "{home}/sources.list";\n'
            'Dir::Etc::sourceparts "-";\nAPT::Sandbox::User "root";\n'
            # a testing suite's index may be older than its own date of expiry
            'Acquire::Check-Valid-Until "false";\nAcquire::Languages "none";\n'
        )
        with_conf = ["env", f"APT_CONFIG={home}/apt.conf", "apt-get", "-qq"]
        run([*with_conf, "update"], "refreshing the lists of sources")
        within = ["sh", "-c", 'cd "$0" && exec "$@"', str(home)]
        run([*within, *with_conf, "source", "--download-only", "--tar-only", "ceph"],
            f"source of {suite}")
        (archive,) = home.glob("ceph_*.orig.tar.*")
        run(
            ["tar", "-xf", str(archive), "-C", str(home / "tree"), "--strip-components=1",
             "--no-same-owner", *(f"--exclude=ceph-*/{each}" for each in without),
             "--wildcards", *(f"ceph-*/{each}" for each in wanted)],
            f"unpacking the source of {suite}",
        )
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(home / "tree", folder)


def _mirror(listed: Path) -> str:
    """Address, suite and components that a root was built from."""
    for line in listed.read_text(encoding="utf-8").splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "deb":
            return rest.strip()
    raise HarnessError(f"{listed} does not say where packages are from")
