"""The web page under a real mgr of each release: served, or a finding says what is missing."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from typing import Any, Iterator

import pytest
from probes import Wcache

pytestmark = pytest.mark.cluster


@pytest.fixture
def port(wcache: Wcache) -> Iterator[int]:
    """A port of the page, which is switched on during the test."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number = int(probe.getsockname()[1])
    wcache.option("web_port", number)
    wcache.option("web", "loopback")
    yield number
    wcache.option("web", "off")
    wcache.wait("the page to be gone", lambda: "wcache" not in services(wcache), 30)


def services(wcache: Wcache) -> Any:
    return wcache.cluster.command("mgr services")


def findings(wcache: Wcache) -> Any:
    return [
        item["detail"] for item in wcache("status")["findings"]
        if item["code"] == "WCACHE_WEB_PAGE"
    ]


def asked(port: int, token: str) -> Any:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/", headers={"Authorization": f"Bearer {token}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""


def test_the_page_is_served_or_it_is_said_what_is_missing(wcache, port):
    """The packages of these clusters have cheroot only where something else wants it."""
    there = wcache.cluster.run_inside(
        [wcache.cluster.python_inside, "-c", "import cheroot, jinja2"], check=False
    ).rc == 0
    if not there:
        said = wcache.wait("the finding", lambda: findings(wcache), 30)
        assert "install python3-cheroot and python3-jinja2" in said[0]
        return
    wcache.wait("the page", lambda: "wcache" in services(wcache), 30)
    assert services(wcache)["wcache"] == f"http://127.0.0.1:{port}/"
    token = wcache("web token")["token"]
    code, text = asked(port, token)
    assert code == 200
    assert wcache("status")["summary"]["text"] in text.replace("&#39;", "'")
    assert asked(port, "none")[0] == 401
    assert findings(wcache) == []
