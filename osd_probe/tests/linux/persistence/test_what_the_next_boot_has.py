"""Prepared is what the next boot has: rule and journal, and not a copy of them in RAM."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prepare_bench import WHERE, booted, host_of, mounted, preparation, prepare
from wcache.core.errors import NotFoundError, StorageError, told
from wcache.core.model import Transport
from wcache_probe.linux.persistence.preparation import for_next_boot


def refusal(host):
    (drive,) = host.look()
    return drive.toggle_refusal


# ---- in RAM


@pytest.mark.parametrize("kind", ["tmpfs", "ramfs"])
def test_a_rule_in_ram_prepares_nothing(fake_host, kind):
    host = host_of(fake_host)
    assert prepare(fake_host, host)[0] == 0
    assert refusal(host) == ""
    mounted(fake_host, "/etc", kind)
    assert f"etc/udev/rules.d is on {kind}" in refusal(host)
    with pytest.raises(NotFoundError, match="of which the next boot has nothing") as refused:
        prepare(fake_host, host)
    assert "--image-elsewhere" in refused.value.advice
    # an image may bring them: an admin's word begins it, and the note of a boot proves it
    assert prepare(fake_host, host, image_elsewhere=True)[0] == 0
    assert "boots once" in refusal(host)
    booted(fake_host, "second", noted=(fake_host.root / f"etc/{WHERE}").read_text())
    assert refusal(host) == ""


@pytest.mark.parametrize(
    ("transport", "lost"),
    [(Transport.SCSI, True), (Transport.SATA, True), (Transport.NVME, True),
     (Transport.LOOP, False)],  # of a throwaway cluster, and gone at the next boot itself
)
def test_a_journal_in_ram_keeps_drives_of_every_transport_from_being_toggled(
    fake_host, transport, lost
):
    host = host_of(fake_host)
    assert prepare(fake_host, host)[0] == 0
    mounted(fake_host, "/state", "tmpfs")
    drive = replace(host.look()[0], transport=transport)
    said = told(for_next_boot(drive, preparation(fake_host).look()))
    assert ("give the probe a --state-dir on a disk" in said) is lost
    assert "state is on tmpfs" in refusal(host)
    with pytest.raises(StorageError, match="state is on tmpfs"):
        prepare(fake_host, host)
