"""What each switch of a SCSI disk does to the drive and to the kernel's view of it.

SATA disks are SCSI disks to Linux; where libata makes them differ they have tests of
their own below.
"""

import pytest

pytestmark = pytest.mark.lab

# what the kernel and tools do on their own is as the guest's kernel is, which seldom changes
FACT = pytest.mark.long
# to Linux a SAS disk is a SCSI disk; that it is so to the drive as well takes longer to show
SAS = pytest.param("sas", marks=pytest.mark.long)
RACES = 6
SCSI = pytest.mark.parametrize("name", ["scsi", SAS])
SCSI_AND_SATA = pytest.mark.parametrize("name", ["scsi", SAS, "sata"])


@FACT
@SCSI_AND_SATA
def test_cache_type_changes_drive_and_kernel_together(bench, name):
    disk = bench.all_on(name)
    disk.set_cache_type("write through")
    assert bench.state(name) == ("off", "write through")
    off = bench.true_state(name)
    assert (off.cached, off.flushed, off.unsafe) == (False, False, False)
    disk.set_cache_type("write back")
    assert bench.state(name) == ("on", "write back")
    on = bench.true_state(name)
    assert (on.cached, on.flushed, on.unsafe) == (True, True, False)


@FACT
@SCSI_AND_SATA
def test_a_tool_on_an_idle_disk_takes_the_kernel_along(bench, name):
    disk = bench.all_on(name)
    bench.sh(f"sdparm --quiet --clear=WCE {disk.path}").checked()
    assert bench.follows(name, "write through")
    assert not bench.drive_on(name)
    bench.sh(f"sdparm --quiet --set=WCE {disk.path}").checked()
    assert bench.follows(name, "write back")
    assert bench.drive_on(name)


@FACT
@SCSI
def test_two_changes_back_to_back_leave_the_kernel_behind_and_lose_flushes(bench, name):
    """udev looks at the first close and misses the second one while it does: a race that
    udev rarely wins."""
    for _ in range(RACES):
        disk = bench.all_on(name)
        bench.sh(
            f"sdparm --quiet --clear=WCE {disk.path}; sdparm --quiet --set=WCE {disk.path}"
        ).checked()
        if bench.stays(name, "write through"):
            break
    assert disk.kernel_view() == "write through"
    # the mode page, asked for by a tool that opens the disk read-only, does not cure it
    assert bench.lab.drive(name).qmp_writeback()
    assert bench.true_state(name).unsafe


@FACT
@SCSI
@pytest.mark.parametrize(
    "change", ["sdparm --quiet --clear=WCE {sg}", "smartctl --quietmode=silent -s wcache,off {sg}"]
)
def test_through_the_generic_node_the_kernel_does_not_notice(bench, name, change):
    disk = bench.all_on(name)
    bench.sh(change.format(sg=disk.generic)).checked()
    assert bench.stays(name, "write back")
    assert not bench.drive_on(name)
    assert not bench.true_state(name).unsafe


@FACT
@SCSI
def test_switched_on_behind_a_kernel_that_knows_it_off_flushes_are_lost(bench, name):
    """What a reset does to a real drive whose saved mode is write back."""
    disk = bench.all_on(name)
    disk.set_cache_type("write through")
    bench.sh(f"sdparm --quiet --set=WCE {disk.generic}").checked()
    assert bench.stays(name, "write through")
    assert bench.true_state(name).unsafe


@FACT
@SCSI
def test_a_rescan_brings_the_kernel_along(bench, name):
    disk = bench.all_on(name)
    disk.set_cache_type("write through")
    bench.sh(f"sdparm --quiet --set=WCE {disk.generic}").checked()
    assert disk.kernel_view() == "write through"
    disk.rescan()
    assert disk.kernel_view() == "write back"
    assert not bench.true_state(name).unsafe


