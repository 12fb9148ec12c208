"""The boot rule stays as long as a drive or a journal of the host needs it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from model_drives import ModelScsi
from prepare_bench import (
    BLANKS,
    WHERE,
    WWID,
    Bank,
    host_of,
    options_of,
    preparation,
    prepare,
    preparer_of,
    turned_off,
)
from wcache.core.drive.journal import EntryKind, JournalEntry, encode, prior_of
from wcache.core.drive.safety import may_toggle
from wcache.core.errors import (
    ConflictError,
    NotFoundError,
    NotReadyError,
    Refusal,
    RefusalKind,
    StorageError,
)
from wcache.core.model import CacheMode, DeviceCache, FindingCode, KernelView
from wcache_probe.commands.prepare import unprepare
from wcache_probe.journal.journal_file import StateFolder
from wcache_probe.linux.persistence.udev_rule import RuleFolder


def unprepared(fake_host, host, state="state", gone=False):
    """Run it as the command does, with a state folder."""
    words = ("unprepare", "--gone") if gone else ("unprepare",)
    return unprepare(options_of(fake_host, *words, state=state), preparer_of(fake_host), host)


def has_rule(fake_host):
    return (fake_host.root / f"etc/{WHERE}").exists()


def test_a_drive_that_is_not_here_now_keeps_the_rule_until_an_admin_says_that_it_is_gone(
    fake_host,
):
    host = host_of(fake_host)
    prepare(fake_host, host)
    turned_off(host)  # and accepted: no journal names it
    (fake_host.root / "sys/block/sda").rename(fake_host.root / "gone")
    with pytest.raises(ConflictError, match=f"not on this host now .{WWID}.") as refused:
        unprepared(fake_host, host)
    assert "wcache-probe unprepare --gone" in refused.value.advice
    assert has_rule(fake_host)
    assert unprepared(fake_host, host, gone=True) == 0
    assert not has_rule(fake_host)


def test_under_an_older_kernel_a_drive_that_is_off_is_here_and_keeps_the_rule(fake_host):
    wwid = "sys/devices/pci0/host0/target0:0:0/0:0:0:0/wwid"
    host = host_of(fake_host, wwids=(BLANKS,))
    fake_host.write(wwid, f"{host.look()[0].wwn}\n")
    prepare(fake_host, host)
    turned_off(host)
    fake_host.write(wwid, f"{BLANKS}\n")
    for gone in (False, True):
        with pytest.raises(ConflictError, match="the cache of sda is off now"):
            unprepared(fake_host, host, gone=gone)
    assert has_rule(fake_host)
    (fake_host.root / "osd/osd.0/block").unlink()  # nor does `prepare` without its OSD let it go
    prepare(fake_host, host)
    assert "naa." in (fake_host.root / f"etc/{WHERE}").read_text()


def test_a_rule_that_turns_a_cache_off_at_each_boot_keeps_the_boot_rule(fake_host):
    host = host_of(fake_host)
    prepare(fake_host, host)
    folder = fake_host.root / "etc/udev/rules.d"
    rules = RuleFolder(str(folder), str(fake_host.root / "run"), "/usr/bin/wcache-probe")
    rules.write(WWID, CacheMode.WRITE_THROUGH)  # as `drive accept` leaves it
    with pytest.raises(ConflictError, match=r"85-wcache-.*, which sets its drive's cache"):
        unprepared(fake_host, host)
    assert has_rule(fake_host)
    rules.remove(WWID)
    assert unprepared(fake_host, host) == 0


def test_a_drive_that_is_off_and_wakes_on_keeps_the_rule_though_no_journal_names_it(
    fake_host,
):
    """As `drive accept` leaves it: without the rule, a warm reboot and a reset lose writes."""
    host = host_of(fake_host)
    prepare(fake_host, host)
    drive = turned_off(host)
    with pytest.raises(ConflictError, match="the cache of sda is off now") as refused:
        unprepared(fake_host, host)
    assert "it needs no program of wcache; once these caches are on" in refused.value.advice
    assert has_rule(fake_host)
    host.set_cache(drive, CacheMode.WRITE_BACK)
    assert unprepared(fake_host, host) == 0
    assert not has_rule(fake_host)


def test_a_drive_that_no_osd_uses_any_more_keeps_the_rule_too(fake_host):
    host = host_of(fake_host)
    prepare(fake_host, host)
    turned_off(host)
    (fake_host.root / "osd/osd.0/block").unlink()
    with pytest.raises(ConflictError, match="the cache of sda is off now"):
        unprepared(fake_host, host)


def test_a_drive_that_is_known_to_stay_off_needs_no_rule(fake_host):
    bank = Bank()
    host = host_of(fake_host, bank=bank)
    prepare(fake_host, host)
    bank.drives["sda"] = ModelScsi(wce=False, savable=True)
    bank.drives["sda"].naa = bytes.fromhex(f"5000c500000000{ord('a'):02x}")
    assert unprepared(fake_host, host) == 0


@pytest.mark.parametrize("view", ["write through", "write back"])
def test_off_needs_no_boot_rule_where_a_drive_loses_data_now(fake_host, view):
    host = host_of(fake_host)
    fake_host.set_view("sda", view)
    (drive,) = host.look()
    reason = may_toggle(
        [drive], CacheMode.WRITE_THROUGH, throwaway=False, consent_turn_on=False,
        experiment=False,
    )
    assert (reason is None) is (view == "write through")
    assert FindingCode.NOT_PREPARED in [finding.code for finding in drive.findings]
    # nothing else is let through by that
    for mode in CacheMode:
        assert may_toggle([drive], mode, throwaway=False, consent_turn_on=True)


def test_off_is_not_let_through_where_more_than_the_boot_rule_speaks_against_it():
    """Also of a drive that loses data now: over two paths, say, the wrong one may be switched."""
    why = "it is reached over several paths (sda, sdb)"
    unsafe = make.state(CacheMode.WRITE_BACK, kernel_view=KernelView.WRITE_THROUGH)
    refusals = (
        Refusal(RefusalKind.NOT_PREPARED, "no rule"), Refusal(RefusalKind.LEFT_ALONE, why)
    )
    drive = make.drive("sda", 0, state=unsafe, refusals=refusals)
    assert may_toggle(
        [drive], CacheMode.WRITE_THROUGH, throwaway=False, consent_turn_on=False,
        experiment=False,
    ) == f"sda: {why}"


def test_a_lease_of_another_journal_keeps_the_rule(fake_host):
    host = host_of(fake_host)
    prepare(fake_host, host)
    drives = host.look()
    other = fake_host.root / "other"
    other.mkdir(mode=0o700)
    journal = StateFolder(str(other), str(fake_host.root / "run")).journal
    entry = JournalEntry(2, EntryKind.LEASE, "l", "d", prior_of(drives), 0.0)
    journal.write(entry.key, encode(entry))
    with pytest.raises(ConflictError, match="another state folder"):
        unprepared(fake_host, host)
    assert has_rule(fake_host)
    journal.remove(entry.key)
    assert unprepared(fake_host, host) == 0


class Hidden:
    """A host whose disks' drives are seen as these, or not at all."""

    def __init__(self, host, error=None, drives=()):
        self._error, self._drives = error, drives
        self.disks, self.names = host.disks, host.names

    def appeared(self, dev_name, wwid):
        if self._error:
            raise self._error
        return self._drives


