"""A cluster with three web servers (dashboard, prometheus, our page) on each of two mgrs.

Two mgrs of one machine need ports of their own for each of them.
"""

from __future__ import annotations

import http.client
import json
import socket
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, Mapping, Tuple
from urllib.parse import urlsplit

from harness import ClusterAccess, ClusterPlan, HarnessError, start_cluster
from harness.processes import wait_until
from probes import Wcache

MODULES = ("dashboard", "prometheus", "wcache")
PASSWORD = "Look-2-drives!"
# ann may do all, bob may see pools and nothing else
USERS = {"ann": "administrator", "bob": "pools"}
API = "application/vnd.ceph.api.v1.0+json"
FRIEND = "127.0.0.3"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Site:
    """The cluster, and where its pages are."""

    cluster: ClusterAccess
    wcache: Wcache
    ports: Dict[Tuple[str, str], int] = field(default_factory=dict)  # by module and mgr

    def services(self) -> Dict[str, str]:
        """`ceph mgr services`."""
        found: Dict[str, str] = self.cluster.command("mgr services")
        return found

    def serves(self, name: str) -> bool:
        """Whether a module's page is there."""
        try:
            return name in self.services()
        except HarnessError:  # a mgr that restarts
            return False

    def login(self, user: str) -> str:
        """The dashboard's token of a user, as its cookie has it."""
        status, body = asked(self.services()["dashboard"] + "api/auth", body={
            "username": user, "password": PASSWORD,
        })
        assert status == 201, body
        return str(json.loads(body)["token"])

    def read(self, token: str, path: str = "") -> Tuple[int, str]:
        """Our page for somebody with the dashboard's cookie."""
        return asked(self.services()["wcache"] + path, {"Cookie": f"token={token}"})


def asked(
    url: str, headers: Mapping[str, str] = {}, body: Any = None
) -> Tuple[int, str]:
    """A request from an address of its own."""
    parts = urlsplit(url)
    client = http.client.HTTPConnection(
        str(parts.hostname), parts.port, timeout=20, source_address=(FRIEND, 0)
    )
    client.request(
        "POST" if body is not None else "GET", parts.path or "/",
        json.dumps(body) if body is not None else None,
        {"Accept": API, "Content-Type": "application/json", **headers},
    )
    answer = client.getresponse()
    text = answer.read().decode()
    client.close()
    return answer.status, text


@contextmanager
def a_site() -> Iterator[Site]:
    """A cluster of 20 with all three modules on two mgrs, until the block ends."""
    cluster = start_cluster(ClusterPlan(
        release=20, standby_mgrs=1,
        packaged_modules=("dashboard", "prometheus", "smb"),  # the first imports the last
    ))
    try:
        site = Site(cluster, Wcache(cluster))
        options = {
            "dashboard/ssl": "false", "dashboard/server_addr": "127.0.0.1",
            "prometheus/server_addr": "127.0.0.1", "wcache/web": "loopback",
            "wcache/log_to_cluster": "true", "wcache/throwaway_cluster": "true",
        }
        for module, name in zip(MODULES, ("server_port", "server_port", "web_port")):
            for mgr in ("x", "y"):
                port = site.ports[module, mgr] = free_port()
                options[f"{module}/{mgr}/{name}"] = str(port)
        for name, value in options.items():
            cluster.ceph("config", "set", "mgr", f"mgr/{name}", value)
        for module in MODULES:
            cluster.ceph("mgr", "module", "enable", module)
        wait_for_pages(site)
        _users(cluster)
        yield site
    finally:
        cluster.stop()


def wait_for_pages(site: Site) -> None:
    """Wait until each of the three is served, and answers, by the active mgr."""

    def there() -> bool:
        try:
            return all(asked(site.services()[name])[0] < 500 for name in MODULES)
        except (HarnessError, KeyError, OSError):
            return False

    assert wait_until(there, 90), f"the pages are not all there: {site.services()}"


def _users(cluster: ClusterAccess) -> None:
    secret = cluster.folder / "password"
    secret.write_text(PASSWORD, encoding="ascii")
    cluster.ceph("dashboard", "ac-role-create", "pools")
    cluster.ceph("dashboard", "ac-role-add-scope-perms", "pools", "pool", "read")
    for user, role in USERS.items():
        for _ in range(20):  # the mgr may still be loading the module's commands
            done = cluster.ceph(
                "dashboard", "ac-user-create", user, "-i", str(secret), role, check=False
            )
            if done.rc == 0:
                break
            time.sleep(0.5)
        assert done.rc == 0, done
