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
FRIEND = "127.0.0.3"


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


def asked(port: int, token: str, source: str = FRIEND) -> Tuple[int, str]:
    client = http.client.HTTPConnection(
        "127.0.0.1", port, timeout=20, source_address=(source, 0)
    )
    client.request("GET", "/", headers={"Authorization": f"Bearer {token}"})
    answer = client.getresponse()
    text = answer.read().decode()
    client.close()
    return answer.status, text


def test_the_page_is_served_where_jinja2_is_there(wcache, port):
    assert services(wcache)["wcache"] == f"http://127.0.0.1:{port}/"
    code, text = asked(port, wcache("web token")["token"])
    assert code == 200
    assert wcache("status")["summary"]["text"] in text.replace("&#39;", "'")
    assert asked(port, "none")[0] == 401
    assert [
        item for item in wcache("status")["findings"] if item["code"] == "WCACHE_WEB_PAGE"
    ] == []


@pytest.mark.one_release
@pytest.mark.parametrize(
    "attack", ["silent", "slow", "huge", "chunked", "logins", "unknown", "pages"]
)
def test_whoever_attacks_the_page_keeps_neither_readers_nor_commands_waiting(
    wcache, port, attack
):
    token = wcache("web token")["token"]
    attacker = subprocess.Popen(
        [sys.executable, str(ATTACKS), attack, str(port), token], stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, text=True,
    )
    pages_s: List[float] = []
    commands_s: List[float] = []
    try:
        time.sleep(1.0)
        for _ in range(8):
            began = time.monotonic()
            assert asked(port, token)[0] == 200
            pages_s.append(time.monotonic() - began)
            began = time.monotonic()
            assert wcache("status")["format_version"]
            commands_s.append(time.monotonic() - began)
        # who comes from the attacker's own address has its bounds, and is answered all the same
        if attack != "pages":
            assert asked(port, token, "127.0.0.1")[0] == 200
        assert attacker.poll() is None
    finally:
        attacker.terminate()
        said, _ = attacker.communicate(timeout=20)
    print(f"{attack}: {said.strip()}; page {1000 * max(pages_s):.0f} ms at most, "
          f"status {1000 * max(commands_s):.0f}")
    assert max(pages_s) < 5.0
    assert max(commands_s) < 2.0
