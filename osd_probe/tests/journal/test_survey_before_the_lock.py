"""A survey of drives goes on without the lock of a cache domain, which whoever restores needs."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from prepare_bench import Bank, host_of
from translations import Translation, host_with
from wcache.core.drive.journal import EntryKind
from wcache.core.drive.prior import prior_from
from wcache.core.errors import NotReadyError
from wcache.core.model import CacheMode, DeviceCache
from wcache.core.protocol import (
    PROTOCOL_VERSION,
    AcceptRequest,
    ApplyRequest,
    FailureOutcome,
    Lease,
    PollReply,
    ReleaseRequest,
    RollbackRequest,
    SetModeRequest,
    StateOutcome,
    Task,
)
from wcache_probe.journal.host_lock import HostLock
from wcache_probe.journal.journal_file import StateFolder
from wcache_probe.linux.transports.classify import Switches
from wcache_probe.mgr_link import Identity
from wcache_probe.restoring.owed import Holds
from wcache_probe.switcher import Switcher
from wcache_probe.switching.lease import LeaseKeeper
from wcache_probe.tasks import TaskRunner

BACK, THROUGH = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH
FSID = "f" * 8
OURS, OTHER = "sdb", "sda"
INQUIRY, MODE_SENSE, MODE_SELECT = 0x12, 0x5A, 0x55


class WatchedBank(Bank):
    """Model drives; notes which is asked while a lock is held, and one may hang."""

    def __init__(self):
        super().__init__()
        self.locked = lambda: False
        self.asked = []
        self.hangs = self.let_go = None
        self.hung = threading.Event()

    def hang(self, name):
        self.let_go = threading.Event()
        self.hangs = name

    def command(self, device, cdb, **more):
        self.asked.append((device.name, self.locked()))
        if device.name == self.hangs:
            self.hung.set()
            assert self.let_go.wait(60)
        return super().command(device, cdb, **more)


class World:
    """Two disks under OSDs, and the probe's way to change the second, with a real lock."""

    def __init__(self, fake_host):
        self.files = fake_host
        self.bank = WatchedBank()
        host_of(fake_host, osds=(OTHER, OURS), bank=self.bank)
        self.host = self.a_host()
        self.run_dir = str(fake_host.root / "run")
        (fake_host.root / "var").mkdir(mode=0o700)
        self.state = StateFolder(str(fake_host.root / "var"), self.run_dir)
        self.drive = next(drive for drive in self.host.look() if drive.dev_name == OURS)
        self.prior = prior_from(FSID, self.drive.domain_id, [self.drive])
        self.lease = Lease("L1", self.drive.domain_id, 30.0)
        self.bank.locked = self.locked

    def a_host(self):
        """The host as a process of its own has it."""
        return self.files.drive_host(
            switches=Switches(scsi=self.bank), find_foreign_rules=tuple,
            boot_pins=lambda: self.files.boot_pins(), sleep=lambda s: None,
        )

    def locked(self):
        try:
            with HostLock(self.run_dir, wait_s=0).held(self.drive.domain_id):
                return False
        except NotReadyError:
            return True

    def perform(self, request, lock=None):
        lease = None if isinstance(request, AcceptRequest) else self.lease
        runner = runner_of(self.host, self.state, self.run_dir, lease, lock)
        return runner.perform(Task("t", request))

    def unprepared_first(self, domain_id):
        """The lock, which `unprepare` gets between the survey of a change and its turn."""
        self.files.boot_pins = Unprepared
        return HostLock(self.run_dir).held(domain_id)


class Unprepared:
    journal_lost = ""

    def refusal(self, _wwid):
        return "the boot rule does not name it"


def runner_of(host, state, run_dir, lease=None, lock=None, switcher=None):
    """What performs tasks; a lease that is given is live."""
    keeper = LeaseKeeper({})
    keeper.heard(PollReply(PROTOCOL_VERSION, 1.0, None, lease, False, False), 100.0, 100.0)
    switcher = switcher or Switcher(host, state.journal, lock=lock or HostLock(run_dir).held)
    return TaskRunner(
        host=host, switcher=switcher, keeper=keeper,
        holds=Holds(keeper, switcher.read_journal), identity=Identity("h", "p", "i", False),
        clock=lambda: 100.0,
    )


@pytest.fixture
def world(fake_host):
    return World(fake_host)


