"""Our page beside the real dashboard of 20 and the prometheus module, with a standby mgr."""

from __future__ import annotations

import http.client
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Tuple

import pytest
from dashboard import Site, asked, wait_for_pages
from harness.processes import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.one_release]

ATTACKS = Path(__file__).parents[1] / "worlds" / "attacks.py"


def findings(site: Site) -> Any:
    return [
        item["detail"] for item in site.wcache("status")["findings"]
        if item["code"] == "WCACHE_WEB_PAGE"
    ]


def test_the_dashboards_login_opens_our_page_and_nothing_else_does(site):
    status, text = site.read(site.login("ann"))
    assert status == 200
    assert "Read by ann" in " ".join(text.split())
    status, text = site.read(site.login("bob"))
    assert status == 403
    assert "bob may not read OSDs" in text
    status, text = site.read("eyJhbGciOiJIUzI1NiJ9.e30.AAAA")
    assert status == 401
    assert "does not know this login" in text
    assert asked(site.services()["wcache"])[0] == 401


def test_a_login_that_has_expired_or_ended_is_good_no_more(site):
    ceph = site.cluster.ceph
    before = ceph("dashboard", "get-jwt-token-ttl").stdout.strip()
    ceph("dashboard", "set-jwt-token-ttl", "1")
    expired = site.login("ann")
    ceph("dashboard", "set-jwt-token-ttl", before)
    time.sleep(2.0)
    status, text = site.read(expired)
    assert status == 401
    assert "has expired: log in to the dashboard again" in text
    ended = site.login("ann")
    dashboard = site.services()["dashboard"]
    assert asked(f"{dashboard}api/auth/logout", {"Authorization": f"Bearer {ended}"}, {})[0] == 200
    assert site.read(ended)[0] == 401