@pytest.mark.parametrize(
    "error", [NotFoundError("sda is gone"), StorageError("it hangs"), NotReadyError("it starts")],
    ids=lambda error: type(error).__name__,
)
def test_a_drive_that_cannot_be_looked_at_keeps_the_rule(fake_host, error):
    host = host_of(fake_host)
    prepare(fake_host, host)
    with pytest.raises(ConflictError, match="sda could not be looked at"):
        unprepared(fake_host, Hidden(host, error))
    assert has_rule(fake_host)
    assert unprepared(fake_host, host) == 0


def test_a_drive_whose_cache_is_not_known_keeps_the_rule(fake_host):
    """It may be off, and come on by a reset."""
    host = host_of(fake_host)
    prepare(fake_host, host)
    (drive,) = host.look()
    unknown = replace(drive, state=replace(drive.state, device_cache=DeviceCache.UNKNOWN))
    with pytest.raises(ConflictError, match="whether the cache of sda is on is not known"):
        unprepared(fake_host, Hidden(host, drives=(unknown,)))
    assert has_rule(fake_host)


def test_the_record_goes_before_the_rule(fake_host):
    """Whatever ends it in between, no host is called prepared whose rule is gone."""
    host = host_of(fake_host)
    prepare(fake_host, host)
    made = preparer_of(fake_host)
    path = fake_host.root / f"etc/{WHERE}"
    path.unlink()
    path.mkdir()  # a rule that cannot be removed
    with pytest.raises(StorageError):
        made.remove_rule()
    assert preparation(fake_host).record() is None
