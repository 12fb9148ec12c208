"""What an admin sees of wcache in the real dashboard of 20, in a real browser."""

from __future__ import annotations

import time
from typing import Any, Iterator, List

import pytest
from browser import a_browser, shot
from dashboard import PASSWORD, Site
from harness.processes import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.one_release, pytest.mark.long]

# What the dashboard complains of to its console by itself: there is no Prometheus, no cephadm.
ITS_OWN = ("/api/prometheus/data?", "/api/mgr/module/cephadm")
CHARS_MAX = 300  # of a health check in the card


class Dashboard:
    """The dashboard in a browser, logged in to."""

    def __init__(self, page: Any, site: Site) -> None:
        self.page = page
        self.at = site.services()["dashboard"]
        self.complaints: List[str] = []
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("response", self._answered)
        page.goto(f"{self.at}#/login")
        page.fill("input[name=username]", "ann")
        page.fill("input[name=password]", PASSWORD)
        page.keyboard.press("Enter")
        assert wait_until(
            lambda: any(cookie["name"] == "token" for cookie in page.context.cookies()), 30
        )

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


@pytest.fixture
def dashboard(site: Site) -> Iterator[Dashboard]:
    with a_browser() as browser:
        context = browser.new_context(viewport={"width": 1400, "height": 1000})
        context.set_default_timeout(10_000)
        yield Dashboard(context.new_page(), site)


def test_a_check_the_options_and_our_page_are_seen(site, dashboard):
    ceph, page = site.cluster.ceph, dashboard.page
    site.wcache("freeze")
    assert wait_until(lambda: "WCACHE_FROZEN" in site.cluster.health_checks(), 30)
    assert wait_until(lambda: dashboard.check().startswith("WCACHE_FROZEN: an admin froze"), 40)
    assert len(dashboard.check()) < CHARS_MAX
    shot(page, "dashboard-health")
    # the card has the summary; what to do is where Ceph has it for every check
    assert "what to do: nothing is measured" in ceph("health", "detail").stdout

    assert "WCACHE_FROZEN" in dashboard.shown("logs", "cd-logs").inner_text()
    site.wcache("freeze", thaw=True)
    assert wait_until(lambda: "WCACHE_FROZEN" not in site.cluster.health_checks(), 30)
    assert wait_until(lambda: not dashboard.check(), 40)

    port = dashboard.shown("mgr-modules/edit/wcache", "input#web_port")
    assert (port.get_attribute("min"), port.get_attribute("max")) == ("1", "65535")
    shot(page, "dashboard-options")

    uri = site.services()["wcache"]
    assert page.goto(uri).status == 200
    assert "Read by ann" in page.inner_text("footer")
    shot(page, "dashboard-ours")
    time.sleep(0.2)
    assert dashboard.complaints == []
