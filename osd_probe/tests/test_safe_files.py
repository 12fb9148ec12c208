"""Root reads and writes nothing by a name that another user can make: real folders and users."""

from __future__ import annotations

import os
import stat
import struct
import subprocess
import sys

import pytest
from wcache.core.errors import StorageError
from wcache_probe import safe_files
from wcache_probe.safe_files import UntrustedError, own_users

OTHER = 65534
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")

WRITES = {
    "write_whole": lambda path: safe_files.write_whole(path, "ours"),
    "mark": safe_files.mark,
    "open_lock": lambda path: os.close(safe_files.open_lock(path)),
    "remove": safe_files.remove,
    "open_new": lambda path: os.close(safe_files.open_new(path)),
    "make_folder": lambda path: safe_files.make_folder(os.path.join(path, "made")),
}


@pytest.fixture
def victim(tmp_path):
    path = tmp_path / "victim"
    path.write_text("untouched")
    path.chmod(0o600)
    yield path
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("untouched", 0o600)


def names_below(folder):
    return sorted(
        os.path.relpath(os.path.join(at, name), folder)
        for at, folders, files in os.walk(folder) for name in (*folders, *files)
    )


def given_away(folder):
    os.chown(folder, OTHER, OTHER)


def open_to_all(folder):
    folder.chmod(0o777)


def open_to_a_group(folder):
    os.chown(folder, 0, OTHER)
    folder.chmod(0o770)


def open_by_an_acl(folder):
    """As `setfacl -m u:65534:rwx` (acl(5); include/uapi/linux/posix_acl_xattr.h)."""
    everybody = 2**32 - 1
    entries = [(1, 7, everybody), (2, 7, OTHER), (4, 5, everybody), (16, 7, everybody),
               (32, 5, everybody)]
    value = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    os.setxattr(folder, "system.posix_acl_access", value)


@root_only
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("how", [given_away, open_to_all, open_to_a_group])
@pytest.mark.parametrize("depth", ["", "below/further"])
def test_nothing_is_changed_in_or_below_a_folder_of_others(tmp_path, victim, write, how, depth):
    theirs = tmp_path / "theirs"
    folder = theirs / depth
    folder.mkdir(parents=True)
    (folder / "there").write_text("as it was")
    (folder / "link").symlink_to(victim)
    how(theirs)
    before = names_below(theirs)
    for name in ("there", "link", "not there"):
        with pytest.raises((StorageError, UntrustedError), match=f"{theirs}"):
            WRITES[write](str(folder / name))
    assert names_below(theirs) == before
    assert (folder / "there").read_text() == "as it was"


@root_only
def test_rights_that_an_acl_gives_to_others_count_too(tmp_path):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    try:
        open_by_an_acl(theirs)
    except OSError:
        pytest.skip("this file system has no ACLs")
    with pytest.raises(StorageError, match="others may write"):
        safe_files.write_whole(str(theirs / "file"), "x")


@root_only
def test_a_link_that_another_user_has_made_is_not_followed_and_one_of_ours_is(tmp_path):
    real, shared = tmp_path / "real", tmp_path / "shared"
    real.mkdir()
    shared.mkdir()
    shared.chmod(0o1777)
    for name, uid in (("ours", 0), ("theirs", OTHER)):
        (shared / name).symlink_to(real)
        os.chown(shared / name, uid, uid, follow_symlinks=False)
    safe_files.write_whole(str(shared / "ours" / "a"), "x")
    assert names_below(real) == ["a"]
    with pytest.raises(StorageError, match="theirs belongs to another user, of id 65534"):
        safe_files.write_whole(str(shared / "theirs" / "b"), "x")
    assert names_below(real) == ["a"]


@root_only
def test_what_others_have_put_where_we_write_is_neither_followed_nor_kept_open(tmp_path, victim):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    for name in ("linked", ".linked.new"):
        (shared / name).symlink_to(victim)
    held = os.open(shared / ".held.new", os.O_RDWR | os.O_CREAT)
    os.fchown(held, OTHER, OTHER)
    for name in ("linked", "held"):
        safe_files.write_whole(str(shared / name), "ours", 0o644)
        assert not (shared / name).is_symlink()
        assert ((shared / name).read_text(), (shared / name).stat().st_uid) == ("ours", 0)
    assert os.pread(held, 10, 0) == b"", "somebody else has the file open for writing"
    os.close(held)
    (shared / "new").symlink_to(shared / "nothing")
    with pytest.raises(FileExistsError):
        safe_files.open_new(str(shared / "new"))
    os.link(victim, shared / "lock")
    with pytest.raises(StorageError, match="of its own"):
        safe_files.open_lock(str(shared / "lock"))


@root_only
def test_a_folder_that_decides_about_drives_is_ours_alone_not_sticky_either(tmp_path):
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(0o1777)
    with pytest.raises(StorageError, match=r"others may write to .*/state"):
        safe_files.make_folder(str(tmp_path / "state"))