def set_mode(world):
    return SetModeRequest(world.drive.domain_id, THROUGH, prior=world.prior)


def apply(world):
    return ApplyRequest(world.drive.domain_id, "a1", BACK, THROUGH, prior=world.prior)


def release(world):
    return ReleaseRequest(world.drive.domain_id, prior=world.prior)


def rollback(world):
    return RollbackRequest(world.drive.domain_id, "a1", prior=world.prior)


def accept(world):
    return AcceptRequest(world.drive.domain_id, ("lease/gone",))


@pytest.mark.parametrize("change", [set_mode, apply, release, rollback])
def test_under_the_lock_only_the_domains_own_drive_is_asked_and_it_is_asked_anew(world, change):
    outcome = world.perform(change(world))
    assert isinstance(outcome, StateOutcome), outcome
    assert {name for name, locked in world.bank.asked if not locked} == {OTHER, OURS}
    assert {name for name, locked in world.bank.asked if locked} == {OURS}


def test_another_drive_is_asked_who_it_is_and_nothing_of_its_cache(world):
    logs = {name: world.bank.drives[name].log for name in (OTHER, OURS)}
    for log in logs.values():
        log.clear()
    assert isinstance(world.perform(set_mode(world)), StateOutcome)
    assert set(logs[OTHER]) == {INQUIRY}
    assert MODE_SENSE in logs[OURS]


def named_by_the_kernel(world, **wwids):
    """The kernel's names of disks, as sysfs shows them."""
    for name, wwid in wwids.items():
        number = ord(name[2]) - ord("a")
        world.files.write(
            f"sys/devices/pci0/host0/target0:0:{number}/0:0:{number}:0/wwid", f"{wwid}\n")


def asked_of_the_other(world):
    log = world.bank.drives[OTHER].log
    log.clear()
    outcome = world.perform(set_mode(world))
    return outcome, set(log)


def test_a_drive_that_the_kernel_names_otherwise_is_asked_nothing(world):
    named_by_the_kernel(world, sdb=world.drive.domain_id, sda="naa.5000c500000000ff")
    outcome, asked = asked_of_the_other(world)
    assert isinstance(outcome, StateOutcome), outcome
    assert asked == set()


@pytest.mark.parametrize("other", ["", "t10.ATA     A DISK     1", "naa of the drive"])
def test_a_second_path_to_the_drive_is_found_whatever_the_kernel_calls_it(world, other):
    name = world.drive.domain_id
    named_by_the_kernel(world, sdb=name, sda=name if other.startswith("naa") else other)
    world.bank.drives[OTHER].naa = world.bank.drives[OURS].naa
    outcome, asked = asked_of_the_other(world)
    assert INQUIRY in asked
    assert isinstance(outcome, FailureOutcome), outcome
    assert "it is reached over several paths" in outcome.message


def test_where_a_domain_has_several_luns_every_drive_is_asked(world):
    world.files.scsi_disk("sdc", "8:32", hctl="0:0:1:1")
    name = world.drive.domain_id
    named_by_the_kernel(world, sdb=name, sda="naa.5000c500000000ff")
    log = world.bank.drives[OTHER].log
    log.clear()
    assert {drive.dev_name for drive in world.host.domain(name)} == {"sdb", "sdc"}
    assert set(log) == {INQUIRY}


def test_a_drive_that_was_put_in_anothers_place_does_not_hide_a_path(world):
    world.files.scsi_disk("sdc", "8:32", hctl="0:0:2:0")
    world.files.osd(2, block="sdc")
    # the kernel's name of sda is that of a drive that was there before
    name, stale = world.drive.domain_id, "naa.5000c500000000ff"
    named_by_the_kernel(world, sda=name, sdb=stale, sdc=stale)
    world.host.look()
    world.bank.drives["sdc"].naa = world.bank.drives[OURS].naa
    outcome = world.perform(set_mode(world))
    assert isinstance(outcome, FailureOutcome), outcome
    assert "it is reached over several paths" in outcome.message


@pytest.mark.parametrize("change", [set_mode, apply])
def test_a_change_that_was_surveyed_before_unprepare_is_not_made_after_it(world, change):
    outcome = world.perform(change(world), world.unprepared_first)
    assert isinstance(outcome, FailureOutcome), outcome
    assert outcome.refused
    assert "boot rule does not name it" in outcome.message
    assert world.state.journal.read() == {}
    assert world.bank.drives[OURS].current[2] & 4, "its cache is on as before"


