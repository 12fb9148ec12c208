"""A drive that refuses SYNCHRONIZE CACHE is pinned by nobody: each of its flushes would fail."""

from dataclasses import replace

import pytest
from model_drives import ModelScsi
from prepare_bench import Bank, chosen, entry_of, host_of, preparation, prepare
from wcache.core.drive.safety import may_be_pinned
from wcache.core.errors import RefusalKind, RefusedError, StorageError
from wcache.core.model import DeviceCache
from wcache_probe.commands.prepare import needing_the_rule
from wcache_probe.linux.persistence.udev_rule import line_of
from wcache_probe.linux.transports.base import FLUSH_TIMEOUT_MS
from wcache_probe.linux.transports.sg_io import ScsiError, Sense

ILLEGAL, NOT_READY = Sense(5, 0x20, 0), Sense(2, 4, 1)


class Unflushable(ModelScsi):
    """A disk that answers SYNCHRONIZE CACHE with `sense`; with no page it says no cache mode."""

    def __init__(self, sense, page=False):
        super().__init__(wce=False)
        self.sense = sense
        self.has_page = page
        self.flush_timeouts_ms = set()

    def command(self, device, cdb, **more):
        if cdb[0] == 0x35:
            self.flush_timeouts_ms.add(more.get("timeout_ms"))
            raise ScsiError("SYNCHRONIZE CACHE", self.sense) if self.sense else StorageError("no")
        if cdb[0] in (0x5A, 0x1A) and not self.has_page:
            raise ScsiError("MODE SENSE", ILLEGAL)
        return super().command(device, cdb, **more)


def host_with(fake_host, sense, *, page=False, view="write through"):
    """One disk under an OSD, which the kernel sends no flush to."""
    bank = Bank()
    bank.drives["sda"] = Unflushable(sense, page)
    host = host_of(fake_host, bank=bank, wwids=("naa.5000c50000000001",))
    fake_host.set_view("sda", view)
    return host


def cache_type(fake_host):
    return (fake_host.root / "sys/class/block/sda/device/scsi_disk/0:0:0:0/cache_type").read_text()


@pytest.mark.parametrize("page", [False, True], ids=["no caching page", "cache off"])
def test_it_is_neither_pinned_nor_named_by_the_boot_rule_and_says_why(fake_host, page):
    host = host_with(fake_host, ILLEGAL, page=page)
    (drive,) = host.look()
    assert RefusalKind.NO_FLUSH in [one.kind for one in drive.refusals]
    assert "refuses SYNCHRONIZE CACHE" in drive.toggle_refusal
    assert "prepare" not in drive.toggle_refusal
    assert not may_be_pinned(drive)
    with pytest.raises(RefusedError, match="refuses SYNCHRONIZE CACHE"):
        host.pin(drive)
    assert cache_type(fake_host) == "write back\n"
    found = chosen(host)
    assert found.lines == ()
    assert "refuses SYNCHRONIZE CACHE" in found.left_out[0]
    if page:  # not even for a change of before, whose way back it is in
        assert chosen(host, entry_of((drive,)), journalled=(drive,)).lines == ()


def test_a_rule_that_names_it_from_before_needs_not_stay_for_it(fake_host):
    host = host_with(fake_host, ILLEGAL)
    bank_drive = host.switches._scsi._port.drives["sda"]
    bank_drive.sense = NOT_READY
    assert prepare(fake_host, host)[0] == 0
    assert needing_the_rule(preparation(fake_host), host)
    bank_drive.sense = ILLEGAL
    assert needing_the_rule(preparation(fake_host), host) == {}
    prepare(fake_host, host)
    assert "naa.5000c50000000001" not in preparation(fake_host).rule_text()


@pytest.mark.parametrize("sense", [NOT_READY, None], ids=["not ready", "no answer"])
def test_one_that_fails_a_flush_in_another_way_is_pinned(fake_host, sense):
    host = host_with(fake_host, sense, page=True)
    (drive,) = host.look()
    assert may_be_pinned(drive)
    fake_host.set_view("sda", "write back")
    host.pin(drive)
    assert cache_type(fake_host) == "temporary write back"
    assert chosen(host).lines == (line_of(drive.wwid),)


def test_a_flush_that_it_is_asked_for_first_has_as_long_as_any_other(fake_host):
    """It may be the first one of a full cache: to time out is a reset under a running OSD."""
    host = host_with(fake_host, NOT_READY, page=True)
    (drive,) = host.look()
    fake_host.set_view("sda", "write back")
    asked = host.switches._scsi._port.drives["sda"].flush_timeouts_ms
    host.pin(drive)
    assert asked == {FLUSH_TIMEOUT_MS}


@pytest.mark.parametrize("page", [False, True])
def test_one_that_the_kernel_flushes_already_is_not_asked(fake_host, page):
    host = host_with(fake_host, ILLEGAL, page=page, view="write back")
    (drive,) = host.look()
    assert may_be_pinned(drive)
    host.pin(drive)
    assert cache_type(fake_host) == "temporary write back"


def test_a_start_of_the_probe_leaves_it_as_it_is(fake_host):
    host = host_with(fake_host, ILLEGAL, page=True)
    (drive,) = host.look()
    entry = replace(entry_of((drive,)), domain_id=drive.domain_id)
    (here,) = host.here(entry)
    assert here.state.device_cache is DeviceCache.WRITE_THROUGH
    assert not may_be_pinned(here)