def test_a_write_that_fails_leaves_the_old_file_and_nothing_beside_it(tmp_path):
    def fails(_fd):
        raise OSError(5, "Input/output error")

    path = str(tmp_path / "file")
    safe_files.write_whole(path, "old")
    with pytest.raises(StorageError, match="Input/output error"):
        safe_files.write_whole(path, "new", sync=fails)
    with pytest.raises(UnicodeEncodeError):
        safe_files.write_whole(path, "\udc80")
    assert (names_below(tmp_path), (tmp_path / "file").read_text()) == (["file"], "old")
    (tmp_path / ".file.new").write_text("half, from a crash")
    safe_files.write_whole(path, "new")
    assert (names_below(tmp_path), (tmp_path / "file").read_text()) == (["file"], "new")


def test_the_mode_that_is_asked_for_is_the_files_whatever_the_umask(tmp_path):
    before = os.umask(0o077)
    try:
        safe_files.write_whole(str(tmp_path / "rule"), "x", 0o644)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "rule").stat().st_mode) == 0o644


# ---- reading

# opening the node of a terminal leaves a trace, as that of a watchdog would
PTY = """
import os, pty, sys
from wcache_probe import safe_files
ours, theirs = pty.openpty()
path = os.ttyname(theirs)
os.close(theirs)
os.write(ours, b"7\\n")
link = sys.argv[1]
os.symlink(path, link)
print([safe_files.read_bytes(path, 9), safe_files.read_bytes(link, 9), safe_files.read_own(link, 9),
       safe_files.read_of(link, 9, None)], end=" ")
theirs = os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
print(os.read(theirs, 9))
"""


def test_a_device_is_never_opened_to_be_read(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PTY, tmp_path / "link"], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, timeout=30, check=False,
    )
    assert done.stdout == "[None, None, None, None] b'7\\n'\n", done.stderr


def text_of_own(path, most):
    text = safe_files.read_own(path, most)
    return None if text is None else text.encode()


@pytest.mark.parametrize("reader", [
    safe_files.read_bytes, text_of_own,
    lambda path, most: safe_files.read_of(path, most, None),
])
def test_only_a_regular_file_is_read_and_no_more_than_is_asked_for(tmp_path, reader):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"12345")
    for name in ("pipe", "folder", "not there", "nul\0"):
        assert reader(str(tmp_path / name), 9) is None
    assert reader(str(tmp_path / "file"), 9) == b"12345"
    assert reader(str(tmp_path / "file"), 3) == b"123"


def test_links_lead_no_further_than_the_root_that_is_given(tmp_path):
    inside, outside = tmp_path / "root" / "etc", tmp_path / "secret"
    inside.mkdir(parents=True)
    outside.write_text("outside")
    (inside / "real").write_text("inside")
    for name, target in (
        ("absolute", "/etc/real"), ("up", "../../../../etc/real"), ("dots", "./../etc/real"),
        ("escape", "../../secret"), ("escape_absolute", str(outside)),
        ("loop", "loop"), ("chain", "absolute"),
    ):
        (inside / name).symlink_to(target)
    found = {
        name: safe_files.read_of(f"/etc/{name}", 99, None, str(tmp_path / "root"))
        for name in sorted(os.listdir(inside))
    }
    assert found == {
        "absolute": b"inside", "chain": b"inside", "dots": b"inside", "real": b"inside",
        "up": b"inside", "escape": None, "escape_absolute": None, "loop": None,
    }


@root_only
def test_a_file_is_read_where_only_the_trusted_may_have_put_it_there(tmp_path):
    (tmp_path / "folder").mkdir()
    file = tmp_path / "folder" / "file"
    file.write_text("7")
    os.chown(tmp_path / "folder", 167, 167)
    os.chown(file, 167, 167)
    with pytest.raises(UntrustedError, match="folder belongs to another user, of id 167"):
        safe_files.read_of(str(file), 9, own_users())
    assert safe_files.read_of(str(file), 9, own_users() | {167}) == b"7"
    # ceph-volume mounts a tmpfs there, which is sticky and open to all
    (tmp_path / "folder").chmod(0o1777)
    assert safe_files.read_of(str(file), 9, own_users() | {167}) == b"7"
    os.chown(file, OTHER, OTHER)
    with pytest.raises(UntrustedError, match="file belongs to another user"):
        safe_files.read_of(str(file), 9, own_users() | {167})


def test_no_walk_leaves_a_descriptor_open(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    (tmp_path / "loop").symlink_to("loop")
    before = len(os.listdir("/proc/self/fd"))
    for path in ("link/b/file", "loop/x", "none/x", "a/../../x", "a/b/../file"):
        safe_files.read_of(str(tmp_path / path), 9, own_users())
        safe_files.remove(str(tmp_path / "link/b/file"))
    safe_files.write_whole(str(tmp_path / "link/b/file"), "x")
    assert len(os.listdir("/proc/self/fd")) == before