def test_what_was_surveyed_before_prepare_is_changed_after_it(world):
    world.files.boot_pins = Unprepared

    def prepared_first(domain_id):
        world.files.boot_pins = type(world.files).boot_pins
        return HostLock(world.run_dir).held(domain_id)

    outcome = world.perform(set_mode(world), prepared_first)
    assert isinstance(outcome, StateOutcome), outcome


def test_no_boot_rule_is_asked_for_on_the_way_back(world):
    assert isinstance(world.perform(set_mode(world)), StateOutcome)
    for key in world.state.journal.read():
        world.state.journal.remove(key)  # only the mgr knows it now
    outcome = world.perform(release(world), world.unprepared_first)
    assert isinstance(outcome, StateOutcome), outcome
    assert world.bank.drives[OURS].current[2] & 4, "its cache is on again"


def test_what_was_accepted_is_read_when_the_lock_is_free_again(world):
    assert isinstance(world.perform(accept(world)), StateOutcome)
    assert world.bank.asked
    assert not any(locked for _, locked in world.bank.asked)


def test_a_change_that_failed_is_read_back_when_the_lock_is_free_again(world):
    model = world.bank.drives[OURS]
    model.obeys = False
    outcome = world.perform(set_mode(world))
    assert isinstance(outcome, FailureOutcome)
    assert outcome.drive_ids == (world.drive.drive_id,)
    assert not any(locked for name, locked in world.bank.asked if name == OTHER)


def test_a_disk_that_hangs_in_a_survey_does_not_keep_another_from_being_restored(world):
    assert isinstance(world.perform(set_mode(world)), StateOutcome)
    world.bank.hang(OTHER)
    loop = threading.Thread(target=world.perform, args=(set_mode(world),), daemon=True)
    loop.start()
    try:
        assert world.bank.hung.wait(60)
        child = Switcher(
            world.a_host(), world.state.journal, lock=HostLock(world.run_dir, wait_s=0).held
        )
        child.restore_key(f"{EntryKind.LEASE.value}/{world.drive.domain_id}")
        assert world.state.journal.read() == {}
        assert world.bank.drives[OURS].current[2] & 4, "its cache is on again"
    finally:
        world.bank.let_go.set()
        loop.join(60)
    assert not loop.is_alive()


@pytest.mark.parametrize("change", [set_mode, apply])
def test_a_drive_that_took_too_long_to_open_is_told_nothing(world, change):
    """The device is open, and the right to change it has ended while it was being opened."""
    late, asked, switches = [], [], []
    switcher = Switcher(
        world.host, world.state.journal, lock=HostLock(world.run_dir).held,
        may_not_go_on=lambda: "the lease ran out" if late else "",
        at=lambda what: switches.append(what.endswith("switched")),
    )
    world.host.watched_by(lambda what: None, switcher.require_to_go_on)
    command = world.bank.command

    def slow(device, cdb, **more):
        asked.append(cdb[0])
        if switches and switches[-1] and cdb[0] == INQUIRY:
            late.append(True)
        return command(device, cdb, **more)

    world.bank.command = slow
    runner = runner_of(
        world.host, world.state, world.run_dir, world.lease, switcher=switcher
    )
    outcome = runner.perform(Task("t", change(world)))
    assert isinstance(outcome, FailureOutcome), outcome
    assert "the lease ran out" in outcome.message
    assert outcome.restored
    assert MODE_SELECT not in asked
    assert world.state.journal.read() == {}


def test_a_refused_drive_that_answers_no_command_is_refused_and_not_failed(fake_host, tmp_path):
    """The adapter of a translated drive may pass no ATA command on."""
    host = host_with(fake_host, Translation(blocked=True))
    (drive,) = host.look()
    assert drive.toggle_refusal
    state = StateFolder(str(tmp_path / "state"), str(tmp_path / "run"))
    runner = runner_of(host, state, str(tmp_path / "run"))
    seen = replace(drive, state=replace(drive.state, device_cache=DeviceCache.WRITE_BACK))
    known = prior_from(FSID, drive.domain_id, [seen])
    outcome = runner.perform(
        Task("t", ApplyRequest(drive.domain_id, "a1", BACK, THROUGH, prior=known))
    )
    assert isinstance(outcome, FailureOutcome)
    assert outcome.refused, outcome.message
