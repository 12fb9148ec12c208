"""The door to SCSI disks asks its guard with the disk open, and sends nothing where it says no."""

import os

import pytest
from model_drives import ModelAta, ModelScsi
from wcache.core.errors import RefusedError
from wcache.core.model import CacheMode, Transport
from wcache_probe.linux.block.sysfs import by_name
from wcache_probe.linux.transports.sata import SataSwitch
from wcache_probe.linux.transports.scsi import ScsiSwitch
from wcache_probe.linux.transports.sg_io import ScsiReply, SgIo

BACK, THROUGH = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH
COMMAND = bytes(6)


@pytest.fixture
def device(fake_host):
    fake_host.scsi_disk("sda", "8:0", path="ata1/host0", driver="ahci")
    return by_name(fake_host.files, "sda")


def descriptors_of(device):
    """The descriptors that this process holds of a disk."""
    path = os.path.join(device.files.dev, device.name)
    found = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{fd}") == path:
                found.append(int(fd))
        except FileNotFoundError:
            continue  # that of the listing
    return found


def test_the_guard_is_asked_with_the_disk_open_and_before_anything_is_sent_to_it(device):
    happened = []

    def submit(fd, *rest):
        happened.append(("sent", [fd]))
        return 0, ScsiReply(b"")

    SgIo(submit).command(
        device, COMMAND, guard=lambda: happened.append(("asked", descriptors_of(device)))
    )
    (asked, held), (sent, used) = happened
    assert (asked, sent) == ("asked", "sent")
    assert held == used
    assert descriptors_of(device) == []


def test_where_the_guard_says_no_nothing_is_sent_and_the_disk_is_let_go(device):
    sent = []

    def no():
        raise RefusedError("sda is not pinned")

    with pytest.raises(RefusedError, match="not pinned"):
        SgIo(lambda *command: sent.append(command)).command(device, COMMAND, guard=no)
    assert sent == []
    assert descriptors_of(device) == []


@pytest.mark.parametrize(
    ("drive", "kind"),
    [(ModelScsi(wce=False), ScsiSwitch), (ModelAta(enabled=False), SataSwitch)],
    ids=["scsi", "sata"],
)
def test_no_cache_comes_on_through_the_real_door_in_a_disk_replugged_since_the_pin(
    fake_host, device, drive, kind
):
    def submit(fd, name, cdb, data_in, data_out, timeout_ms):
        return 0, drive.command(device, cdb, data_in=data_in, data_out=data_out)

    switch = kind(SgIo(submit), set(), Transport.SCSI)
    switch.pin(device)
    fake_host.replug_scsi("sda")
    with pytest.raises(RefusedError, match="not pinned"):
        switch.set_cache(device, BACK)
    assert switch.read(device).device_cache.value == THROUGH.value
    switch.pin(device)
    switch.set_cache(device, BACK)
    assert switch.read(device).device_cache.value == BACK.value
