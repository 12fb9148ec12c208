"""dm-cache and dm-writecache out of `dmsetup status`, and what an admin sees of them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from wcache.core.errors import NotReadyError
from wcache.core.hardware import DmCacheState
from wcache_probe.linux.host import LinuxDriveHost
from wcache_probe.linux.vendor.tool import caches_in, dm_caches

# The fields as the kernel's documentation lists them.
STATUS = """\
ceph-fast_cvol: 0 2097152 linear
ceph-block: 0 419430400 cache 8 27/1024 128 131/16384 1 2 3 4 5 6 7 2 metadata2 writeback 2 \
migration_threshold 2048 smq 0 rw -
ceph-other: 0 419430400 cache 8 27/1024 128 131/16384 1 2 3 4 5 6 0 1 writethrough 0 mq 0 rw -
ceph-broken: 0 419430400 cache Fail
ceph-wc: 0 419430400 writecache 0 262144 200000 0
"""


def test_kind_mode_policy_and_dirty_data_are_told():
    assert caches_in(STATUS) == {
        "ceph-block": DmCacheState("ceph-block", "dm-cache", "writeback", "smq", 7 * 128 * 512),
        "ceph-other": DmCacheState("ceph-other", "dm-cache", "writethrough", "mq", 0),
        "ceph-broken": DmCacheState("ceph-broken", "dm-cache", "unknown"),
        "ceph-wc": DmCacheState("ceph-wc", "dm-writecache", "writeback"),
    }


@given(st.lists(st.sampled_from([*STATUS.split(), "99999999999999999999", "\x1b[2J", "-1"])))
def test_whatever_it_prints_nothing_is_believed_that_makes_no_sense(words):
    for name, state in caches_in("x: " + " ".join(words)).items():
        assert (name, state.name) == ("x", "x")
        assert state.mode in ("writethrough", "writeback", "passthrough", "unknown")
        assert state.dirty_bytes is None or state.dirty_bytes >= 0
        assert "\x1b" not in state.policy


def test_a_tool_in_trouble_tells_of_none():
    def late(command, seconds):
        raise NotReadyError("took too long")

    assert dm_caches(lambda: "/sbin/dmsetup", late) == {}
    assert dm_caches(lambda: None, late) == {}


def test_the_tool_is_asked_without_having_the_cache_commit():
    asked = []

    def tool(command, seconds):
        asked.append(command)
        return STATUS

    assert len(dm_caches(lambda: "/sbin/dmsetup", tool)) == 4
    assert asked == [["/sbin/dmsetup", "status", "--noflush"]]


def test_a_drive_is_told_by_the_volumes_that_stand_on_it(fake_host):
    fake_host.disk("sda", "8:0")
    fake_host.disk("sdb", "8:16")
    top = fake_host.device("dm-3", "253:3", below=("sda",), dm_uuid="LVM-x")
    (top / "dm/name").write_text("ceph-block\n")
    host, known = LinuxDriveHost(files=fake_host.files), caches_in(STATUS)
    assert [one.kind for one in host.dm_caches_on("sda", known)] == ["dm-cache"]
    assert host.dm_caches_on("sdb", known) == ()
    assert host.dm_caches_on("sdc", known) == ()  # unplugged since it was surveyed


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (DmCacheState("ceph-block", "dm-cache", "writeback", "smq", 2**20),
         "under dm-cache ceph-block (writeback, policy smq, dirty 1.0 MiB; observed only, not "
         "tuned)"),
        (DmCacheState("ceph-wc", "dm-writecache", "writeback"),
         "under dm-writecache ceph-wc (writeback; observed only, not tuned)"),
    ],
)
def test_drive_ls_names_them_and_says_that_they_are_not_tuned(state, words):
    mgr = FakeMgr(("h1", (replace(make.drive("sda", 0), dm_caches=(state,)),)))
    mgr.report_all()
    assert set(words.split()) <= set(mgr.command("drive ls")[1].split())
