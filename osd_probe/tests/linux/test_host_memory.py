"""A host's RAM and the limits of its OSDs' control groups, of either version."""

import pytest
from wcache.core.hardware import CgroupLimit
from wcache_probe.linux import set_up
from wcache_probe.linux.block.host_files import HostFiles
from wcache_probe.linux.block.osds import OsdDevices

MEMINFO = "MemTotal:       16384000 kB\nMemFree: 1 kB\nMemAvailable:    8192000 kB\n"


def a_host(tmp_path, cgroups, limits):
    """`cgroups` are the texts of /proc/PID/cgroup by pid, `limits` values by file."""
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "meminfo").write_text(MEMINFO)
    for pid, text in cgroups.items():
        (proc / str(pid)).mkdir()
        (proc / str(pid) / "cgroup").write_text(text)
    for name, value in limits.items():
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value)
    osds = tuple(OsdDevices(pid, "", (), pid=pid) for pid in cgroups)
    return set_up.memory_of(HostFiles(proc=str(proc)), osds, str(tmp_path / "cgroup"))


def test_ram_is_told_and_what_is_available_only_roughly(tmp_path):
    found = a_host(tmp_path, {}, {})
    assert found.total_bytes == 16384000 * 1024
    told = set_up.rounded(found)
    assert found.available_bytes == 8192000 * 1024
    assert found.available_bytes - found.total_bytes / 32 < told.available_bytes
    assert told.available_bytes % (told.total_bytes // 32) == 0
    assert told.available_bytes <= found.available_bytes
    assert found.limits == ()


@pytest.mark.parametrize(("cgroups", "files", "limits"), [
    ({1: "0::/pods/osd1\n", 2: "0::/pods/osd2\n"},
     {"pods/memory.max": "8000000000\n", "pods/osd1/memory.max": "2000000000\n",
      "pods/osd2/memory.max": "max\n"},
     (CgroupLimit(2000000000, (1,)), CgroupLimit(8000000000, (1, 2)))),
    ({7: "9:cpu:/x\n4:memory:/docker/a\n"},
     {"memory/docker/a/memory.limit_in_bytes": "3000000000\n",
      "memory/docker/memory.limit_in_bytes": "9223372036854771712\n"},
     (CgroupLimit(3000000000, (7,)),)),
], ids=["version 2", "version 1"])
def test_limits_are_found_in_every_folder_above_the_osd(tmp_path, cgroups, files, limits):
    assert a_host(tmp_path, cgroups, files).limits == limits


@pytest.mark.parametrize(("cgroup", "files"), [
    ("0::/a\n", {"a/memory.max": "3000000000\n", "a/memory.current": "2500000000\n",
                 "a/memory.stat": "anon 5\ninactive_file 300000000\nactive_file 200000000\n"}),
    ("4:memory:/a\n", {
        "memory/a/memory.limit_in_bytes": "3000000000\n",
        "memory/a/memory.usage_in_bytes": "2500000000\n",
        "memory/a/memory.stat": "inactive_file 1\nactive_file 2\n"
        "total_inactive_file 300000000\ntotal_active_file 200000000\n"}),
])
def test_what_a_control_group_uses_is_told_without_page_cache_and_not_in_a_report(
    tmp_path, cgroup, files
):
    found = a_host(tmp_path, {7: cgroup}, files)
    assert found.limits == (CgroupLimit(3000000000, (7,), 2000000000),)
    assert set_up.rounded(found).limits == (CgroupLimit(3000000000, (7,)),)


@pytest.mark.parametrize("text", ["", "0::/../../escape\n", "nonsense", "0:memory\n"])
def test_odd_control_groups_are_no_limit(tmp_path, text):
    found = a_host(tmp_path, {1: text}, {"memory.max": "not a number"})
    assert found.limits == ()
