"""Power cuts, plugs and resets do to the lab's drives what they do to real ones."""

import pytest

pytestmark = [pytest.mark.lab, pytest.mark.long]

ANY = pytest.mark.parametrize("name", ["scsi", "sas", "sata", "nvme"])

SAFE = {
    "on": "echo 'write back' > {cache_type}",
    "off": "echo 'write through' > {cache_type}",
    "pinned and on": "echo 'temporary write back' > {cache_type}",
    "pinned and off": (
        "echo 'temporary write back' > {cache_type}; sdparm --quiet --clear=WCE {sg}"
    ),
}
UNSAFE = {
    "temporary write through": "echo 'temporary write through' > {cache_type}",
    "queue attribute": "echo 'write through' > {queue}",
    "switched on behind the kernel": (
        "echo 'write through' > {cache_type}; sdparm --quiet --set=WCE {sg}"
    ),
}


def prepare(bench, name, script):
    disk = bench.all_on(name)
    bench.sh(
        script.format(cache_type=disk.cache_type_file, sg=disk.generic, queue=disk.queue_file)
    ).checked()
    return disk


@pytest.mark.parametrize("name", ["scsi", "sas"])
@pytest.mark.parametrize("state", list(SAFE))
def test_a_power_cut_after_fdatasync_loses_nothing_in_a_safe_state(bench, name, state):
    disk = prepare(bench, name, SAFE[state])
    bench.write_and_sync(disk.path, f"kept-{name}-{len(state)}")
    assert bench.lab.drive(name).power_cut() == 0
    assert bench.on_the_medium(disk.path) == f"kept-{name}-{len(state)}"


@pytest.mark.parametrize("name", ["scsi", "sas"])
@pytest.mark.parametrize("state", list(UNSAFE))
def test_a_power_cut_after_fdatasync_loses_acknowledged_data_in_an_unsafe_state(
    bench, name, state
):
    disk = prepare(bench, name, UNSAFE[state])
    bench.write_and_sync(disk.path, "acknowledged")
    assert bench.lab.drive(name).power_cut() > 0
    assert bench.on_the_medium(disk.path) != "acknowledged"


@ANY
def test_a_write_that_nobody_synced_is_lost_with_the_cache_on(bench, name):
    disk = bench.all_on(name)
    bench.write(disk.path, "unsynced")
    assert bench.lab.drive(name).power_cut() == 1
    assert bench.on_the_medium(disk.path) != "unsynced"


@pytest.mark.parametrize("name", ["scsi", "nvme"])
def test_a_replugged_drive_is_back_with_its_cache_on(bench, name):
    disk = bench.all_on(name)
    if disk.is_nvme:
        bench.sh(f"nvme set-feature {disk.controller} --feature-id=6 --value=0").checked()
    else:
        disk.set_cache_type("write through")
    assert not bench.drive_on(name)
    bench.lab.unplug(name)
    bench.lab.replug(name)
    bench.settle()
    assert bench.state(name) == ("on", "write back")
    assert not bench.true_state(name).unsafe


def test_a_sas_drive_power_cycled_unseen_is_unsafe_unless_pinned(bench):
    """QEMU's SAS adapter reports no hot plug: the kernel keeps the view it had."""
    for pinned in (False, True):
        disk = bench.all_on("sas")
        if pinned:
            disk.set_cache_type("temporary write back")
            bench.sh(f"sdparm --quiet --clear=WCE {disk.path}").checked()
        else:
            disk.set_cache_type("write through")
        bench.settle()
        bench.lab.unplug("sas")
        bench.lab.replug("sas")
        assert bench.lab.drive("sas").qmp_writeback()
        assert bench.true_state("sas").unsafe is not pinned


# virtio-scsi resets a LUN and nothing else
@pytest.mark.parametrize(
    ("name", "kind"),
    [("scsi", "--device"), ("sas", "--device"), ("sas", "--bus"), ("sas", "--host")],
)
def test_a_scsi_reset_leaves_a_pinned_drive_safe(bench, name, kind):
    disk = bench.all_on(name)
    disk.set_cache_type("temporary write back")
    bench.sh(f"sdparm --quiet --clear=WCE {disk.path}").checked()
    bench.sh(f"sg_reset {kind} {disk.generic}").checked()
    state = bench.true_state(name)
    assert state.flushed
    assert not state.unsafe


def test_a_reset_of_the_guest_keeps_the_switches_and_a_power_cycle_does_not(bench):
    names = ["scsi", "sas", "sata", "nvme"]
    for name in names:
        disk = bench.all_on(name)
        if disk.is_nvme:
            bench.sh(f"nvme set-feature {disk.controller} --feature-id=6 --value=0").checked()
        else:
            disk.set_cache_type("temporary write back")
            bench.sh(f"sdparm --quiet --clear=WCE {disk.path}").checked()
        bench.write_and_sync(disk.path, f"before-{name}")
    bench.lab.guest.sh("echo kept > /root/marker; sync").checked()

    bench.lab.reset()
    assert not any(bench.drive_on(name) for name in names)

    lost = bench.lab.reboot()
    assert not any(lost[name] for name in names)
    for name in names:
        assert bench.state(name) == ("on", "write back"), "no pin survives a boot"
        assert bench.on_the_medium(bench.disk(name).path) == f"before-{name}"
    assert bench.lab.guest.sh("cat /root/marker").checked() == "kept\n"
