"""doc/hardware.md names every transport and every host driver that the code knows."""

from pathlib import Path

import pytest
from wcache.core.model import Transport
from wcache_probe.linux.transports import classify

TEXT = (Path(__file__).resolve().parents[2] / "doc" / "hardware.md").read_text()
DRIVERS = (*classify.VIRTUAL_HOSTS, *classify.SAS_HOSTS, *classify.RAID_HOSTS)


@pytest.mark.parametrize("transport", Transport, ids=lambda item: item.value)
def test_every_transport_is_in_the_table(transport):
    assert f"`{transport.value}`" in TEXT


@pytest.mark.parametrize("driver", DRIVERS)
def test_every_host_driver_is_in_the_table(driver):
    assert driver in TEXT
