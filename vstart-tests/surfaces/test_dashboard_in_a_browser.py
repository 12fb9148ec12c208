"""What an admin sees of wcache in the real dashboard of 20, in a real browser."""

from __future__ import annotations

import re
import time
from typing import Any, Iterator, List

import pytest
from browser import a_browser, shot
from dashboard import PASSWORD, Site
from harness.processes import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.one_release]

# What the dashboard complains of to its console by itself: there is no Prometheus, no cephadm.
ITS_OWN = ("/api/prometheus/data?", "/api/mgr/module/cephadm")
CODE = "WCACHE_RECOMMENDATION"
CHARS_MAX = 300  # of a health check in the card
# Whether something in the card of the overview with the cluster's health is green.
GREEN = """[
    ...document.querySelector('cds-toggletip').closest('cd-card').querySelectorAll('*')
].some(e => [getComputedStyle(e).color, getComputedStyle(e).fill].includes('rgb(0, 138, 0)'))"""


class Dashboard:
    """The dashboard in a browser, logged in to."""

    def __init__(self, page: Any, site: Site) -> None:
        self.page = page
        self.at = site.services()["dashboard"]
        self.complaints: List[str] = []
        page.on("pageerror", self._raised)
        page.on("response", self._answered)
        page.goto(f"{self.at}#/login")
        page.fill("input[name=username]", "ann")
        page.fill("input[name=password]", PASSWORD)
        page.keyboard.press("Enter")
        assert wait_until(
            lambda: any(cookie["name"] == "token" for cookie in page.context.cookies()), 30
        )

    def _raised(self, error: Any) -> None:
        # answers that it expects to fail are thrown as they are, which is no error of a name
        if error.name:
            self.complaints.append(f"error: {error.name}: {error.message}")

    def _answered(self, answer: Any) -> None:
        if answer.status >= 400 and not any(part in answer.url for part in ITS_OWN):
            self.complaints.append(f"{answer.status}: {answer.url}")

    def shown(self, place: str, selector: str) -> Any:
        """An element of one of its pages."""
        self.page.goto(f"{self.at}#/{place}")
        self.page.reload()
        return self.page.wait_for_selector(selector)

    def checks(self) -> List[str]:
        """The health checks in the card of the overview."""
        button = self.shown("overview", "cds-toggletip a:has-text('Cluster')")
        button.click()
        self.page.wait_for_selector("cd-health-checks")
        return [item.inner_text() for item in self.page.query_selector_all("cd-health-checks li")]

    def check(self) -> str:
        """The one of wcache; '' where there is none."""
        try:
            found = [text for text in self.checks() if "WCACHE_" in text]
        except Exception as error:
            if "Timeout" not in str(error):
                raise
            found = []  # a healthy cluster has no card to open
        return found[0] if found else ""


def healthy(dashboard: Dashboard) -> bool:
    """Whether its overview has a green mark at the cluster, whatever is muted."""
    dashboard.shown("overview", "cds-toggletip a:has-text('Cluster')")
    return bool(dashboard.page.evaluate(GREEN))


@pytest.fixture
def dashboard(site: Site) -> Iterator[Dashboard]:
    with a_browser() as browser:
        context = browser.new_context(viewport={"width": 1400, "height": 1000})
        context.set_default_timeout(10_000)
        yield Dashboard(context.new_page(), site)


@pytest.fixture
def decided(measurable: Site) -> None:
    """A drive was measured, and is better off with its cache off."""
    wcache = measurable.wcache
    nodes = measurable.cluster.command("osd tree")["nodes"]
    (device_class,) = [node["device_class"] for node in nodes if node["id"] == 0]
    wcache.decide(device_class, scope="osd.0", loads="depth1", seed=7)


def test_a_recommendation_that_waits_is_in_the_overview_with_what_it_gains(
    site, decided, dashboard
):
    assert not any("WCACHE_" in check for check in site.cluster.health_checks())
    site.wcache("auto", mode="recommend")
    assert wait_until(lambda: CODE in site.cluster.health_checks(), 30)
    assert wait_until(lambda: dashboard.check().startswith(f"{CODE}: 1 drive model would"), 40)
    told = dashboard.check()
    shot(dashboard.page, "dashboard-recommendation")
    gain = re.search(r"[0-9.]+ to [0-9.]+ times as fast", site.wcache("status")["summary"]["text"])
    assert gain is not None
    assert f"would commit {gain[0]} with the cache off (" in told
    assert len(told) < CHARS_MAX
    assert not healthy(dashboard)
    site.cluster.ceph("health", "mute", CODE)
    assert wait_until(lambda: healthy(dashboard), 40)
    site.wcache("auto", mode="off")
    assert wait_until(lambda: not dashboard.check(), 40)
    assert dashboard.complaints == []


@pytest.mark.long
def test_a_check_the_options_and_our_page_are_seen(site, dashboard):
    ceph, page = site.cluster.ceph, dashboard.page
    site.wcache("freeze")
    assert wait_until(lambda: "WCACHE_FROZEN" in site.cluster.health_checks(), 30)
    assert wait_until(lambda: dashboard.check().startswith("WCACHE_FROZEN: an admin froze"), 40)
    assert len(dashboard.check()) < CHARS_MAX
    shot(page, "dashboard-health")
    # the card has the summary; what to do is where Ceph has it for every check
    assert "what to do: nothing is measured" in ceph("health", "detail").stdout

    # the dashboard reads our own lines of the log from its first look at it on
    assert "WCACHE_FROZEN" in dashboard.shown("logs", "cd-logs").inner_text()
    ceph("health", "mute", "WCACHE_FROZEN")
    assert wait_until(lambda: healthy(dashboard), 40)
    assert dashboard.check().startswith("WCACHE_FROZEN")  # its card has muted ones too
    site.wcache("freeze", thaw=True)
    assert wait_until(lambda: not dashboard.check(), 40)
    # a mute ends with what it was for
    site.wcache("freeze")
    assert wait_until(lambda: dashboard.check().startswith("WCACHE_FROZEN"), 40)
    assert not healthy(dashboard)
    site.wcache("freeze", thaw=True)
    assert wait_until(lambda: not dashboard.check(), 40)
    said = dashboard.shown("logs", "cd-logs").inner_text()
    assert [word for word in ("frozen", "thawed") if f"admin: cluster: {word}" not in said] == []
    shot(page, "dashboard-logs")

    port = dashboard.shown("mgr-modules/edit/wcache", "input#web_port")
    assert (port.get_attribute("min"), port.get_attribute("max")) == ("1", "65535")
    port.fill("65536")
    page.keyboard.press("Tab")
    page.click("button:has-text('Update')")
    assert "must be lower or equal to 65535" in page.inner_text("form")
    shot(page, "dashboard-options")
    assert ceph("config", "get", "mgr.z", "mgr/wcache/web_port").stdout.strip() != "65536"

    uri = site.services()["wcache"]
    assert page.goto(uri).status == 200
    assert "Read by ann" in page.inner_text("footer")
    shot(page, "dashboard-ours")
    time.sleep(0.2)
    assert dashboard.complaints == []
