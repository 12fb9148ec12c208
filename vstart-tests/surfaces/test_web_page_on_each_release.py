"""The web page under a real mgr of each release."""

from __future__ import annotations

import http.client
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Iterator, List, Tuple

import pytest
from probes import Wcache

pytestmark = pytest.mark.cluster

ATTACKS = Path(__file__).parents[1] / "worlds" / "attacks.py"
SILENT_CLIENTS = 200


@pytest.fixture
def port(wcache: Wcache) -> Iterator[int]:
    """A port of the page, which is switched on during the test."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number = int(probe.getsockname()[1])
    wcache.option("web_port", number)
    wcache.option("web", "loopback")
    wcache.wait("the page", lambda: "wcache" in services(wcache), 30)
    yield number
    wcache.option("web", "off")
    wcache.wait("the page to be gone", lambda: "wcache" not in services(wcache), 30)


def services(wcache: Wcache) -> Any:
    return wcache.cluster.command("mgr services")


def asked(port: int, token: str) -> Tuple[int, str]:
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    client.request("GET", "/", headers={"Authorization": f"Bearer {token}"})
    answer = client.getresponse()
    text = answer.read().decode()
    client.close()
    return answer.status, text


def answers(port: int, token: str) -> bool:
    """Whether the page is read."""
    try:
        return asked(port, token)[0] == 200
    except (OSError, http.client.HTTPException):
        return False


def test_the_page_is_served_where_cheroot_and_jinja2_are_there(wcache, port):
    assert services(wcache)["wcache"] == f"http://127.0.0.1:{port}/"
    code, text = asked(port, wcache("web token")["token"])
    assert code == 200
    assert wcache("status")["summary"]["text"] in text.replace("&#39;", "'")
    assert asked(port, "none")[0] == 401
    assert [
        item for item in wcache("status")["findings"] if item["code"] == "WCACHE_WEB_PAGE"
    ] == []


def test_beside_200_silent_clients_commands_are_answered_as_before(wcache, port):
    token = wcache("web token")["token"]
    held = []
    try:
        for _ in range(SILENT_CLIENTS):
            held.append(socket.socket())
            held[-1].setblocking(False)
            held[-1].connect_ex(("127.0.0.1", port))
        commands_s = commands_take_s(wcache)
    finally:
        for one in held:
            one.close()
    print(f"status {1000 * max(commands_s):.0f} ms at most")
    assert max(commands_s) < 2.0
    wcache.wait("the page to be back", lambda: answers(port, token), 60)


@pytest.mark.one_release
@pytest.mark.parametrize(
    "attack", ["silent", "slow", "huge", "chunked", "logins", "unknown", "pages"]
)
def test_whoever_attacks_the_page_keeps_no_command_waiting(wcache, port, attack):
    token = wcache("web token")["token"]
    attacker = subprocess.Popen(
        [sys.executable, str(ATTACKS), attack, str(port), token], stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, text=True,
    )
    try:
        time.sleep(1.0)
        commands_s = commands_take_s(wcache)
        assert attacker.poll() is None
    finally:
        attacker.terminate()
        said, _ = attacker.communicate(timeout=20)
    print(f"{attack}: {said.strip()}; status {1000 * max(commands_s):.0f} ms at most")
    assert max(commands_s) < 2.0
    wcache.wait("the page to be back", lambda: answers(port, token), 60)


def commands_take_s(wcache: Wcache) -> List[float]:
    """How long `status` takes, some times over two seconds."""
    found = []
    for _ in range(8):
        began_s = time.monotonic()
        assert wcache("status")["format_version"]
        found.append(time.monotonic() - began_s)
        time.sleep(0.25)
    return found
