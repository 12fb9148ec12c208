# What a machine runs first, in namespaces of its own: makes its root, and becomes systemd.
# $1 the hosts' root, $2 the machine's folder, $3 its name, $4 the store of images, $5 the
# project, $6 its network ("address/bits"), $7... its drives
set -e
base=$1 folder=$2 name=$3 store=$4 project=$5 address=$6
shift 6
# the /proc of whoever started the rig is mounted still: the pid as it is seen there
read -r pid rest < /proc/self/stat
echo "$pid" > "$folder/pid"
echo "$name" > /proc/sys/kernel/hostname
ip link set lo up
# its other end is put onto the bridge by whoever reads the pid
while ! ip link set eth0 up 2>/dev/null; do sleep 0.05; done
ip address add "$address" dev eth0

mount --make-rprivate /
mount -t overlay overlay -o "lowerdir=$base,upperdir=$folder/upper,workdir=$folder/work" \
    "$folder/root"
cd "$folder/root"
mount -t proc proc proc
mount -t sysfs sysfs sys
# without controllers, whatever the machine outside has: systemd and podman do not need any
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount --rbind /dev dev
mount --make-rslave dev
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mkdir -p run/lock run/lvm run/udev/data var/lib/containers images "$(dirname "./$project")" mnt
# podman's own overlays cannot lie on an overlay
mount --bind "$folder/containers" var/lib/containers
mount --bind "$store" images
mount -o remount,bind,ro images
mkdir -p "./$project"
mount --bind "$project" "./$project"
mount -o remount,bind,ro "./$project"
# a machine has its own drives only: cephadm looks at all that it sees, again and again
mkdir run/drives
for drive in "$@"; do
    ln -s "$(readlink "/sys/block/${drive#/dev/}")" "run/drives/${drive#/dev/}"
    # there is no udevd, whose data ceph-volume wants
    read -r number < "/sys/block/${drive#/dev/}/dev"
    printf 'I:1\nE:ID_MODEL=rig\nG:systemd\n' > "run/udev/data/b$number"
done
mount --bind run/drives sys/block
pivot_root . mnt
umount -l /mnt
exec env -i container=x PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system
