"""The real DriveHost on real loop devices: reads, switches, counts and times."""

from dataclasses import replace
from pathlib import Path

import pytest
from loop_devices import loop_on
from sim_drives import MemoryJournal
from wcache.core.drive.journal import EntryKind, JournalEntry, prior_of
from wcache.core.drive.prior import prior_from
from wcache.core.errors import NotFoundError, RefusedError
from wcache.core.model import CacheMode, DeviceCache, KernelView, Role, Transport
from wcache.core.options.entries import names_of
from wcache_probe.linux.host import LinuxDriveHost
from wcache_probe.switcher import Switcher
from wcache_probe.switching import options

BACK, THROUGH = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH
FSID = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
def host(tmp_path, loop_device):
    folder = tmp_path / "osds" / "osd0"
    folder.mkdir(parents=True)
    (folder / "whoami").write_text("7\n")
    (folder / "ceph_fsid").write_text(FSID + "\n")
    (folder / "block").symlink_to(f"/dev/{loop_device[0]}")
    return LinuxDriveHost(
        osd_data_globs=[str(tmp_path / "osds" / "*")], cluster_fsid=FSID
    )


def test_a_loop_device_below_an_osd_is_found_by_its_backing_file(host, loop_device):
    (drive,) = host.look()
    name, backing = loop_device
    status = backing.stat()
    assert drive.dev_name == name
    assert drive.drive_id.split(":")[2] == str(status.st_ino)
    assert drive.transport is Transport.LOOP
    assert drive.size_bytes == 16 * 2**20
    assert [(use.osd_id, use.role) for use in drive.uses] == [(7, Role.BLOCK)]
    assert (drive.foreign_uses, drive.toggle_refusal) == ((), "")
    assert host.domain(drive.domain_id) == (drive,)


def test_the_switch_of_a_loop_device_is_the_kernel_view_both_ways(host):
    (drive,) = host.look()
    host.set_cache(drive, THROUGH)
    state = host.state(drive)
    assert state.kernel_view is KernelView.WRITE_THROUGH
    assert state.device_cache is DeviceCache.WRITE_BACK
    host.set_cache(drive, BACK)
    assert host.state(drive).kernel_view is KernelView.WRITE_BACK


def sectors_written(name):
    return int(Path(f"/sys/block/{name}/stat").read_text().split()[6])


def test_the_timer_makes_the_kernel_flush_only_while_it_believes_in_a_cache(host):
    (drive,) = host.look()
    before, sectors = host.counters(drive), sectors_written(drive.dev_name)
    assert len(host.time_flushes(drive, 7, Role.BLOCK, 5, 30.0, 60_000.0).samples_ns) == 5
    flushed = host.counters(drive)
    assert flushed.flushes - before.flushes == 5
    assert sectors_written(drive.dev_name) == sectors
    host.set_cache(drive, THROUGH)
    host.time_flushes(drive, 7, Role.BLOCK, 5, 30.0, 60_000.0)
    assert host.counters(drive).flushes == flushed.flushes


def test_a_drive_whose_osd_has_gone_is_still_found_by_its_domain(host, tmp_path):
    (drive,) = host.look()
    bare = LinuxDriveHost(osd_data_globs=[], cluster_fsid=FSID)
    assert bare.look() == ()
    (found,) = bare.domain(drive.domain_id)
    assert (found.drive_id, found.dev_name, found.uses) == (drive.drive_id, drive.dev_name, ())


def test_another_drive_under_the_same_name_is_never_touched(host):
    (drive,) = host.look()
    stranger = type(drive)(**{**vars(drive), "drive_id": "loop:1:1"})
    with pytest.raises(NotFoundError):
        host.set_cache(stranger, THROUGH)
    assert host.state(drive).kernel_view is KernelView.WRITE_BACK


def test_the_osds_of_another_cluster_make_a_drive_shared_and_not_ours(tmp_path, host):
    (drive,) = host.look()
    other = LinuxDriveHost(
        osd_data_globs=[str(tmp_path / "osds" / "*")], cluster_fsid="f" * 36
    )
    assert other.look() == ()
    (seen,) = other.domain(drive.domain_id)
    assert seen.foreign_uses == (f"osd.7 of cluster {FSID}",)


def test_a_loop_device_keeps_no_saved_mode(host):
    (drive,) = host.look()
    with pytest.raises(RefusedError):
        host.save_cache(drive, THROUGH, None)
    host.save_cache(drive, None, None)


def test_a_drive_of_the_journal_is_found_by_its_backing_file_under_another_name(
    host, loop_device, tmp_path
):
    (drive,) = host.look()
    entry = JournalEntry(
        2, EntryKind.LEASE, "L", drive.domain_id,
        prior_of((replace(drive, dev_name="loop-of-old"),)), 0.0, throwaway=True,
    )
    with loop_on(tmp_path / "another.img", 16 * 2**20):
        (found,) = LinuxDriveHost(osd_data_globs=[]).prior(entry)
    assert (found.drive_id, found.dev_name) == (drive.drive_id, loop_device[0])


def queue(drive):
    return {one.name: one.value for one in drive.state.options}


@pytest.mark.slow
def test_the_real_kernel_resets_with_the_scheduler_what_one_lease_puts_back(host):
    (drive,) = host.look()
    first = queue(drive)
    if not {"scheduler", "nr_requests"} <= set(first):
        pytest.skip("this kernel shows no queue of a loop device")
    names = [item.name for item in drive.state.options]
    text = Path(f"/sys/block/{drive.dev_name}/queue/scheduler").read_text()
    other = next((w for w in ("mq-deadline", "none", "bfq") if w in text and f"[{w}]" not in text),
                 None)
    if other is None:
        pytest.skip("this kernel has one scheduler alone")
    switcher = Switcher(host, MemoryJournal())
    try:
        host.set_option(drive, "nr_requests", "32")
        (drive,) = host.look()
        known = prior_from(FSID, drive.domain_id, (drive,), names_of("scheduler"))
        tuned = queue(drive)
        assert tuned["nr_requests"] == "32"
        done = switcher.run(drive.domain_id, options.lease_set(
            (drive,), None, lease_id="L1", name="scheduler", value=other, now_s=1.0, prior=known,
        ))
        assert done.after[0].option("scheduler") == other
        assert done.after[0].option("nr_requests") != "32"  # this is what is put back too
        (key,) = switcher.read_journal()[0]
        switcher.restore_key(key)
        (drive,) = host.look()
        assert queue(drive) == tuned
        assert switcher.read_journal() == ({}, {})
    finally:
        for name in names:
            if name in ("scheduler", "nr_requests"):
                host.set_option(drive, name, first[name], back=True)
    (drive,) = host.look()
    assert queue(drive) == first
