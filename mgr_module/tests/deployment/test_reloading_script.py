"""The script of `drive reload` on a host of files and stand-ins: its steps, and their order."""

import os
import subprocess

import pytest
from wcache.core.fleet.foreign_rules import Reload
from wcache.deployment.scripts import reloading

FSID = "00000000-0000-4000-8000-000000000001"
BACK, THROUGH = "write back", "write through"
OSD = "var/lib/ceph/osd/ceph-3"
CEPHADM = f"var/lib/ceph/{FSID}/osd.3"

# Each stand-in writes down its call; a volume copies the view of its disk when it is loaded.
PROGRAMS = {
    "ceph": """
        case "$*" in
        "osd ok-to-stop 3") [ ! -e "$ROOT/never-ok" ] ;;
        "osd dump") echo "osd.3 up   in  weight 1" ;;
        *) exit 22 ;;
        esac""",
    "ssh": 'if [ "$1" = -n ]; then shift; exec </dev/null; fi\n'
    '[ "$1" = root@h1 ] || exit 255; shift; exec sh -c "$*"',
    "wcache-probe": '[ "$1" = prepare ] && [ ! -e "$ROOT/cannot-prepare" ]',
    "systemctl": ":",
    "lsblk": 'cat "$ROOT/stack"',
    "lvchange": """
        [ ! -e "$ROOT/busy" ] || { echo "in use" >&2; exit 5; }
        [ "$1" = -an ] || cp "$ROOT/sys/class/block/sda/queue/write_cache" \\
            "$ROOT/sys/class/block/dm-0/queue/write_cache" """,
    "cryptsetup": 'rm "$ROOT/dev/mapper/crypt"',
    "ceph-volume": 'ln -s "$ROOT/dev/dm-1" "$ROOT/dev/mapper/crypt"; '
    'echo "write back" >"$ROOT/sys/class/block/dm-1/queue/write_cache"',
    "sleep": ":",
}


class Host:
    def __init__(self, root, folder=OSD, crypt=False):
        self.root = root
        for name, view in (("sda", THROUGH), ("dm-0", THROUGH), ("dm-1", THROUGH)):
            self.file(f"sys/class/block/{name}/queue/write_cache", view)
            self.file(f"dev/{name}", "")
        self.file("sys/block/sda/device/scsi_disk/0:0:0:0/cache_type", THROUGH)
        self.file(f"{folder}/fsid", "osd-fsid")
        (root / "dev/mapper").mkdir()
        (root / "dev/mapper/volume").symlink_to(root / "dev/dm-0")
        (root / "dev/mapper/crypt").symlink_to(root / "dev/dm-1")
        top = "crypt" if crypt else "volume"
        (root / folder / "block").symlink_to(root / "dev/mapper" / top)
        rows = [("crypt", "crypt")] * crypt + [("volume", "lvm")]
        stack = [f"{root}/dev/mapper/{name} {kind}" for name, kind in rows]
        self.file("stack", "\n".join([*stack, f"{root}/dev/sda disk", ""]))
        for name, body in PROGRAMS.items():
            self.file(f"bin/{name}", f'#!/bin/sh\necho "{name} $*" >>"$ROOT/calls"\n{body}\n')
            (root / "bin" / name).chmod(0o755)

    def file(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def view(self, name):
        return (self.root / "sys/class/block" / name / "queue/write_cache").read_text().strip()

    def run(self, to_name=()):
        """The script's exit code, what it said, and the calls it made; the pin raises the view."""
        text = reloading([Reload("h1", 3, ("dm-0",), to_name=to_name)], FSID)
        text = text.replace('"/var/lib', f'"{self.root}/var/lib').replace(
            "dir=/var/lib", f"dir={self.root}/var/lib"
        ).replace('"/sys/', f'"{self.root}/sys/')
        pinning = 'echo "temporary write back" >"$file"'
        assert pinning in text
        # what drivers/scsi/sd.c does: the disk's queue follows
        raised = f'echo "write back" >{self.root}/sys/class/block/sda/queue/write_cache'
        text = text.replace(pinning, f'{{ {pinning}; [ -e "$ROOT/flagged" ] || {raised}; }}')
        path = f"{self.root}/bin:{os.environ['PATH']}"
        done = subprocess.run(
            ["sh"], input=text, text=True, capture_output=True, timeout=60, check=False,
            env={**os.environ, "ROOT": str(self.root), "PATH": path},
        )
        calls = (self.root / "calls").read_text().replace(f"{self.root}/dev/mapper/", "")
        kept = ("systemctl", "lvchange", "cryptsetup", "ceph-volume")
        self.calls = calls.splitlines()
        self.order = [line.split()[0] for line in self.calls]
        return done, [line for line in calls.splitlines() if line.split()[0] in kept]


def test_an_osd_is_stopped_its_volume_loaded_on_a_pinned_disk_and_it_is_started(tmp_path):
    host = Host(tmp_path)
    done, calls = host.run()
    assert done.returncode == 0, done.stderr
    assert "osd.3: loaded anew" in done.stdout
    assert calls == [
        "systemctl stop ceph-osd@3", "lvchange -an volume", "lvchange -ay volume",
        "systemctl start ceph-osd@3",
    ]
    assert (host.view("sda"), host.view("dm-0")) == (BACK, BACK)
    assert host.order.index("wcache-probe") < host.order.index("systemctl")


@pytest.mark.parametrize("prepared", [True, False])
def test_it_says_where_it_is_what_the_next_boot_undoes_and_what_comes_next(tmp_path, prepared):
    host = Host(tmp_path)
    if not prepared:
        host.file("cannot-prepare", "")
    done, _ = host.run()
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stdout.splitlines() if line]
    assert said[0] == "h1: wcache-probe prepare"
    assert said[1] == "osd.3 on h1 (1 of 1): waiting until it may stop"
    assert said[-1] == "next: ceph wcache campaign start --consent-turn-on --accept-cost"
    assert ("NOT prepared, so that the next boot brings it back: h1" in done.stderr) is not prepared


