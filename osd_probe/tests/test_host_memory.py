"""A host's RAM and the limits of its OSDs' control groups, of either version."""

import pytest
from wcache.core.hardware.host_memory import CgroupLimit
from wcache_probe.linux import memory
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
    osds = tuple(OsdDevices(pid, "", "/", (), pid=pid) for pid in cgroups)
    return memory.look(HostFiles(proc=str(proc)), osds, str(tmp_path / "cgroup"))


def test_ram_is_told_and_what_is_available_only_roughly(tmp_path):
    found = a_host(tmp_path, {}, {})
    assert found.total_bytes == 16384000 * 1024
    assert abs(found.available_bytes - 8192000 * 1024) <= found.total_bytes / 32
    assert found.limits == ()


def test_limits_of_version_2_are_found_in_every_folder_above_the_osd(tmp_path):
    found = a_host(
        tmp_path, {1: "0::/pods/osd1\n", 2: "0::/pods/osd2\n"},
        {"pods/memory.max": "8000000000\n", "pods/osd1/memory.max": "2000000000\n",
         "pods/osd2/memory.max": "max\n"},
    )
    assert found.limits == (
        CgroupLimit(2000000000, (1,)), CgroupLimit(8000000000, (1, 2)))


def test_limits_of_version_1_are_found_and_no_limit_is_none(tmp_path):
    found = a_host(
        tmp_path, {7: "9:cpu:/x\n4:memory:/docker/a\n"},
        {"memory/docker/a/memory.limit_in_bytes": "3000000000\n",
         "memory/docker/memory.limit_in_bytes": "9223372036854771712\n"},
    )
    assert found.limits == (CgroupLimit(3000000000, (7,)),)


@pytest.mark.parametrize("text", ["", "0::/../../escape\n", "nonsense", "0:memory\n"])
def test_odd_control_groups_are_no_limit(tmp_path, text):
    found = a_host(tmp_path, {1: text}, {"memory.max": "not a number"})
    assert found.limits == ()
