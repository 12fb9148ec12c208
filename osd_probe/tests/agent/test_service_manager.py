"""What systemd hears: a word while the loop goes on, none when it hangs."""

import socket
import threading

import pytest
from wcache_probe.stop_signal import Heartbeat


@pytest.fixture
def manager(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as door:
        door.bind(str(tmp_path / "notify"))
        door.setblocking(False)
        yield door


def heard(manager):
    words = []
    while True:
        try:
            words.append(manager.recv(100))
        except BlockingIOError:
            return words


def test_the_loop_is_told_of_well_within_the_interval_and_not_at_every_turn(manager, tmp_path):
    now = [100.0]
    beats = Heartbeat(
        {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "180000000"},
        clock=lambda: now[0],
    )
    assert beats.every_s == 45.0
    for _ in range(100):
        beats.beat()
        now[0] += 1.0
    assert 2 <= len(heard(manager)) <= 6
    now[0] += 90.0
    other = threading.Thread(target=beats.beat)
    other.start()
    other.join()
    assert heard(manager) == [], "another thread goes on, which says nothing of the loop"
    beats.beat()
    assert heard(manager) == [b"WATCHDOG=1"]


@pytest.mark.parametrize(
    "more", [{}, {"WATCHDOG_USEC": "x"}, {"WATCHDOG_USEC": "5", "WATCHDOG_PID": "1"}]
)
def test_without_a_service_manager_that_asks_nothing_is_said(manager, tmp_path, more):
    Heartbeat({"NOTIFY_SOCKET": str(tmp_path / "notify"), **more}).beat()
    Heartbeat({}).beat()
    assert heard(manager) == []