def test_the_drives_that_prepare_would_leave_out_are_named_to_it(tmp_path):
    host = Host(tmp_path)
    done, _ = host.run(to_name=("sda", "x'; touch $ROOT/broken-out; '"))
    assert done.returncode == 0, done.stderr
    (call,) = [line for line in host.calls if line.startswith("wcache-probe ")]
    assert call == "wcache-probe prepare --drive=sda --drive=x'; touch $ROOT/broken-out; '"
    assert not (tmp_path / "broken-out").exists()


@pytest.mark.parametrize(("folder", "unit"), [(OSD, "ceph-osd@3"), (CEPHADM, f"ceph-{FSID}@osd.3")])
def test_a_crypt_device_is_closed_first_and_opened_by_whoever_has_the_key(tmp_path, folder, unit):
    host = Host(tmp_path, folder, crypt=True)
    if folder == CEPHADM:  # the container's start opens it
        host.file("bin/systemctl", '#!/bin/sh\necho "systemctl $*" >>"$ROOT/calls"\n'
                  '[ "$1" = stop ] || exec ceph-volume as the container does\n')
    done, calls = host.run()
    assert done.returncode == 0, done.stderr
    activate = "ceph-volume lvm activate --no-systemd 3 osd-fsid"
    began = [f"systemctl stop {unit}", "cryptsetup close crypt", "lvchange -an volume",
             "lvchange -ay volume"]
    if folder == OSD:
        assert calls == [*began, activate, f"systemctl start {unit}"]
    else:
        assert calls == [*began, f"systemctl start {unit}", "ceph-volume as the container does"]


def test_what_is_loaded_as_it_must_be_is_not_stopped(tmp_path):
    host = Host(tmp_path)
    assert host.run()[0].returncode == 0
    (tmp_path / "calls").unlink()
    done, calls = host.run()
    assert (done.returncode, calls) == (0, [])
    assert "already" in done.stdout


def test_an_osd_whose_volume_is_in_use_is_started_again_and_the_script_ends(tmp_path):
    host = Host(tmp_path)
    host.file("busy", "")
    done, calls = host.run()
    assert done.returncode == 1
    assert calls == ["systemctl stop ceph-osd@3", "lvchange -an volume",
                     "systemctl start ceph-osd@3"]
    assert "all are loaded anew" not in done.stdout


@pytest.mark.parametrize("why", ["flagged", "odd", "nowhere"])
def test_where_the_disk_is_not_pinned_or_not_followed_no_osd_is_stopped(tmp_path, why):
    host = Host(tmp_path)
    if why == "flagged":  # from Linux 6.11 on, by a rule of queue/write_cache
        host.file("flagged", "")
    elif why == "odd":
        host.file("stack", "/dev/md0 raid1\n/dev/sda disk\n")
    else:
        (tmp_path / OSD / "block").unlink()
    done, calls = host.run()
    assert (done.returncode, calls) == (1, [])
    wanted = {"flagged": "echo 'write back' >", "odd": "md0 (raid1)", "nowhere": "no folder"}
    assert wanted[why] in done.stderr


@pytest.mark.slow
def test_it_waits_for_ok_to_stop_and_gives_up(tmp_path):
    host = Host(tmp_path)
    host.file("never-ok", "")
    done, calls = host.run()
    assert (done.returncode, calls) == (1, [])
    assert "gave up waiting: ceph osd ok-to-stop 3" in done.stderr