@pytest.mark.long
@pytest.mark.parametrize("attack", ["silent", "unknown"])
def test_a_flood_of_the_page_leaves_the_dashboard_and_commands_to_their_users(site, attack):
    token = site.login("ann")
    assert site.read(token)[0] == 200
    uri = site.services()["wcache"]
    attacker = subprocess.Popen(
        [sys.executable, str(ATTACKS), attack, str(uri.rsplit(":", 1)[1].strip("/")), "-"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
    )
    try:
        took_s = []
        end_s = time.monotonic() + 25  # longer than an answer of the dashboard is kept
        while time.monotonic() < end_s:
            began = time.monotonic()
            assert asked(f"{site.services()['dashboard']}")[0] == 200
            assert site.wcache("status")["format_version"]
            took_s.append(time.monotonic() - began)
            time.sleep(0.2)
    finally:
        attacker.terminate()
        said, _ = attacker.communicate(timeout=20)
    print(f"{said.strip()}; dashboard and status {1000 * max(took_s):.0f} ms at most")
    assert max(took_s) < 5.0

    def read_again() -> bool:
        try:
            return bool(site.read(token)[0] == 200)
        except (OSError, http.client.HTTPException):
            return False

    assert wait_until(read_again, 60)


@pytest.mark.long
def test_the_three_web_servers_stand_beside_each_other(site):
    services = site.services()
    assert asked(f"{services['prometheus']}metrics")[0] == 200
    site.wcache.option("web", "off")
    assert wait_until(lambda: not site.serves("wcache"), 20)
    assert asked(services["dashboard"])[0] == asked(f"{services['prometheus']}metrics")[0] == 200
    site.wcache.option("web", "loopback")
    assert wait_until(lambda: site.serves("wcache"), 20)
    for name in ("dashboard", "prometheus"):
        site.cluster.ceph("mgr", "module", "disable", name)
    try:
        assert wait_until(lambda: site.serves("wcache") and not site.serves("dashboard"), 60)
        assert asked(site.services()["wcache"])[0] == 401
        # without the dashboard its logins are good for nothing
        assert "the dashboard is off" in site.read("eyJ.e30.AA")[1]
    finally:
        for name in ("dashboard", "prometheus"):
            site.cluster.ceph("mgr", "module", "enable", name)
        wait_for_pages(site)


@pytest.mark.long
def test_a_port_that_is_taken_is_a_health_check_until_it_is_free(site):
    mgr = site.cluster.active_mgr()
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        site.wcache.option(f"{mgr}/web_port", port)
        site.wcache.wait("the finding", lambda: findings(site), 30)
        assert f"cannot listen on 127.0.0.1 port {port}" in findings(site)[0]
        assert "`ceph config set mgr mgr/wcache/web_port`" in findings(site)[0]
        assert wait_until(lambda: "WCACHE_WEB_PAGE" in site.cluster.health_checks(), 30)
        assert wait_until(lambda: not site.serves("wcache"), 20)
        assert site.wcache("drive ls")["drives"] == []  # the rest goes on
    try:
        assert wait_until(lambda: site.serves("wcache"), 40)
        assert wait_until(lambda: "WCACHE_WEB_PAGE" not in site.cluster.health_checks(), 30)
    finally:
        site.wcache.option(f"{mgr}/web_port", site.ports["wcache", mgr])
        assert wait_until(lambda: str(site.ports["wcache", mgr]) in str(site.services()), 30)


@pytest.mark.long
def test_over_tls_a_key_is_read_or_named_and_a_standby_leads_to_the_active(site):
    crt, key, half = (site.cluster.folder / name for name in ("crt", "key", "half"))
    half.write_text("-----BEGIN PRIVATE KEY-----\n")
    subprocess.run(
        ["openssl", "req", "-new", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt",
         "ec_paramgen_curve:prime256v1", "-days", "2", "-subj", "/CN=wcache.invalid", "-keyout",
         key, "-out", crt], check=True, capture_output=True,
    )
    ceph = site.cluster.ceph
    ceph("config", "set", "mgr", "mgr/wcache/web_addr", "127.0.0.1")
    ceph("config-key", "set", "mgr/wcache/web/crt", "-i", str(crt))
    ceph("config-key", "set", "mgr/wcache/web/key", "-i", str(half))
    site.wcache.option("web", "tls")
    try:
        site.wcache.wait("the finding", lambda: findings(site), 30)
        assert "mgr/wcache/web/crt and .../key cannot be used" in findings(site)[0]
        assert "`ceph config-key set mgr/wcache/web/crt -i CERT.pem`" in findings(site)[0]
        ceph("config-key", "set", "mgr/wcache/web/key", "-i", str(key))
        assert wait_until(
            lambda: str(site.services().get("wcache", "")).startswith("https://"), 40
        )
        active = site.services()["wcache"]
        own = site.wcache("web token")["token"]
        port = int(active.rsplit(":", 1)[1].strip("/"))
        assert secretly(port, "/", own)[0] == 200
        (standby,) = {"x", "y"} - {site.cluster.active_mgr()}
        led = (0, "")
        end_s = time.monotonic() + 40  # a standby looks at the options by itself
        while led[0] != 307 and time.monotonic() < end_s:
            try:
                led = secretly(site.ports["wcache", standby], "/drives", own)
            except OSError:
                time.sleep(0.5)
        assert led == (307, f"{active}drives")
        # whoever takes over shows the page, and knows the token
        site.cluster.fail_mgr()
        assert wait_until(
            lambda: str(site.ports["wcache", standby]) in str(
                site.serves("wcache") and site.services()["wcache"]), 60
        )
        assert secretly(site.ports["wcache", standby], "/", own)[0] == 200
    finally:
        site.wcache.option("web", "loopback")
        for name in ("crt", "key"):
            ceph("config-key", "rm", f"mgr/wcache/web/{name}")
        wait_for_pages(site)


def secretly(port: int, path: str, token: str) -> Tuple[int, str]:
    """Status and where it leads, over TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    client = http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=context)
    client.request("GET", path, headers={"Authorization": f"Bearer {token}"})
    answer = client.getresponse()
    answer.read()
    client.close()
    return answer.status, answer.getheader("Location") or ""


@pytest.mark.long
@pytest.mark.parametrize("those", ["*", ""])
def test_in_interpreters_of_their_own_and_in_one_all_three_are_served(site, those):
    ceph = site.cluster.ceph
    ceph("config", "set", "mgr", "mgr_subinterpreter_modules", those)
    try:
        site.cluster.restart_mgr()
        wait_for_pages(site)
        assert site.read(site.login("ann"))[0] == 200
        assert findings(site) == []
    finally:
        ceph("config", "rm", "mgr", "mgr_subinterpreter_modules")
