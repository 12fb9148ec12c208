"""The web page in a real browser, served by its own server on fake ports: no cluster is needed.

Looked at on a phone's width and a screen's, in both colour schemes, printed, and by keyboard
alone; axe-core says what those miss who cannot see or point.
"""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from typing import Any, Iterator, List

import pytest
from browser import Watched, a_browser, shot
from harness.processes import wait_until
from harness.releases import install_packages
from memory_world import a_mgr as a_mgr_with_memory
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import applied, ok
from wcache.core.model import DriveModel
from wcache.web.server import WebPage
from web_world import FakeHost, Site, with_changes

pytestmark = [pytest.mark.cluster, pytest.mark.one_release, pytest.mark.long]

PLACES = (
    "", "drives", "campaigns", "campaigns/c1", "experiments/c1.0.0", "latency", "rollouts",
    "rollouts/p1", "history", "login", "campaigns/none",
)
WIDE_NAME = "W" * 60


class Served:
    """A page that is served, and what its server complained of."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.logged: List[str] = []
        self.host = FakeHost()
        self.server = WebPage(
            self.host, make_app=lambda secure: site.app, tokens=site.tokens, log=self.logged.append
        )
        self.at = f"http://127.0.0.1:{self.host.wanted.port}/"

    def token(self) -> str:
        return str(self.site.tokens.issue()["token"])


@contextmanager
def served(site: Site) -> Iterator[Served]:
    found = Served(site)
    found.server.start()
    assert wait_until(lambda: bool(found.host.uris), 10)  # from then on its tokens are good
    yield found
    found.server.close()
    assert (found.logged, site.failures) == ([], [])


@pytest.fixture(scope="module")
def changed() -> Iterator[Served]:
    """After a campaign and a rollout, frozen: there is something on every page but memory."""
    mgr = applied()
    ok(mgr.command("freeze"))
    with served(with_changes(mgr)[0]) as found:
        yield found


@pytest.fixture(scope="module")
def remembering() -> Iterator[Served]:
    with served(Site(a_mgr_with_memory())) as found:
        yield found


@pytest.fixture(scope="module")
def hostile() -> Iterator[Served]:
    """A drive whose model is one word, longer than any column, and one that is markup."""
    models = (DriveModel("ACME", WIDE_NAME, "1"), DriveModel("<b>V", "<img src=//x/y>", "'\""))
    drives = [make.drive(f"sd{n}", n, drive_model=model) for n, model in enumerate(models)]
    mgr = FakeMgr(("h1", tuple(drives)))
    mgr.report_all()
    with served(Site(mgr)) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with a_browser() as found:
        yield found


@contextmanager
def a_page(browser: Any, to: Served, **context: Any) -> Iterator[Any]:
    """A page of the browser that has a token, at the overview."""
    made = browser.new_context(**context)
    made.add_cookies([{"name": "wcache_token", "value": to.token(), "url": to.at}])
    page = made.new_page()
    page.goto(to.at)
    yield page
    made.close()


# Tables that are wider than their place, and have no shadow at its edge.
NO_HINT = """[...document.querySelectorAll('.wide')].filter(
    e => e.scrollWidth > e.clientWidth
         && !getComputedStyle(e).backgroundImage.includes('gradient')).length"""
# What has to be scrolled sideways, which nothing has on a phone.
SCROLLED = """[...document.querySelectorAll('.wide, figure')].filter(
    e => e.scrollWidth > e.clientWidth + 1).length"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1400])
def test_every_page_fits_complains_of_nothing_and_is_accessible(
    browser, changed, remembering, hostile, width, scheme
):
    wrong: List[str] = []
    for to, places in (
        (changed, PLACES), (remembering, ("memory",)), (hostile, ("", "drives"))
    ):
        size = {"width": width, "height": 900}
        with a_page(browser, to, viewport=size, color_scheme=scheme) as page:
            watched = Watched(page, to.at)
            for place in places:
                answer = page.goto(to.at + place)
                assert answer.status == (404 if place.endswith("none") else 200), place
                name = place.replace("/", "-") or "overview"
                shot(page, f"{'hostile-' * (to is hostile)}{name}-{width}-{scheme}")
                if watched.too_wide() > 0:
                    wrong.append(f"/{place}: {watched.too_wide()} px too wide")
                if width < 600 and page.evaluate(SCROLLED):
                    wrong.append(f"/{place}: something is scrolled sideways on a phone")
                if page.evaluate(NO_HINT):
                    wrong.append(f"/{place}: nothing hints that a table is scrolled")
                wrong += [f"/{place}: {line}" for line in watched.violations()]
            # the browser itself tells its console of the page that is not there
            wrong += [line for line in watched.complaints if "404" not in line]
    assert wrong == []


