"""A place ends with whoever opened it, however that was, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable, ContextManager

import pytest
from ceph_ci.place import Place
from harness import Cluster, loops

pytestmark = pytest.mark.ceph_ci
RELEASE = 20
OPENS = f"""
from ceph_ci.place import Place
from ceph_ci.source import source_of

with Place({RELEASE}, source_of({RELEASE})) as place:
    place.check(["sh", "-c", "sleep 1000 >/dev/null 2>&1 &"])
    print(place.folder, place.attach_drive(2**20), flush=True)
    input()
"""
WAIT_S = 30.0
# Clients' ports, of which all but a few are those that vstart.sh picks a mon's from.
CLIENTS = """
import socket

with open("/proc/sys/net/ipv4/ip_local_port_range", "w") as ports:
    ports.write("40000 42015")
daemon = socket.create_server(("127.0.0.1", 6800))
for _ in range(8):
    client = socket.create_connection(("127.0.0.1", 6800))
    server, (_, port) = daemon.accept()
    client.close()
    server.close()
    print(port)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_place_ends_with_whoever_opened_it(
    open_place: Callable[[int], ContextManager[Place]], number: int
) -> None:
    with open_place(RELEASE):
        pass  # or it is skipped
    folders = ("qa", "vstart-tests", "mgr_module", "osd_probe")
    path = ":".join(str(Cluster.project / each) for each in folders)
    opener = subprocess.Popen(
        [sys.executable, "-c", OPENS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert opener.stdout is not None
    folder, device = map(Path, opener.stdout.readline().split())
    assert folder.is_dir()
    assert loops.attached_under(folder) == [str(device)]
    loops.set_queue(str(device), "write_cache", "write through")
    opener.send_signal(number)
    opener.communicate(timeout=WAIT_S)
    end_s = time.monotonic() + WAIT_S
    while folder.exists():
        assert time.monotonic() < end_s, list(folder.iterdir())
        time.sleep(0.1)
    assert loops.attached_under(folder) == []
    queue = Path("/sys/block") / device.name / "queue/write_cache"
    assert queue.read_text() == "write back\n"


def test_no_client_has_a_port_that_vstart_picks_for_a_mon(
    open_place: Callable[[int], ContextManager[Place]]
) -> None:
    with open_place(RELEASE) as place:
        ports = place.check(["python3", "-c", CLIENTS]).split()
    assert len(ports) == 8
    assert min(map(int, ports)) >= 42000
