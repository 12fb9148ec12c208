"""The lab finds its drives again in what the module says of them."""

import pytest
from drive_lab.campaign import is_of
from wcache_sim.drive_schema import parse_drive_file
from wcache_sim.placement import place

DRIVE = """
schema = 1
[[drive]]
name = "d"
model = "M"
serial = "LAB1"
wwn = "0x5000c50000000001"
[drive.latency]
fua_write = { median_us = 300 }
dirty_flush = { median_us = 300 }
"""


@pytest.mark.parametrize(
    ("drive_id", "domain_id", "same"),
    [
        ("naa.5000c50000000001", "naa.5000c50000000001", True),
        ("naa.5000C50000000001", "x", True),
        ("naa.5000c50000000002", "naa.5000c50000000002", False),
        ("nvme0n1", "nvme:QEMU_NVMe_Ctrl:LAB1", True),
        ("nvme0n1", "nvme:QEMU_NVMe_Ctrl:LAB10", False),
    ],
)
def test_a_row_belongs_to_the_drive_with_its_wwn_or_serial(drive_id, domain_id, same):
    (drive,) = place(parse_drive_file(DRIVE))
    assert is_of(drive, {"drive_id": drive_id, "domain_id": domain_id}) is same
