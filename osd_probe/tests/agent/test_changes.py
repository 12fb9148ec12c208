"""What changes on a host is told to the mgr at once; a storm of events makes no storm of calls."""

import errno
import os
import signal
import socket
import threading
import time

import pytest
from sim_drives import Probe, StopNever
from wcache.core.errors import NotReadyError
from wcache.core.protocol import ReportRequest
from wcache_probe.changes import GLANCE_EVERY_S, PAUSE_MAX_S, PAUSE_S, SETTLE_S, HostWatch
from wcache_probe.commands.restore import SIGNAL, wake
from wcache_probe.linux.glance import Uevents, glance, is_of_drives
from wcache_probe.stop_signal import StopSignal

BLOCK = b"change@/devices/x/block/sda\0ACTION=change\0SUBSYSTEM=block\0DEVNAME=sda\0"
USB = b"add@/devices/usb1\0ACTION=add\0SUBSYSTEM=usb\0"


class Clock:
    def __init__(self):
        self.now_s = 1000.0

    def __call__(self):
        return self.now_s


class Door:
    """Events that a test puts in: one end of a pair of sockets."""

    def __init__(self):
        self.inside, self._outside = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.inside.setblocking(False)
        self.events = Uevents(self.inside)

    def send(self, *events):
        for event in events:
            self._outside.send(event)


def changes_of(door, clock, seen=None):
    glance = (lambda: seen[0]) if seen else (lambda: 0)
    found = HostWatch(door.events.fd, door.events.drain, glance, clock)
    found.reporting()
    clock.now_s += 100.0
    return found


def test_an_event_about_a_drive_is_told_as_soon_as_udev_has_had_its_turn():
    door, clock = Door(), Clock()
    changes = changes_of(door, clock)
    door.send(USB)
    changes.drain()
    assert (changes.due, changes.wake_in_s()) == (False, None)
    door.send(USB, BLOCK)
    changes.drain()
    assert changes.wake_in_s() == pytest.approx(SETTLE_S)
    clock.now_s += SETTLE_S
    assert changes.due
    changes.told()
    # it stays so until there is a report, and ends no other wait
    assert (changes.due, changes.wake_in_s()) == (True, None)
    changes.reporting()
    assert not changes.due


def test_a_storm_of_events_makes_a_report_now_and_then_and_ever_more_seldom():
    door, clock = Door(), Clock()
    changes = changes_of(door, clock)
    reports = []
    for _ in range(6000):
        door.send(BLOCK)
        changes.drain()
        if changes.due:
            changes.told()
            changes.reporting()
            reports.append(clock.now_s)
        clock.now_s += 0.1
    gaps = [after - before for before, after in zip(reports, reports[1:])]
    assert min(gaps) >= PAUSE_S
    assert gaps == sorted(gaps)
    assert max(gaps) == pytest.approx(PAUSE_MAX_S, abs=0.2)
    # after a while of quiet the next change is told at once
    clock.now_s += 3 * PAUSE_MAX_S
    door.send(BLOCK)
    changes.drain()
    clock.now_s += SETTLE_S
    assert changes.due


def test_more_events_than_there_is_room_for_are_a_change():
    class Full:
        def recvfrom(self, size):
            raise OSError(errno.ENOBUFS, "no buffer space")

        def fileno(self):
            return 7

    assert Uevents(Full()).drain() is True


@pytest.mark.parametrize(("event", "told"), [
    (BLOCK, True), (USB, False), (b"", False), (b"\0" * 100, False),
    (b"SUBSYSTEM=block", False),  # that is its name, and no field of it
    (b"add@/x\0SUBSYSTEM=scsi_disk\0", True), (b"change@/x\0SUBSYSTEM=nvme\0", True),
])
def test_which_events_are_about_drives(event, told):
    assert is_of_drives(event) is told


def test_without_a_socket_nothing_is_heard():
    class NoSocket(Uevents):
        def __init__(self):
            self._socket, self.fd = None, -1

    assert NoSocket().drain() is False


def test_the_kernel_gives_a_socket_here():
    assert Uevents().fd >= 0


# ---- glances


def tree(folder):
    disk = folder / "sys/block/sda"
    (disk / "queue").mkdir(parents=True)
    (disk / "queue/write_cache").write_text("write back\n")
    scsi = disk / "device/scsi_disk/0:0:0:0"
    scsi.mkdir(parents=True)
    (scsi / "cache_type").write_text("write back\n")
    for name in ("boot", "etc/udev/rules.d", "state/journal"):
        (folder / name).mkdir(parents=True)
    return folder


@pytest.mark.parametrize("what", [
    "sys/block/sda/queue/write_cache", "sys/block/sda/device/scsi_disk/0:0:0:0/cache_type",
    "sys/block/sdb", "boot/initrd.img-6.1", "etc/udev/rules.d/59-x.rules", "state/journal/a.json",
    "state/prepared.json",
])
def test_a_glance_sees_a_view_a_rule_an_image_and_an_entry(tmp_path, what):
    root = tree(tmp_path)
    paths = [str(root / name) for name in (
        "etc/udev/rules.d", "state/journal", "state/prepared.json")]
    before = glance(str(root / "sys"), str(root), paths)
    assert glance(str(root / "sys"), str(root), paths) == before
    target = root / what
    if what.endswith("sdb"):
        target.mkdir()
    else:
        target.write_text("write through\n")
    assert glance(str(root / "sys"), str(root), paths) != before