@FACT
@SCSI
def test_a_disk_that_is_held_keeps_the_old_view_until_a_rescan(bench, name):
    disk = bench.all_on(name)
    bench.sh(f"dmsetup create held --table '0 2048 linear {disk.path} 0'").checked()
    try:
        bench.sh(f"sdparm --quiet --clear=WCE {disk.path}").checked()
        assert bench.stays(name, "write back")
        assert not bench.drive_on(name)
        disk.rescan()
        assert disk.kernel_view() == "write through"
        bench.sh(f"sdparm --quiet --set=WCE {disk.path}").checked()
        assert bench.stays(name, "write through")
        assert bench.true_state(name).unsafe
    finally:
        bench.sh("dmsetup remove held").checked()


@FACT
@SCSI
def test_without_udev_nobody_tells_the_kernel(bench, name):
    disk = bench.all_on(name)
    bench.sh("udevadm control --exit").checked()
    try:
        bench.sh(f"sdparm --quiet --clear=WCE {disk.path}").checked()
        assert bench.stays(name, "write back")
        assert not bench.drive_on(name)
        disk.set_cache_type("write through")
        bench.sh(f"sdparm --quiet --set=WCE {disk.path}").checked()
        assert bench.stays(name, "write through")
        assert bench.true_state(name).unsafe
    finally:
        bench.sh("/usr/lib/systemd/systemd-udevd --daemon").checked()
        bench.settle()


@SCSI_AND_SATA
def test_temporary_write_through_loses_flushes_and_sticks(bench, name):
    disk = bench.all_on(name)
    disk.set_cache_type("temporary write through")
    assert bench.state(name) == ("on", "write through")
    assert bench.true_state(name).unsafe
    bench.sh(f"sdparm --quiet --clear=WCE {disk.path}").checked()
    bench.settle()
    bench.sh(f"sdparm --quiet --set=WCE {disk.path}").checked()
    disk.rescan()
    assert bench.stays(name, "write through")
    assert bench.true_state(name).unsafe
    disk.set_cache_type("write back")
    assert disk.kernel_view() == "write back"
    assert not bench.true_state(name).unsafe


@SCSI_AND_SATA
def test_the_pin_holds_through_everything_and_every_state_is_safe(bench, name):
    disk = bench.all_on(name)
    assert disk.set_cache_type("temporary write back") == 0
    tools = [
        f"sdparm --quiet --clear=WCE {disk.path}",
        f"sdparm --quiet --set=WCE {disk.path}",
        f"sdparm --quiet --clear=WCE {disk.path}; sdparm --quiet --set=WCE {disk.path}",
        f"sdparm --quiet --clear=WCE {disk.generic}",
        f"echo 1 > /sys/block/{disk.name}/device/rescan",
        f"sdparm --quiet --set=WCE {disk.generic}",
        f"smartctl --quietmode=silent -s wcache,off {disk.path}",
    ]
    if name == "sata":
        tools += [f"hdparm -W0 {disk.path}", f"hdparm -W1 {disk.path}"]
    for tool in tools:
        bench.sh(tool).checked()
        bench.settle()
        assert disk.kernel_view() == "write back", tool
        state = bench.true_state(name)
        assert state.flushed, tool
        assert not state.unsafe, tool


@SCSI_AND_SATA
def test_a_pinned_drive_that_is_off_gets_fua_writes_and_an_idle_flush(bench, name):
    disk = bench.all_on(name)
    disk.set_cache_type("temporary write back")
    bench.sh(f"sdparm --quiet --clear=WCE {disk.path}").checked()
    before = bench.lab.drive(name).counters()
    state = bench.true_state(name)
    seen = bench.lab.drive(name).counters().since(before)
    assert (state.cached, state.flushed) == (False, True)
    assert (seen.fua, seen.flush, seen.flush_dirty) == (1, 1, 0)


