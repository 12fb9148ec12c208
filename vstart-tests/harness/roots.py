"""How to run a program of a release: plainly, or inside its chroot.

Each program in a chroot gets a mount namespace of its own, in which the chroot's mounts are
made before the program is executed in place.  So no mount is ever seen outside, none can be
left behind by a kill -9, and any number of clusters share one root.  The process that was
started *is* the program: its pid is the real one.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Sequence

SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
# In the root of a rig whose programs have a pid namespace of their own: with it a probe, which
# cannot see all programs from there, toggles the loop devices of a throwaway cluster.
RIG_FILE = "etc/rig-with-loop-devices-of-its-own"

# unshare has made every mount of the namespace a slave: what is mounted here stays here,
# while loop devices and unmounts of the host are still seen.  /tmp comes along because
# clusters and test folders live there.  $1 root, $2 project, $3 cluster folder.
_ENTER = """
set -e
root=$1 project=$2 folder=$3
shift 3
for each in proc sys dev tmp; do mount --rbind "/$each" "$root/$each"; done
case $folder in /tmp/*) ;; *) mkdir -p "$root$folder"; mount --bind "$folder" "$root$folder" ;; esac
mkdir -p "$root$project"
mount --bind "$project" "$root$project"
mount -o remount,bind,ro "$root$project"
exec chroot "$root" "$@"
"""


@dataclass(frozen=True)
class Root:
    """Where a release's programs are: `path` is its chroot, or None for this machine."""

    release: int
    path: Optional[Path]

    def wrap(self, argv: Sequence[str], *, project: Path, folder: Path) -> List[str]:
        """The command that runs `argv` inside, with project and cluster folder visible there.

        Both are visible under the same path as outside; the project read-only in a chroot.
        """
        if self.path is None:
            return list(argv)
        return [
            "/usr/bin/unshare", "--mount", "--propagation", "slave",
            "/bin/sh", "-c", _ENTER, "enter", str(self.path), str(project), str(folder), *argv,
        ]  # fmt: skip

    def inside(self, path: str) -> Path:
        """The outside path of a file of the release (a symlink in it is not followed)."""
        return Path(path) if self.path is None else self.path / path.lstrip("/")


def clean_environment(extra: Mapping[str, str]) -> Dict[str, str]:
    """The environment of everything in a cluster: system programs only, nothing inherited."""
    return {
        "PATH": SYSTEM_PATH,
        "HOME": os.environ.get("HOME", "/root"),
        "LC_ALL": "C.UTF-8",
        "TERM": os.environ.get("TERM", "dumb"),
        # The project is read-only in a chroot, and must stay clean outside one.
        "PYTHONDONTWRITEBYTECODE": "1",
        **extra,
    }
