"""OSDs are followed through every layer to their drives, and what is not ours is seen."""

from dataclasses import replace

import pytest
from wcache.core.errors import RefusedError
from wcache.core.hardware import FlushCounters
from wcache.core.model import FindingCode, KernelView, LayerKind, Role
from wcache_probe.linux.block import foreign, osds
from wcache_probe.linux.block.sysfs import by_name, is_followed, paths_down, queues_on


def host_of(fake, **more):
    return fake.drive_host(find_foreign_rules=tuple, **more)


def kinds(path):
    return [device.kind for device in path.devices]


def test_an_encrypted_lv_on_a_partition_is_followed_to_its_disk(fake_host):
    fake_host.disk("sda", "8:0")
    fake_host.device("sda1", "8:1", parent="sda")
    fake_host.device("dm-0", "252:0", below=["sda1"], dm_uuid="LVM-abc", view="write through")
    fake_host.device("dm-1", "252:1", below=["dm-0"], dm_uuid="CRYPT-LUKS2-x")
    (path,) = paths_down(by_name(fake_host.files, "dm-1"))
    assert kinds(path) == [
        LayerKind.CRYPT, LayerKind.LVM, LayerKind.PARTITION, LayerKind.DISK
    ]
    assert is_followed(path)
    views = {layer.name: layer.kernel_view for layer in queues_on(by_name(fake_host.files, "sda"))}
    assert views == {"dm-0": KernelView.WRITE_THROUGH, "dm-1": KernelView.WRITE_BACK}


def test_a_mirror_leads_to_each_of_its_drives(fake_host):
    for name, number in (("sda", "8:0"), ("sdb", "8:16")):
        fake_host.disk(name, number)
    fake_host.device("md0", "9:0", below=["sda", "sdb"], marker="md")
    found = paths_down(by_name(fake_host.files, "md0"))
    assert sorted(path.drive.name for path in found) == ["sda", "sdb"]
    assert all(is_followed(path) for path in found)


def test_bcache_leads_to_its_backing_and_its_cache_device(fake_host):
    fake_host.disk("sda", "8:0", marker="bcache")
    fake_host.disk("nvme0n1", "259:0", marker="bcache")
    fake_host.device("bcache0", "251:0", below=["sda", "nvme0n1"], marker="bcache")
    found = paths_down(by_name(fake_host.files, "bcache0"))
    assert [kinds(path) for path in found] == [[LayerKind.BCACHE, LayerKind.DISK]] * 2
    assert all(is_followed(path) for path in found)


def test_a_device_of_no_known_kind_is_never_taken_for_a_drive(fake_host):
    fake_host.device("zd0", "230:0")
    fake_host.osd(1, block="zd0")
    (drive,) = host_of(fake_host).look()
    assert "cannot be followed" in drive.toggle_refusal
    assert FindingCode.UNKNOWN_LAYER in {finding.code for finding in drive.findings}


def test_slaves_that_point_at_each_other_end(fake_host):
    fake_host.device("dm-0", "252:0", dm_uuid="x")
    fake_host.device("dm-1", "252:1", below=["dm-0"], dm_uuid="x")
    (fake_host.root / "sys/class/block/dm-0/slaves/dm-1").symlink_to(
        fake_host.root / "sys/class/block/dm-1"
    )
    (fake_host.root / "sys/class/block/dm-1/holders/dm-0").symlink_to(
        fake_host.root / "sys/class/block/dm-0"
    )
    assert paths_down(by_name(fake_host.files, "dm-1")) == ()
    assert {layer.name for layer in queues_on(by_name(fake_host.files, "dm-1"))} == {"dm-0"}


def test_each_role_of_an_osd_is_a_use_of_its_own_drive(fake_host):
    fake_host.loop("loop0", "7:0", backing="/a")
    fake_host.loop("loop1", "7:1", backing="/b")
    fake_host.osd(4, block="loop0", db="loop1", wal="loop1")
    block, fast = host_of(fake_host).look()
    assert [(use.osd_id, use.role) for use in block.uses] == [(4, Role.BLOCK)]
    assert [use.role for use in fast.uses] == [Role.DB, Role.WAL]


def test_a_running_osd_is_found_by_what_it_holds_open_wherever_its_folder_is(fake_host):
    fake_host.loop("loop0", "7:0")
    folder = fake_host.osd(3, block="loop0")
    fake_host.running(77, folder, ["loop0"])
    (osd,) = osds.discover(fake_host.files, ())
    assert (osd.osd_id, osd.pid, osd.devices) == (3, 77, ((Role.BLOCK, "7:0"),))


def test_a_folder_below_one_named_dev_is_still_a_folder(fake_host):
    for osd_id in (0, 1):
        fake_host.loop(f"loop{osd_id}", f"7:{osd_id}", backing=f"/{osd_id}")
        made = fake_host.osd(osd_id, block=f"loop{osd_id}")
        vstart = made.rename(fake_host.root / f"dev/osd{osd_id}")
        fake_host.running(77 + osd_id, vstart, [f"loop{osd_id}"])
    drives = host_of(fake_host).look()
    assert [[use.osd_id for use in drive.uses] for drive in drives] == [[0], [1]]
    assert [drive.foreign_uses for drive in drives] == [(), ()]