@pytest.mark.parametrize("width", [390, 1400])
def test_what_the_plots_draw_is_within_their_frames(browser, changed, width):
    with a_page(browser, changed, viewport={"width": width, "height": 900}) as page:
        for place, count in (("experiments/c1.0.0", 3), ("latency", 1), ("rollouts/p1", 1)):
            page.goto(changed.at + place)
            plots = page.query_selector_all("figure > svg[role=img]")
            assert len(plots) == count, place
            for plot in plots:
                box = plot.bounding_box()
                assert box["width"] > 300
                assert box["height"] > 150
                assert plot.evaluate("""svg => {
                    const frame = svg.querySelector('.frame').getBBox();
                    return [...svg.querySelectorAll('.curve, .band, .mark')].every(one => {
                        const box = one.getBBox();
                        return box.x >= frame.x - 1 && box.y >= frame.y - 1
                            && box.x + box.width <= frame.x + frame.width + 1
                            && box.y + box.height <= frame.y + frame.height + 1; }); }"""), place
                assert plot.evaluate("""svg => {
                    const all = svg.getBoundingClientRect();
                    return [...svg.querySelectorAll('text')].every(one => {
                        const box = one.getBoundingClientRect();
                        return box.left >= all.left - 1 && box.right <= all.right + 1; }); }"""), (
                    place, plot.get_attribute("aria-labelledby"))


def test_it_is_logged_in_to_and_read_by_keyboard_alone(browser, changed):
    page = browser.new_context(viewport={"width": 1400, "height": 900}).new_page()
    assert page.goto(changed.at).status == 401
    assert "ceph wcache web token" in page.inner_text("main")
    for _ in range(10):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.name") == "token":
            break
    page.keyboard.type(changed.token())
    page.keyboard.press("Enter")
    page.wait_for_selector("nav")
    assert page.inner_text("h1") == "Overview"
    page.goto(changed.at)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    reached = []
    for number in range(7):
        page.goto(changed.at)
        for _ in range(2 + number):
            page.keyboard.press("Tab")
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
        with page.expect_navigation():
            page.keyboard.press("Enter")
        reached.append(page.inner_text("h1"))
    assert reached == [
        "Overview", "Drives", "Experiments", "Commit latency", "Rollouts", "Memory", "History",
    ]
    page.context.close()


@pytest.mark.parametrize("place", ["", "campaigns/c1", "drives"])
def test_it_prints_with_every_column(browser, changed, tmp_path, place):
    install_packages(["poppler-utils"])
    paper = tmp_path / "page.pdf"
    with a_page(browser, changed) as page:
        page.goto(changed.at + place)
        page.emulate_media(media="print")
        assert not page.is_visible("nav")
        heads = page.eval_on_selector_all("th[scope=col]", "all => all.map(one => one.innerText)")
        shot(page, f"{place.replace('/', '-') or 'overview'}-print", paper)
    printed = subprocess.run(
        ["pdftotext", "-layout", paper, "-"], capture_output=True, text=True, check=True,
        timeout=60,
    ).stdout
    assert heads
    assert [word for head in heads for word in head.split() if word not in printed] == []


def test_nothing_is_asked_of_a_host_that_a_drive_names(browser, hostile):
    with a_page(browser, hostile) as page:
        watched = Watched(page, hostile.at)
        page.goto(hostile.at + "drives")
        assert "<img src=//x/y>" in page.inner_text("main")
        assert watched.complaints == []
        # an image that got in all the same would be stopped, and the browser tells of it
        page.evaluate("at => { document.body.append(Object.assign(new Image(), {src: at})); }",
                      "http://192.0.2.1/x.png")
        page.wait_for_timeout(200)
        assert any("Content Security Policy" in line for line in watched.complaints)
