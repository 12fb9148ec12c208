"""How a probe comes onto the guest and goes again: by what `agent add` and `agent rm` print.

The guest has no sshd, no systemd and no package of ours.  So `ssh` keeps the command and its
input, and the guest's agent runs them there as they are; `systemctl` does what the unit says; and
/usr/bin/wcache-probe runs this tree, and is told where the lab's OSDs are and that the lab makes
the initramfs; `prepare` is followed by what a boot leaves.
"""

from __future__ import annotations

from harness import ClusterAccess

from .agent import HANG_S, Result
from .lab import Lab
from .probe import BOOTED_SINCE, OSD_DATA, PACKAGES, STATE_DIR
from .processes import LabError

LOG = "probe.log"  # on the shared folder
_ASKED = "on-host"
# A guest without KVM beside a load of ten takes ten times as long as one by itself.
PREPARED_S = 1200.0

# Takes `ssh root@HOST COMMAND` with its input, and `ssh -n root@HOST COMMAND`.
_SSH = """#!/bin/sh
if [ "$1" = -n ]; then shift; exec </dev/null; fi
[ "$1" = root@{hostname} ] && [ $# = 2 ] && [ ! -e {folder}/{asked}.command ] || exit 255
printf '%s' "$2" >{folder}/{asked}.command && cat >{folder}/{asked}.input
"""

_PROGRAM = f"""#!/bin/sh
export PYTHONPATH={PACKAGES}
verb=$1
shift
case $verb in
prepare)
    python3 -m wcache_probe prepare --image-elsewhere --osd-data '{OSD_DATA}' "$@" &&
        {" ".join(BOOTED_SINCE)} {STATE_DIR}
    exit
    ;;
run|restore) exec python3 -m wcache_probe "$verb" --osd-data '{OSD_DATA}' "$@" ;;
esac
exec python3 -m wcache_probe "$verb" "$@"
"""

_SYSTEMCTL = f"""#!/bin/sh
line_of() {{
    sed -n "s/^$1=//p" /wcache/templates/wcache-probe.service | sed "s/%H/$(uname -n)/g"
}}
case $* in
"enable --now wcache-probe")
    # the program keeps the id: setsid of what leads no group does not fork
    setsid $(line_of ExecStart) >>/share/{LOG} 2>&1 </dev/null &
    echo $! >/run/wcache-probe.pid
    ;;
"disable --now wcache-probe")
    pid=$(cat /run/wcache-probe.pid)
    kill -TERM "$pid"
    while [ -e "/proc/$pid" ]; do sleep 0.1; done
    $(line_of ExecStopPost) >>/share/{LOG} 2>&1 </dev/null
    ;;
*) exit 1 ;;
esac
"""


class Arrival:
    """A guest without a probe, and an admin who pastes what `ceph wcache agent` prints."""

    def __init__(self, lab: Lab, cluster: ClusterAccess, hostname: str) -> None:
        self._lab = lab
        self._cluster = cluster
        self._folder = cluster.folder / "admin"
        self._folder.mkdir()
        ssh = self._folder / "ssh"
        ssh.write_text(_SSH.format(hostname=hostname, folder=self._folder, asked=_ASKED))
        ssh.chmod(0o755)
        for path, text in (
            ("/usr/bin/wcache-probe", _PROGRAM), ("/usr/bin/systemctl", _SYSTEMCTL),
        ):
            (lab.share / "program").write_text(text)
            lab.guest.sh(f"install -m 755 /share/program {path}").checked()

    def paste(self, script: str) -> str:
        """Run a script of `agent add` or `agent rm`, and on the host what it asks for there.

        What the host said; raises HarnessError or LabError where something failed.
        """
        paths = f"{self._folder}:/usr/sbin:/usr/bin:/sbin:/bin"
        self._cluster.run_inside(
            ["/usr/bin/env", f"PATH={paths}", "/bin/sh"], input_text=script, timeout_s=HANG_S
        )
        command, given = (self._folder / f"{_ASKED}.{name}" for name in ("command", "input"))
        if not command.exists():
            raise LabError("the script asked for nothing on the host")
        argv = ["/bin/sh", "-c", f"{{ {command.read_text()}; }} 2>&1"]
        done: Result = self._lab.guest.run(argv, stdin=given.read_text(), timeout_s=PREPARED_S)
        command.unlink()
        return done.checked()

    def log(self) -> str:
        """What the probe has printed so far."""
        path = self._lab.share / LOG
        return path.read_text(errors="replace") if path.exists() else ""
