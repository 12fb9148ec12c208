"""Device mapper copies the kernel's view when a table is loaded, and never looks again."""

import pytest
from drive_lab.disk import kernel_view

pytestmark = [pytest.mark.lab, pytest.mark.long]

VOLUME = "/dev/labvg/osd"


@pytest.fixture(params=["scsi", "sata"])
def volume(request, bench):
    """An LV as ceph-volume makes them, the whole of one drive; (drive's name, dm name)."""
    disk = bench.all_on(request.param)
    bench.sh(
        f"vgcreate -qq -y labvg {disk.path} && lvcreate -qq -y -l 100%FREE -n osd labvg"
    ).checked()
    bench.settle()
    yield request.param
    bench.all_on(request.param)
    bench.sh(f"vgremove -qq -f labvg && pvremove -qq {disk.path}").checked()


def dm_name(bench):
    return bench.sh(f"basename $(readlink -f {VOLUME})").checked().strip()


def activate(bench, on):
    bench.sh(f"lvchange -qq -a{'y' if on else 'n'} labvg/osd").checked()
    bench.settle()


def test_a_volume_activated_while_off_drops_flushes_for_ever(bench, volume):
    disk = bench.disk(volume)
    activate(bench, False)
    disk.set_cache_type("write through")
    activate(bench, True)
    disk.set_cache_type("write back")
    assert bench.state(volume) == ("on", "write back")
    assert kernel_view(bench.lab.guest, dm_name(bench)) == "write through"
    assert bench.true_state(volume, VOLUME).unsafe
    assert not bench.true_state(volume).unsafe, "the disk itself is as safe as it says"

    bench.sh("lvchange -qq --refresh labvg/osd").checked()
    assert bench.true_state(volume, VOLUME).unsafe, "a refresh does not cure it"

    activate(bench, False)
    activate(bench, True)
    assert kernel_view(bench.lab.guest, dm_name(bench)) == "write back"
    assert not bench.true_state(volume, VOLUME).unsafe


def test_a_volume_activated_while_on_says_write_back_for_ever_which_is_safe(bench, volume):
    disk = bench.disk(volume)
    disk.set_cache_type("write through")
    assert kernel_view(bench.lab.guest, dm_name(bench)) == "write back"
    off = bench.true_state(volume, VOLUME)
    assert (off.cached, off.unsafe) == (False, False)


def test_a_volume_activated_while_pinned_keeps_flushing(bench, volume):
    disk = bench.disk(volume)
    activate(bench, False)
    disk.set_cache_type("temporary write back")
    bench.sh(f"sdparm --quiet --clear=WCE {disk.path}").checked()
    activate(bench, True)
    bench.sh(f"sdparm --quiet --set=WCE {disk.generic}").checked()
    assert kernel_view(bench.lab.guest, dm_name(bench)) == "write back"
    on = bench.true_state(volume, VOLUME)
    assert (on.cached, on.flushed, on.unsafe) == (True, True, False)


def test_dm_crypt_above_a_volume_copies_the_view_too(bench, volume):
    disk = bench.disk(volume)
    bench.sh(
        f"echo secret | cryptsetup -q luksFormat --type luks2 --pbkdf pbkdf2 "
        f"--pbkdf-force-iterations 1000 {VOLUME} -",
    ).checked()
    opened = f"echo secret | cryptsetup open {VOLUME} labcrypt --key-file -"
    try:
        disk.set_cache_type("write through")
        activate(bench, False)
        activate(bench, True)
        bench.sh(opened).checked()
        disk.set_cache_type("write back")
        assert bench.true_state(volume, "/dev/mapper/labcrypt").unsafe
        bench.sh("cryptsetup close labcrypt").checked()
        activate(bench, False)
        activate(bench, True)
        bench.sh(opened).checked()
        assert not bench.true_state(volume, "/dev/mapper/labcrypt").unsafe
    finally:
        bench.sh("cryptsetup close labcrypt || :").checked()