def test_a_glance_is_taken_now_and_then_and_at_once_when_a_command_asks():
    door, clock, seen = Door(), Clock(), [0]
    changes = changes_of(door, clock, seen)
    changes.look()
    seen[0] = 1
    changes.look()
    clock.now_s += 2 * SETTLE_S
    assert not changes.due
    changes.hurry()
    changes.look()
    clock.now_s += SETTLE_S
    assert changes.due
    changes.reporting()
    seen[0] = 2
    clock.now_s += GLANCE_EVERY_S
    changes.look()
    assert changes.wake_in_s() is not None


# ---- the loop


def test_the_mgr_hears_that_the_host_has_changed_until_it_has_a_report():
    probe, door = Probe(), Door()
    agent = probe.agent(StopNever(probe))
    agent.changes = changes_of(door, probe.clock)
    agent.run_turn()
    assert probe.mgr.hellos[-1].changed is False
    door.send(BLOCK)
    agent.changes.drain()
    probe.clock.now_s += SETTLE_S
    agent.run_turn()
    agent.run_turn()
    assert [hello.changed for hello in probe.mgr.hellos[-2:]] == [True, True]
    probe.mgr.ask("look", ReportRequest())
    agent.run_turn()
    assert probe.mgr.posts[-1].changed is False
    agent.run_turn()
    assert probe.mgr.hellos[-1].changed is False


def test_a_mgr_that_does_not_answer_is_not_called_in_a_hurry_for_a_change():
    probe, door = Probe(), Door()
    agent = probe.agent(StopNever(probe))
    agent.changes = changes_of(door, probe.clock)
    door.send(BLOCK)
    agent.changes.drain()
    probe.clock.now_s += SETTLE_S
    probe.mgr.error = NotReadyError("gone")
    agent.run_turn()
    assert agent.changes.wake_in_s() is None
    assert agent.changes.due


@pytest.mark.slow
def test_a_wait_ends_early_for_a_change_and_for_nothing_else():
    door, stop = Door(), StopSignal()
    changes = HostWatch(door.events.fd, door.events.drain)
    changes.reporting()
    stop.watch = changes
    threading.Timer(0.2, door.send, [USB]).start()
    began_s = time.monotonic()
    stop.wait(0.6)
    assert time.monotonic() - began_s > 0.5  # not at the 0.2 s of what is none
    changes._reported_at_s -= 60.0
    threading.Timer(0.1, door.send, [BLOCK]).start()
    began_s = time.monotonic()
    stop.wait(30.0)
    assert time.monotonic() - began_s < 25.0
    assert changes.due


@pytest.mark.slow
def test_a_wait_ends_early_for_what_a_glance_sees():
    stop, seen = StopSignal(), [0]
    stop.watch = changes = HostWatch(glance=lambda: seen[0])
    changes.reporting()
    changes.glance_every_s = 0.1
    changes._reported_at_s -= 60.0
    threading.Timer(0.3, seen.__setitem__, [0, 1]).start()

    def another_thread_looks():
        while not changes.due:
            changes.hurry()
            changes.look()
            time.sleep(0.1)
        stop.wake(end=False)

    threading.Thread(target=another_thread_looks, daemon=True).start()
    began_s = time.monotonic()
    stop.wait(30.0)
    assert time.monotonic() - began_s < 25.0
    assert changes.due


@pytest.mark.slow
def test_a_flood_of_events_does_not_keep_the_processor_busy():
    door, stop = Door(), StopSignal()
    stop.watch = HostWatch(door.events.fd, door.events.drain)
    flooding = True

    def flood():
        while flooding:
            door.send(USB)

    thread = threading.Thread(target=flood, daemon=True)
    thread.start()
    began_s, drained = time.monotonic(), []
    drain = stop.watch.drain
    stop.watch.drain = lambda: (drained.append(1), drain())
    stop.wait(1.0)
    flooding = False
    assert time.monotonic() - began_s < 20.0
    assert len(drained) <= 6


def test_another_command_wakes_the_running_probe_which_glances_at_once():
    stop, looks = StopSignal(), []
    before = signal.getsignal(SIGNAL)
    try:
        stop.wake_on(SIGNAL)
        stop.watch = HostWatch(glance=lambda: looks.append(1))
        stop.watch.look()
        stop.tend = stop.watch.look
        wake(os.getpid())
        began_s = time.monotonic()
        stop.wait(30.0)
        assert time.monotonic() - began_s < 25.0
        assert len(looks) == 1
        stop.watch.look()
        assert len(looks) == 2  # the next one would not be due yet
    finally:
        signal.signal(SIGNAL, before)
