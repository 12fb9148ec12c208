"""The plan that loads the volumes of OSDs anew, on pinned disks, one OSD at a time: a script."""

from __future__ import annotations

import shlex
from typing import Iterable, List

from ..fleet.loaded_off import Reload
from ..shell import CommandLine, arguments
from ..text import many
from .form import END, Script

# What comes next; the caches are off, so turning one on needs the admin's word.
MEASURE = "ceph wcache campaign start --consent-turn-on --accept-cost"

# On the host: $1 is the OSD, $2 the cluster.  The pin comes before anything is loaded, since a
# table copies the view of that moment (drivers/md/dm-table.c).  A device that is in use is never
# closed: lvchange and cryptsetup refuse it.  Whatever fails, the OSD is started again.
_ON_HOST = r"""set -eu
id=$1 fsid=$2 dir= unit=
if [ -L "/var/lib/ceph/$fsid/osd.$id/block" ]
then
    dir=/var/lib/ceph/$fsid/osd.$id unit=ceph-$fsid@osd.$id
elif [ -L "/var/lib/ceph/osd/ceph-$id/block" ]
then
    dir=/var/lib/ceph/osd/ceph-$id unit=ceph-osd@$id
else
    echo "osd.$id has no folder on this host" >&2
    exit 1
fi
tops=
for link in block block.db block.wal
do
    [ ! -L "$dir/$link" ] || tops="$tops $(readlink -f "$dir/$link")"
done
stack=$(lsblk -nrpso NAME,TYPE $tops | awk '!seen[$1]++')
of_type() { echo "$stack" | awk -v wanted="$1" '$2 == wanted { print $1 }'; }
view() { cat "/sys/class/block/$(basename "$(readlink -f "$1")")/queue/write_cache"; }
require_flushing() {
    [ "$(view "$1")" = "write back" ] || { echo "osd.$id: $1 drops flushes" >&2; exit 1; }
}
odd=$(echo "$stack" | awk '$2 !~ /^(crypt|lvm|part|disk)$/ { print $1 " (" $2 ")" }')
[ -z "$odd" ] || { echo "osd.$id: $odd cannot be made anew by this script" >&2; exit 1; }
for disk in $(of_type disk)
do
    name=$(basename "$disk")
    for file in "/sys/block/$name"/device/scsi_disk/*/cache_type
    do
        [ ! -e "$file" ] || echo "temporary write back" >"$file"
    done
    [ "$(view "$disk")" = "write back" ] || {
        echo "osd.$id: $disk cannot be pinned.  If queue/write_cache was set by hand or a rule:" >&2
        echo "  echo 'write back' >/sys/block/$name/queue/write_cache" >&2
        exit 1
    }
done
crypts=$(of_type crypt) volumes=$(of_type lvm) dropping=
for name in $crypts $volumes
do
    [ "$(view "$name")" = "write back" ] || dropping="$dropping $name"
done
[ -n "$dropping" ] || { echo "osd.$id: loaded as it must be already"; exit 0; }
osd_fsid=$(cat "$dir/fsid")
start() {
    # in a container, its own start opens them
    if [ -n "$crypts" ] && [ "$unit" = "ceph-osd@$id" ]
    then
        ceph-volume lvm activate --no-systemd "$id" "$osd_fsid"
    fi
    systemctl start "$unit"
}
systemctl stop "$unit"
trap start EXIT
for name in $crypts; do cryptsetup close "$name"; done
for name in $volumes; do lvchange -an "$name"; done
for name in $volumes; do lvchange -ay "$name"; done
for name in $volumes; do require_flushing "$name"; done
trap - EXIT
start
for name in $crypts
do
    tries=0
    until [ -e "$name" ] || [ $tries = 60 ]; do tries=$((tries + 1)); sleep 1; done
    require_flushing "$name"
done
echo "osd.$id: loaded anew"
"""

# Where the admin is.
_WHERE_CEPH_IS = r"""set -u
unprepared=
on_host() {{
cat <<'{end}'
{on_host}{end}
}}
prepare() {{
    echo "$1: $2"
    ssh -n "root@$1" "$2" || unprepared="$unprepared $1"
}}
until_true() {{
    tries=0
    until eval "$1"
    do
        tries=$((tries + 1))
        [ $tries -lt 120 ] || {{ echo "gave up waiting: $1" >&2; exit 1; }}
        sleep 5
    done
}}
reload() {{
    echo "osd.$2 on $1 ($3): waiting until it may stop"
    until_true "ceph osd ok-to-stop $2 >/dev/null 2>&1"
    on_host | ssh "root@$1" "sh -s $2 {fsid}" || {{
        echo "osd.$2 on $1: ended here; the others are as they were" >&2
        exit 1
    }}
    until_true "ceph osd dump | grep -q '^osd\.$2 up '"
}}"""
_AT_END = (
    "[ -z \"$unprepared\" ] || echo \"NOT prepared, so that the next boot brings it back:"
    "$unprepared\" >&2",
    "echo 'all are loaded anew; `ceph wcache status` says so once the probes reported'",
    f"echo 'next: {MEASURE}'",
)


def script(items: Iterable[Reload], fsid: str) -> Script:
    """The plan that an admin pastes; OSDs that no script can do are named in its notes."""
    items = tuple(items)
    todo = [one for one in items if not one.why_not]
    left = [one for one in items if one.why_not]
    hosts = tuple(dict.fromkeys(one.hostname for one in todo))
    lines: List[str] = []
    for hostname in hosts:
        quoted = shlex.quote(hostname)
        prepare = _prepare(one for one in todo if one.hostname == hostname)
        lines.append(f"prepare {quoted} {shlex.quote(prepare)}")
        lines += [
            f"reload {quoted} {one.osd_id} '{number} of {len(todo)}'"
            for number, one in enumerate(todo, 1) if one.hostname == hostname
        ]
    return Script(
        (
            f"The plan: the volumes of {many(len(todo), 'OSD')} on {many(len(hosts), 'host')} are "
            "loaded anew.",
            "Run it where `ceph` works as an admin and root has ssh to the hosts.  In this order:",
            "1. On each host `wcache-probe prepare`: from then on every boot pins its disks, too.",
            "   `--drive` names those that keep themselves off, which it would leave out: each of",
            "   their commits pays for a flush with nothing to write then.",
            "2. One OSD after the other, and only while `ceph osd ok-to-stop` allows it: its disks",
            "   are pinned, it is stopped, its LVs and dm-crypt devices are closed and opened and",
            "   must flush then, it is started, and must be up.",
            "No cache is turned on or off.  It ends at the first OSD that does not come back as it",
            "must; run again, it leaves alone what is loaded as it must be.",
            f"Then both modes can be measured: {MEASURE}",
            *(f"left out: osd.{one.osd_id} on {one.hostname}: {one.why_not}" for one in left),
            *(f"and on {one.hostname}, to have it pinned: {_prepare([one])}"
              for one in left if one.to_name),
        ),
        (
            *_WHERE_CEPH_IS.format(
                fsid=shlex.quote(fsid), end=END, on_host=_ON_HOST
            ).splitlines(),
            *lines, *_AT_END,
        ),
    )


def _prepare(items: Iterable[Reload]) -> CommandLine:
    """What has the next boot of a host pin the drives of these OSDs."""
    names = dict.fromkeys(name for one in items for name in one.to_name)
    return arguments(["wcache-probe", "prepare", *(f"--drive={name}" for name in names)])