@pytest.mark.slow
def test_a_link_to_a_device_that_the_running_osd_does_not_hold_is_not_believed(fake_host):
    fake_host.loop("loop0", "7:0", backing="/a")
    fake_host.loop("loop1", "7:1", backing="/b")
    folder = fake_host.osd(3, block="loop1")
    fake_host.running(77, folder, ["loop0"])
    host = host_of(fake_host)
    assert host.look() == ()
    (finding,) = host.host_findings()
    assert (finding.code, finding.subject) == (FindingCode.UNKNOWN_LAYER, "osd.3")


def test_a_process_by_another_name_is_no_osd(fake_host):
    fake_host.loop("loop0", "7:0")
    fake_host.running(78, fake_host.osd(3, block="loop0"), ["loop0"], comm="sleep")
    assert osds.discover(fake_host.files, ()) == ()


def test_an_osd_whose_block_is_a_file_is_named_and_not_followed(fake_host):
    folder = fake_host.osd(5)
    fake_host.write("osd/osd.5/block", "a file")
    host = host_of(fake_host)
    assert host.look() == ()
    assert [finding.subject for finding in host.host_findings()] == ["osd.5"]
    assert folder.exists()


def test_the_osd_of_another_cluster_is_a_foreign_use(fake_host):
    fake_host.disk("sda", "8:0")
    ours, theirs = "1" * 8 + "-1111-1111-1111-" + "1" * 12, "2" * 8 + "-2222-2222-2222-" + "2" * 12
    fake_host.loop("loop0", "7:0")
    fake_host.osd(1, fsid=ours, block="loop0")
    fake_host.osd(2, fsid=theirs, db="loop0")
    (drive,) = host_of(fake_host, cluster_fsid=ours).look()
    assert drive.foreign_uses == (f"osd.2 of cluster {theirs}",)


def test_a_mount_anywhere_above_a_drive_is_a_foreign_use(fake_host):
    fake_host.disk("sda", "8:0")
    fake_host.device("sda1", "8:1", parent="sda")
    fake_host.device("sda2", "8:2", parent="sda")
    fake_host.device("dm-0", "252:0", below=["sda2"], dm_uuid="LVM-root")
    fake_host.write(
        "proc/self/mountinfo", "29 1 252:0 / /my\\040root rw shared:1 - ext4 /dev/dm-0 rw\n"
    )
    uses = foreign.find(fake_host.files, {}).of(by_name(fake_host.files, "sda"))
    assert uses == ("dm-0 mounted on /my root",)


def test_a_mount_of_the_osds_own_device_is_a_foreign_use_too(fake_host):
    fake_host.loop("loop0", "7:0")
    fake_host.osd(1, block="loop0")
    fake_host.write("proc/self/mountinfo", "29 1 7:0 / /mnt rw - ext4 /dev/loop0 rw\n")
    (drive,) = host_of(fake_host).look()
    assert drive.foreign_uses == ("loop0 mounted on /mnt",)


def test_a_mount_in_a_container_and_btrfs_and_swap_are_seen(fake_host):
    for name, number in (("sda", "8:0"), ("sdb", "8:16"), ("sdc", "8:32")):
        fake_host.disk(name, number)
    fake_host.write("proc/9/mountinfo", "1 1 8:0 / /data rw - xfs /dev/sda rw\n")
    fake_host.link("proc/9/ns/mnt", fake_host.root / "elsewhere")
    fake_host.write(
        "proc/self/mountinfo", "1 1 0:44 / /pool rw - btrfs /dev/sdb rw\nbroken line\n"
    )
    fake_host.write(
        "proc/swaps", "Filename Type Size Used Priority\n/dev/sdc partition 1 0 -2\n"
    )
    found = foreign.find(fake_host.files, {})
    seen = [found.of(by_name(fake_host.files, n)) for n in ("sda", "sdb", "sdc")]
    assert seen == [("sda mounted on /data",), ("sdb mounted on /pool",), ("sdc used as swap",)]


def test_mount_namespaces_that_are_too_many_to_look_through_are_said(fake_host, monkeypatch):
    fake_host.disk("sda", "8:0")
    for number in range(9):
        fake_host.write(f"proc/{100 + number}/mountinfo", "1 1 0:1 / / rw - tmpfs tmpfs rw\n")
        fake_host.link(f"proc/{100 + number}/ns/mnt", fake_host.root / f"ns{number}")
    fake_host.write("proc/108/mountinfo", "1 1 8:0 / /secret rw - ext4 /dev/sda rw\n")
    found = foreign.find(fake_host.files, {})
    assert (found.of(by_name(fake_host.files, "sda")), found.unknown) == (
        ("sda mounted on /secret",), ""
    )
    monkeypatch.setattr(foreign, "NAMESPACES_MAX", 8)
    fake_host.osd(1, block="sda")
    (drive,) = host_of(fake_host).look()
    assert "too many mount namespaces to look through" in drive.toggle_refusal


