"""Partitions, huge pages and governors: told where they cost something, from a few small files."""

import pytest
from wcache.core.model import FindingCode, KernelView, Layer, LayerKind, OsdUse, Role, Severity
from wcache_probe.linux.block.osds import OsdDevices
from wcache_probe.linux.set_up import of_drive, of_host

USE = OsdUse(0, Role.BLOCK, (
    Layer("dm-0", LayerKind.LVM, KernelView.WRITE_BACK),
    Layer("sda1", LayerKind.PARTITION, KernelView.WRITE_BACK),
    Layer("sda", LayerKind.DISK, KernelView.WRITE_BACK),
))


@pytest.mark.parametrize(
    ("offset", "told"), [("3584", True), ("-1", True), ("0", False), ("", False), ("x" * 99, False)]
)
def test_a_partition_off_the_physical_sector_is_told(fake_host, offset, told):
    fake_host.write("sys/class/block/sda1/alignment_offset", f"{offset}\n")
    found = of_drive(fake_host.files, "sda", [USE, USE])
    assert [("sda1" in one.detail) for one in found] == [True] * told
    assert all((one.code, one.severity) == (FindingCode.SETUP, Severity.INFO) for one in found)


def running(osd_id, pid):
    return OsdDevices(osd_id, "f", (), pid=pid)


@pytest.mark.parametrize(
    ("enabled", "status", "told"),
    [
        ("[always] madvise never", "THP_enabled:\t1\n", True),
        ("[always] madvise never", "THP_enabled:\t0\n", False),  # as Ceph starts its daemons
        ("[always] madvise never", "", False),  # Linux before 5.0
        ("always [madvise] never", "THP_enabled:\t1\n", False),
    ],
)
def test_huge_pages_are_told_of_osds_that_may_have_them(fake_host, enabled, status, told):
    fake_host.write("sys/kernel/mm/transparent_hugepage/enabled", f"{enabled}\n")
    fake_host.write("proc/7/status", f"Name:\tceph-osd\n{status}")
    found = of_host(fake_host.files, [running(3, 7), running(4, 0), running(5, 99)])
    assert [one.detail.startswith("osd.3 may") for one in found] == [True] * told


@pytest.mark.parametrize(
    ("governor", "driver", "preference", "told"),
    [
        ("powersave", "acpi-cpufreq", "", "lowest frequency"),
        ("powersave", "intel_pstate", "balance_performance", ""),
        ("powersave", "intel_pstate", "power", "energy preference power"),
        ("performance", "acpi-cpufreq", "", ""),
        ("schedutil", "acpi-cpufreq", "", ""),
    ],
)
def test_a_governor_that_saves_power_is_told_once(fake_host, governor, driver, preference, told):
    for cpu in range(3):
        for name, text in (
            ("scaling_governor", governor), ("scaling_driver", driver),
            ("energy_performance_preference", preference),
        ):
            path = f"sys/devices/system/cpu/cpufreq/policy{cpu}/{name}"
            fake_host.write(path, f"{text}\n")
    found = of_host(fake_host.files, [])
    assert len(found) == bool(told)
    assert all(told in one.detail for one in found)


def test_a_host_that_tells_nothing_has_nothing(fake_host):
    assert of_host(fake_host.files, [running(1, 1)]) == []
    assert of_drive(fake_host.files, "sda", [USE]) == []
