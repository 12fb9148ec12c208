#!/bin/sh
# Run a probe beside a cluster of vstart.sh, from the build folder of Ceph's source.
# It stays in the foreground until Ctrl-C, which restores.  It needs wcache-probe in PATH or in
# bin/.  Where OSDs are in plain files, its drives are simulated.  With `vstart.sh
# --bluestore-devs` it reads and toggles the drives that are there, as root.
set -eu

[ -f CMakeCache.txt ] || { echo "this is no build folder of Ceph's: $PWD" >&2; exit 1; }
here=$(cd -- "$(dirname -- "$0")" && pwd)
CEPH_CONF=$PWD/ceph.conf PATH=$PWD/bin:$PATH
export CEPH_CONF PATH
host=$(uname -n) home=$PWD/out/wcache
case $host in
    "" | *[!A-Za-z0-9._-]*) echo "a probe cannot have the host name $host" >&2; exit 1 ;;
esac

caps=
for verb in poll post; do
    caps="$caps${caps:+, }allow command \"wcache agent $verb\" with hostname=$host"
done
mkdir -p "$home"
(umask 077; ceph auth get-or-create "client.wcache.$host" mon 'profile crash' mgr "$caps" \
    > "$home/keyring")
# the data of such a cluster is worthless
ceph config set mgr mgr/wcache/throwaway_cluster true

set -- wcache-probe run --osd-data "$PWD/dev/osd*"
for block in dev/osd*/block; do
    [ -b "$block" ] || set -- python3 "$here/wcache_sim" "$here/wcache_sim/two_drives.toml" run
done
exec "$@" --hostname "$host" --conf "$CEPH_CONF" --keyring "$home/keyring" \
    --state-dir "$home" --run-dir "$home/run"
