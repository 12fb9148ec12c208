"""The probe on drives whose OSD stands on a volume, and on dm-crypt above it.

Device mapper copies the kernel's view when a table is loaded, so what was activated in which
mode decides whether a flush ever reaches the drive.
"""

import pytest
from drive_lab.disk import kernel_view
from probe_bench import BACK, THROUGH
from wcache.core.protocol import ReleaseRequest

pytestmark = pytest.mark.lab

VOLUME, CRYPT = "/dev/labvg/osd", "/dev/mapper/labcrypt"
FORMAT = (
    f"echo secret | cryptsetup -q luksFormat --type luks2 --pbkdf pbkdf2 "
    f"--pbkdf-force-iterations 1000 {VOLUME} -"
)
OPEN = f"echo secret | cryptsetup open {VOLUME} labcrypt --key-file -"
CLOSE = "cryptsetup close labcrypt"


@pytest.fixture(params=["scsi", pytest.param("sata", marks=pytest.mark.long)])
def probe(request, bench, probe_of):
    """The probe of a drive that a volume takes the whole of."""
    disk = bench.all_on(request.param)
    bench.sh(
        f"vgcreate -qq -y labvg {disk.path} && lvcreate -qq -y -l 100%FREE -n osd labvg"
    ).checked()
    bench.settle()
    probe = probe_of(request.param)
    yield probe
    probe.end()
    bench.all_on(request.param)
    bench.sh(
        f"{CLOSE} 2>/dev/null || :; vgremove -qq -f labvg && pvremove -qq {disk.path}"
    ).checked()


def activate(bench, on):
    bench.sh(f"lvchange -qq -a{'y' if on else 'n'} labvg/osd").checked()
    bench.settle()


def view_of(bench, path):
    name = bench.sh(f"basename $(readlink -f {path})").checked().strip()
    return kernel_view(bench.lab.guest, name)


def test_under_a_volume_that_drops_flushes_the_cache_stays_off(bench, probe):
    disk = probe.begin(BACK, VOLUME)
    activate(bench, False)
    disk.set_cache_type("write through")
    activate(bench, True)
    seen = probe.look()
    (layer,) = seen["state"]["layers"]
    assert (layer["kind"], layer["kernel_view"]) == ("lvm", "write through")
    for consent in (True, False):
        outcome = probe.set_mode(BACK, consent=consent)
        assert (outcome["kind"], outcome["refused"]) == ("failure", True)
        assert layer["name"] in outcome["message"]
        assert (probe.mode(), probe.journal()) == (THROUGH, [])
        probe.end()
    probe.check_safe("stays-off", VOLUME)
    # the cure that the finding names
    activate(bench, False)
    disk.set_cache_type("temporary write back")
    activate(bench, True)
    assert probe.set_mode(BACK)["kind"] == "state"
    assert probe.mode() is BACK
    probe.check_safe("cured", VOLUME)
    assert probe.ask(ReleaseRequest(probe.domain_id))["kind"] == "state"
    probe.check_safe("off-again", VOLUME)


def test_an_osd_on_dm_crypt_that_is_activated_anew_under_a_lease_loses_nothing(bench, probe):
    bench.sh(FORMAT).checked()
    bench.sh(OPEN).checked()
    probe.begin(BACK, CRYPT)
    assert probe.set_mode(THROUGH)["kind"] == "state"
    probe.check_safe("off", CRYPT)
    probe.behind_our_back(BACK)
    probe.check_safe("on-behind-our-back", CRYPT)
    assert probe.ask_mode(THROUGH)["kind"] == "state"
    # the OSD is restarted: its layers are made anew while the lease holds the drive off
    bench.sh(CLOSE).checked()
    activate(bench, False)
    activate(bench, True)
    bench.sh(OPEN).checked()
    assert [view_of(bench, path) for path in (VOLUME, CRYPT)] == ["write back"] * 2
    probe.make_osd(CRYPT)
    probe.check_safe("anew", CRYPT)
    done = probe.ask(ReleaseRequest(probe.domain_id))
    assert done["kind"] == "state", done
    assert sorted(layer["kind"] for layer in done["after"][0]["layers"]) == ["crypt", "lvm"]
    assert probe.mode() is BACK
    probe.check_safe("given-back", CRYPT)


# ---- an OSD on more than one drive: the lease of each is its own

MIRROR = (
    "/dev/md0", "md",
    "mdadm --create /dev/md0 --run --quiet --level=1 --raid-devices=2 --assume-clean "
    "--metadata=1.2 {scsi} {sata} 2>&1",
    "mdadm --stop --quiet /dev/md0; mdadm --zero-superblock {scsi} {sata}",
)
CACHED = (
    "/dev/bcache0", "bcache",
    "make-bcache --bucket 256k -B {scsi} -C {nvme}; "
    "for drive in {scsi} {nvme}; do echo $drive > /sys/fs/bcache/register || :; done; "
    "for n in 1 2 3 4 5 6 7 8 9; do [ ! -b /dev/bcache0 ] || break; sleep 1; done",
    "echo 1 > /sys/block/bcache0/bcache/stop; echo 1 > $(echo /sys/fs/bcache/*-*-*/stop); "
    "sleep 2; wipefs -qa {scsi} {nvme}",
)


@pytest.mark.long
@pytest.mark.parametrize(
    ("stack", "other"),
    [pytest.param(MIRROR, "sata", id="md"), pytest.param(CACHED, "nvme", id="bcache")],
)
def test_a_stack_of_two_drives_is_followed_to_both_and_loses_nothing(
    bench, probe_of, stack, other
):
    device, kind, make, unmake = stack
    paths = {name: bench.all_on(name).path for name in ("scsi", "sata", "nvme")}
    bench.sh(f"modprobe raid1; modprobe bcache; {make.format(**paths)}").checked()
    bench.settle()
    probe = probe_of("scsi")
    try:
        probe.begin(BACK, device)
        seen = [probe.look(), look_of(probe_of(other), probe)]
        for drive in seen:
            assert [(use["osd_id"], use["role"]) for use in drive["uses"]] == [(0, "block")]
            assert [layer["kind"] for layer in drive["state"]["layers"]] == [kind]
            assert drive["toggle_refusal"] == ""
        assert seen[0]["domain_id"] != seen[1]["domain_id"]
        assert probe.set_mode(THROUGH)["kind"] == "state"
        probe.check_safe("off", device)
        probe.behind_our_back(BACK)
        probe.check_safe("on-behind-our-back", device)
        done = probe.ask(ReleaseRequest(probe.domain_id))
        assert done["kind"] == "state", done
        probe.check_safe("given-back", device)
    finally:
        probe.end()
        bench.sh(unmake.format(**paths))
        bench.settle()


def look_of(other, probe):
    """Another drive below the OSD of a probe, as that probe has it."""
    other.data, other.folders = probe.data, probe.folders
    return other.look()
