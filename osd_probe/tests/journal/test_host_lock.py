"""Programs of one host that switch drives do so one after the other, with real flocks."""

import os
import subprocess
import sys
import threading

import pytest
from model_drives import ModelScsi
from sim_drives import MemoryJournal
from test_persistence import COMMAND, WWID, host_with
from wcache.core.drive.journal import EntryKind
from wcache.core.errors import NotReadyError, StorageError
from wcache.core.model import CacheMode
from wcache_probe.journal.host_lock import HostLock
from wcache_probe.journal.journal_file import LeaseMarker, NoJournal, StateFolder
from wcache_probe.linux.persistence.appearing import appear
from wcache_probe.linux.persistence.udev_rule import FILE_NAME, RuleFolder, boot_rule
from wcache_probe.switcher import Switcher, nothing
from wcache_probe.switching import toggle

BACK, THROUGH = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH

HOLD = """
import sys
from wcache_probe.journal.host_lock import HostLock
with HostLock(sys.argv[1]).held("d"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def run_dir(tmp_path):
    return str(tmp_path / "run")


@pytest.fixture
def other_process(run_dir):
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, run_dir],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert child.stdout.readline() == "held\n"
    yield child
    child.kill()
    child.communicate()


def test_while_another_process_holds_it_the_wait_is_bounded(run_dir, other_process):
    lock = HostLock(run_dir, wait_s=0)
    with pytest.raises(NotReadyError, match="another program"), lock.held("d"):
        pass


def test_who_hangs_at_one_drive_holds_up_nobody_at_another(run_dir, other_process):
    with HostLock(run_dir, wait_s=0).held("another"):
        pass


def test_who_needs_all_drives_waits_for_each_and_keeps_all_out(run_dir, other_process):
    lock = HostLock(run_dir, wait_s=0)
    with pytest.raises(NotReadyError), lock.all_held():
        pass
    other_process.communicate()
    with lock.all_held(), pytest.raises(NotReadyError), lock.held("d"):
        pass
    with lock.held("d"), lock.held("e"):
        pass


def test_it_ends_with_the_process_that_held_it(run_dir, other_process):
    other_process.kill()
    other_process.wait()
    with HostLock(run_dir, wait_s=0).held("d"):
        pass


def test_who_waits_gets_it_when_the_other_lets_go(run_dir, other_process):
    waits = threading.Event()
    got = threading.Event()

    def wait():
        lock = HostLock(run_dir, sleep=lambda _: (waits.set(), got.wait(0.01)))
        with lock.held("d"):
            got.set()

    waiter = threading.Thread(target=wait)
    waiter.start()
    assert waits.wait(30)
    assert not got.is_set()
    other_process.communicate()
    waiter.join(30)
    assert got.is_set()


def test_a_lock_on_a_file_that_was_removed_keeps_nobody_out_and_is_taken_anew(run_dir):
    def somebody_cleans_up(_):
        os.unlink(os.path.join(run_dir, "locks", "d"))
        holding.__exit__(None, None, None)

    holding = HostLock(run_dir).held("d")
    holding.__enter__()
    with HostLock(run_dir, sleep=somebody_cleans_up).held("d"), pytest.raises(NotReadyError):
        HostLock(run_dir, wait_s=0).held("d").__enter__()


class Overtaken(HostLock):
    """Between its opening of the file and its lock, somebody else puts another file there."""

    def __init__(self, run_dir, *names):
        super().__init__(run_dir, wait_s=0)
        self.held_by = HostLock(run_dir, wait_s=0).held("d")
        self.names = list(names)

    def _open(self, path):
        fd = HostLock._open(path)
        name = os.path.basename(path)
        if name in self.names:
            self.names.remove(name)
            os.unlink(path)
            self.held_by.__enter__()
        return fd


def test_a_lock_on_a_file_that_was_replaced_is_none(run_dir):
    """Its name leads to the new file, and that is locked by another program."""
    overtaken = Overtaken(run_dir, "d")
    with pytest.raises(NotReadyError, match="another program"), overtaken.held("d"):
        pass
    overtaken.held_by.__exit__(None, None, None)
    with overtaken.held("d"):
        pass


def test_a_run_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="locks"), HostLock(f"{tmp_path}/file").held("d"):
        pass


# ---- the lease's program, its end, a rollback and an `appear` of udev, on one drive


class World:
    """A drive that saves nothing, a rule that keeps it off, and whoever switches it."""

    def __init__(self, fake_host, tmp_path, run_dir, *, locked):
        (tmp_path / "rules.d").mkdir()
        self.run_dir = run_dir
        self.lock = HostLock(run_dir, wait_s=0).held if locked else None
        self.rules = RuleFolder(str(tmp_path / "rules.d"), run_dir, COMMAND)
        (tmp_path / "rules.d" / FILE_NAME).write_text(boot_rule((WWID,)))
        self.drive = ModelScsi()
        self.host = host_with(fake_host, self.drive, self.rules)
        self.journal = MemoryJournal()
        self.switcher(self.journal).run(
            self.domain_id(), toggle.apply(
                self.host.look(), action_id="a", expected=BACK, mode=THROUGH, now_s=0.0,
                throwaway=False, consent_turn_on=False, persist=True,
            )
        )
        assert self.mode() is THROUGH

    def switcher(self, journal, after_step=nothing):
        more = {"lock": self.lock} if self.lock else {}
        return Switcher(self.host, journal, after_step, **more)

    def domain_id(self):
        return self.host.look()[0].domain_id

    def mode(self):
        (drive,) = self.host.look()
        return drive.mode

    def appear(self, after_step=nothing, leases=None):
        program = appear(
            self.host, self.rules, leases or LeaseMarker(self.run_dir),
            dev_name="sda", wwid=WWID, mode=THROUGH,
        )
        return self.switcher(NoJournal(), after_step).run(self.domain_id(), program)

    def roll_back(self, after_step=nothing):
        switcher = self.switcher(self.journal, after_step)
        switcher.restore(switcher.entry(EntryKind.ACTION, "a"))


def powered_on(world):
    world.drive.current = world.drive.page(True)


def in_the_midst_of_an_appear(world, do):
    """Do it after the first step of an `appear` of a drive that came back on."""
    refused = []

    def once(number, _step):
        if number == 1:
            try:
                do()
            except NotReadyError as error:
                refused.append(error)

    powered_on(world)
    world.appear(once)
    return bool(refused)


def test_without_the_lock_an_appear_that_had_read_the_rule_undoes_a_rollback(
    fake_host, tmp_path, run_dir
):
    world = World(fake_host, tmp_path, run_dir, locked=False)
    assert not in_the_midst_of_an_appear(world, world.roll_back)
    assert (world.mode(), world.rules.mode(WWID)) == (THROUGH, None)


def test_a_rollback_waits_for_an_appear_and_has_the_last_word(fake_host, tmp_path, run_dir):
    world = World(fake_host, tmp_path, run_dir, locked=True)
    assert in_the_midst_of_an_appear(world, world.roll_back)
    world.roll_back()
    assert (world.mode(), world.rules.mode(WWID)) == (BACK, None)


@pytest.mark.parametrize("step", range(1, 6))
def test_an_appear_waits_for_a_rollback_and_then_finds_no_rule(
    fake_host, tmp_path, run_dir, step
):
    world = World(fake_host, tmp_path, run_dir, locked=True)
    kept_out = []

    def at_step(number, _step):
        if number == step:
            with pytest.raises(NotReadyError):
                world.appear()
            kept_out.append(number)

    world.roll_back(at_step)
    assert kept_out == [step]
    assert not world.appear().changed
    assert world.mode() is BACK


def test_an_appear_yields_to_a_lease_on_its_own_drive_and_to_no_other(
    fake_host, tmp_path, run_dir
):
    world = World(fake_host, tmp_path, run_dir, locked=True)
    (drive,) = world.host.look()
    journal = StateFolder(str(tmp_path / "state"), run_dir).journal
    journal.write(f"lease/{drive.domain_id}", "{}")
    powered_on(world)
    assert not world.appear().changed
    assert world.mode() is BACK
    journal.remove(f"lease/{drive.domain_id}")
    journal.write("lease/naa.5000c5000000ffff", "{}")
    assert world.appear().changed
    assert world.mode() is THROUGH


def test_a_folder_of_leases_without_a_lease_keeps_no_rule_from_its_drive(
    fake_host, tmp_path, run_dir
):
    """The service manager makes the run folder at each start of the probe."""
    world = World(fake_host, tmp_path, run_dir, locked=True)
    StateFolder(str(tmp_path / "state"), run_dir).journal.sync_marks()
    powered_on(world)
    assert world.appear().changed
    assert world.mode() is THROUGH


def test_marks_that_cannot_be_read_may_mean_any_drive(run_dir):
    os.mkdir(run_dir)
    marker = LeaseMarker(run_dir)
    assert not marker.covers("naa.5000c50000000001")
    with open(os.path.join(run_dir, "leases"), "w"):
        pass
    assert marker.covers("naa.5000c50000000001")
