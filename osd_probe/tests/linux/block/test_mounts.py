"""What lies in RAM is found, also below overlays; what only cannot be seen is not taken for it."""

import pytest
from wcache_probe.linux.block.host_files import kept_in_ram, mount_of, mounts


def mounted(fake_host, *lines):
    """Mount points below the fake root, their type and the options of the file system."""
    fake_host.write("proc/self/mountinfo", "".join(
        f"{20 + at} 1 0:{20 + at} / {fake_host.root}{point} rw shared:1 - {kind} src {options}\n"
        for at, (point, kind, options) in enumerate(lines)
    ))


def in_ram(fake_host, path="/etc/udev"):
    (fake_host.root / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
    return kept_in_ram(fake_host.files, f"{fake_host.root}{path}", str(fake_host.root))


@pytest.mark.parametrize("kind", ["tmpfs", "ramfs", "rootfs"])
def test_a_path_on_a_file_system_in_ram_is_found_by_the_mount_that_is_nearest(fake_host, kind):
    mounted(fake_host, ("", "ext4", "rw"), ("/etc", kind, "rw"), ("/et", "ramfs", "rw"))
    assert in_ram(fake_host) == kind
    assert in_ram(fake_host, "/var/lib") == ""
    assert in_ram(fake_host, "/etcetera") == ""


def test_of_two_mounts_on_one_point_the_later_one_counts(fake_host):
    mounted(fake_host, ("/etc", "tmpfs", "rw"), ("/etc", "ext4", "rw"))
    assert in_ram(fake_host) == ""


def test_a_link_is_followed_to_where_it_leads(fake_host):
    mounted(fake_host, ("", "ext4", "rw"), ("/ram", "tmpfs", "rw"))
    (fake_host.root / "ram").mkdir()
    (fake_host.root / "etc").symlink_to("ram")
    assert in_ram(fake_host) == "tmpfs"


@pytest.mark.parametrize("seen_by_the_initramfs", ["", "/sysroot", "/root"])
@pytest.mark.parametrize(("kind", "found"), [("tmpfs", "an overlay over tmpfs"), ("ext4", "")])
def test_of_an_overlay_the_folder_that_takes_the_writes_counts(
    fake_host, seen_by_the_initramfs, kind, found
):
    (fake_host.root / "media/rw/upper").mkdir(parents=True)
    options = f"rw,lowerdir=/ro,upperdir={seen_by_the_initramfs}/media/rw/upper,workdir=/w"
    mounted(fake_host, ("", "overlay", options), ("/media/rw", kind, "rw"))
    assert in_ram(fake_host) == found


@pytest.mark.parametrize(
    "options", ["rw,lowerdir=/a", "rw,upperdir=/not/here", "rw,upperdir=", "rw,upperdir=/etc"]
)
def test_an_overlay_that_does_not_lead_to_ram_is_not_said_to(fake_host, options):
    """A container's own has its folders in another namespace; the last one leads to itself."""
    (fake_host.root / "etc").mkdir()
    mounted(fake_host, ("", "overlay", options))
    assert in_ram(fake_host) == ""


@pytest.mark.parametrize(("kind", "found"), [("tmpfs", "an overlay over tmpfs"), ("ext4", "")])
@pytest.mark.parametrize("upper", ["/media/rw/upper", "/root/media/rw/upper"])
def test_in_a_container_the_hosts_first_process_knows_where_the_folder_of_an_overlay_is(
    fake_host, upper, kind, found
):
    """The host's own root is an overlay, and its /etc and state folder are mounted into ours."""
    mounted(fake_host, ("", "overlay", "rw,upperdir=/c/diff"), ("/etc", "overlay", (
        f"rw,lowerdir=/ro,upperdir={upper},workdir=/w")))
    (fake_host.root / "proc/1/root/media/rw/upper").mkdir(parents=True)
    fake_host.write("proc/1/mountinfo", (
        f"1 0 0:9 / / rw - overlay o rw,upperdir={upper}\n"
        f"2 1 0:8 / /media/rw rw - {kind} src rw\n"))
    assert in_ram(fake_host) == found
    assert in_ram(fake_host, "/var/lib") == "", "the container's own, of which nothing is known"


def test_lines_that_are_cut_off_are_left_out_and_blanks_in_names_are_found(fake_host):
    mounted(fake_host, ("/a\\040b", "tmpfs", "rw"))
    fake_host.write("proc/self/mountinfo", (
        fake_host.root / "proc/self/mountinfo").read_text() + "1 2 3\n- - -\n36 35 98:0 / /x -\n")
    assert [mount.kind for mount in mounts(fake_host.files.proc)] == ["tmpfs"]
    assert in_ram(fake_host, "/a b/c") == "tmpfs"
    assert mount_of([], "/etc") is None