def test_a_drive_reached_twice_is_shown_once_and_left_alone(fake_host):
    for name, number in (("loop0", "7:0"), ("loop1", "7:1")):
        fake_host.loop(name, number, backing="/the same")
    fake_host.device(
        "dm-0", "252:0", below=["loop0", "loop1"], dm_uuid="mpath-x"
    )
    fake_host.osd(1, block="dm-0")
    (drive,) = host_of(fake_host).look()
    assert "several paths (loop0, loop1)" in drive.toggle_refusal


@pytest.mark.parametrize("chroot", [False, True])
def test_links_of_a_container_or_chroot_are_followed_below_its_root(fake_host, chroot):
    fake_host.loop("loop0", "7:0")
    inside = fake_host.root / "container"
    (inside / "dev").mkdir(parents=True)
    (inside / "var/osd").mkdir(parents=True)
    fake_host.files.numbers[str(inside / "dev/loop0")] = "7:0"
    (inside / "dev/loop0").write_text("")
    (inside / "dev/vg").mkdir()
    (inside / "dev/vg/lv").symlink_to("../loop0")
    (inside / "var/osd/whoami").write_text("6")
    (inside / "var/osd/block").symlink_to("/dev/vg/lv")
    fake_host.write("proc/5/comm", "ceph-osd\n")
    fake_host.run_by(5, 167, 167, 167, 167)
    fds = fake_host.root / "proc/5/fd"
    fds.mkdir()
    (fake_host.root / "proc/5/root").symlink_to(inside)
    # the kernel shows the paths of a chroot with its root in front; neither is a path here
    (fds / "3").symlink_to(f"{inside if chroot else ''}/var/osd/fsid")
    (fds / "4").symlink_to(inside / "dev/loop0")
    (osd,) = osds.discover(fake_host.files, ())
    assert (osd.osd_id, osd.devices, osd.pid) == (6, ((Role.BLOCK, "7:0"),), 5)


def test_hostile_files_of_an_osd_folder_are_no_osd(fake_host):
    folder = fake_host.osd(1, block="loop9")
    for text in ("", "-1", "9" * 40, "1\n2", "\x00", "1; rm"):
        (folder / "whoami").write_text(text)
        assert osds.discover(fake_host.files, [fake_host.osd_glob]) == ()


def test_the_devices_node_must_be_the_device_that_sysfs_means(fake_host):
    fake_host.loop("loop0", "7:0")
    fake_host.osd(1, block="loop0")
    host = host_of(fake_host)
    (drive,) = host.look()
    node = str(fake_host.root / "dev/loop0")
    device = by_name(replace(fake_host.files, numbers={node: "8:0"}), "loop0")
    with pytest.raises(RefusedError, match="8:0, not 7:0"):
        device.open()
    assert drive.dev_name == "loop0"


@pytest.mark.parametrize(
    ("stat", "flushes"),
    [("1 2 3 4 5 6 7 8 9 10 11", None), ("", None), ("1 " * 15 + "16 x", None),
     ("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17", 16)],
)
def test_a_kernel_that_counts_no_flushes_has_no_counters(fake_host, stat, flushes):
    fake_host.disk("sda", "8:0")
    (fake_host.root / "sys/class/block/sda/stat").write_text(stat)
    counted = by_name(fake_host.files, "sda").counters(7)
    assert (counted.flushes if counted is not None else None) == flushes


def stat(writes, flushes, flush_ms):
    return f"0 0 0 0 {writes} 0 0 0 0 0 0 0 0 0 0 {flushes} {flush_ms}"


def test_flushes_of_an_nvme_namespace_are_counted_at_its_hidden_paths(fake_host):
    """The head of native multipath counts writes, and never a flush."""
    paths = {"nvme0": stat(100, 40, 4), "nvme3": stat(20, 7, 1)}
    head = fake_host.nvme_subsystem("259:0", "nvme0n1", paths)
    (head / "stat").write_text(stat(120, 0, 0))
    counted = by_name(fake_host.files, "nvme0n1").counters(7)
    assert counted == FlushCounters(7, 120, 47, 5, paths=2)


def test_an_nvme_namespace_without_a_path_counts_nothing(fake_host):
    head = fake_host.nvme_subsystem("259:0", "nvme0n1", {})
    (head / "stat").write_text(stat(120, 0, 0))
    assert by_name(fake_host.files, "nvme0n1").counters(7) is None


def test_a_look_and_its_findings_go_through_the_host_once(fake_host, monkeypatch):
    gone_through = []
    discover = osds.discover

    def counted(*how):
        gone_through.append(how)
        return discover(*how)

    monkeypatch.setattr(osds, "discover", counted)
    host = host_of(fake_host)
    host.look()
    host.host_findings()
    assert len(gone_through) == 1
    host.host_findings()  # by itself it looks anew
    assert len(gone_through) == 2