@FACT
@SCSI_AND_SATA
@pytest.mark.parametrize(
    ("word", "view"), [("bogus", "write through"), ("temporary bogus", "write back")]
)
def test_an_invalid_word_is_refused_and_clears_the_pin_all_the_same(bench, name, word, view):
    """cache_type_store() of drivers/scsi/sd.c sets the override before it knows the word.

    So one with "temporary" in front of it keeps a pin, and would make one.
    """
    disk = bench.all_on(name)
    disk.set_cache_type("temporary write back")
    assert disk.set_cache_type(word) != 0
    assert bench.state(name) == ("on", "write back")
    # a rescan believes the drive where there is no pin
    bench.sh(f"sdparm --quiet --clear=WCE {disk.generic}").checked()
    disk.rescan()
    assert bench.state(name) == ("off", view)


@FACT
@SCSI_AND_SATA
def test_the_queue_attribute_cannot_turn_flushes_on_where_the_disk_says_off(bench, name):
    """EIO on older kernels, ignored on newer ones."""
    disk = bench.all_on(name)
    disk.set_cache_type("write through")
    bench.sh(f"echo 'write back' > {disk.queue_file} || :").checked()
    assert bench.state(name) == ("off", "write through")


@FACT
@pytest.mark.parametrize("name", ["scsi", "sas", "sata", "nvme"])
def test_the_queue_attribute_turns_flushes_off_under_a_volatile_cache(bench, name):
    disk = bench.all_on(name)
    bench.sh(f"echo 'write through' > {disk.queue_file}").checked()
    assert bench.state(name) == ("on", "write through")
    assert bench.true_state(name).unsafe


@FACT
@SCSI
@pytest.mark.parametrize("position", [0, 1])
def test_hdparm_fails_on_scsi_and_exits_0(bench, name, position):
    disk = bench.all_on(name)
    result = bench.sh(f"hdparm -W{position} {disk.path}")
    assert result.returncode == 0
    assert "bad/missing sense data" in result.stdout + result.stderr
    assert bench.state(name) == ("on", "write back")


@FACT
@SCSI_AND_SATA
def test_saving_is_refused_where_the_page_cannot_be_saved(bench, name):
    disk = bench.all_on(name)
    result = bench.sh(f"sdparm --save --clear=WCE {disk.path}")
    assert result.returncode == 97
    assert bench.state(name) == ("on", "write back")


@FACT
@pytest.mark.parametrize(
    "change",
    [
        "hdparm -W{n} {path}",
        "smartctl --quietmode=silent -s wcache,{word} {path}",
        "sdparm --quiet --{verb}=WCE {sg}",
    ],
)
def test_libata_takes_the_kernel_along_whatever_the_tool(bench, change):
    disk = bench.all_on("sata")
    words = {"path": disk.path, "sg": disk.generic}
    bench.sh(change.format(n=0, word="off", verb="clear", **words)).checked()
    assert bench.follows("sata", "write through")
    assert not bench.drive_on("sata")
    bench.sh(change.format(n=1, word="on", verb="set", **words)).checked()
    assert bench.follows("sata", "write back")
    assert bench.drive_on("sata")


@FACT
@pytest.mark.parametrize(
    ("name", "words"),
    [("scsi", "Writeback Cache is:"), ("sas", "Writeback Cache is:"), ("sata", "Write cache is:")],
)
def test_smartctl_words_the_same_fact_by_bus(bench, name, words):
    disk = bench.all_on(name)
    # its exit code is a set of bits about the drive's health and says nothing of this
    shown = bench.lab.guest.run(["smartctl", "-x", disk.path]).stdout
    assert [line for line in shown.splitlines() if line.startswith(words)]


@FACT
def test_dash_takes_a_pattern_in_a_redirection_for_a_file_name(bench):
    disk = bench.all_on("scsi")
    pattern = f"/sys/block/{disk.name}/device/scsi_disk/*/cache_type"
    assert bench.sh(f"echo 'write through' > {pattern}").returncode != 0
    assert bench.state("scsi") == ("on", "write back")
