"""A real browser for tests: Debian's chromium, driven by playwright; axe-core checks its pages."""

from __future__ import annotations

import os
import site
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, List, Optional

from harness.access import PROJECT
from harness.releases import install_packages

CHROMIUM = "/usr/bin/chromium"
# A fresh profile asks for nothing of its own.
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
# With SHOTS=folder each page is kept as a picture, to be looked at.
SHOTS = os.environ.get("SHOTS", "")


def _packages() -> None:
    """Playwright and axe-core, in an environment beside the one of the tests."""
    install_packages(["chromium"])
    venv = subprocess.run(
        [str(PROJECT / "qa/venv.sh"), "browser"], check=True, capture_output=True, text=True,
        timeout=600,
    ).stdout.strip()
    (packages,) = Path(venv).glob("lib/python3*/site-packages")
    site.addsitedir(str(packages))


@contextmanager
def a_browser() -> Iterator[Any]:
    """A headless chromium, until the block ends."""
    _packages()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


def shot(page: Any, name: str, paper: Optional[Path] = None) -> None:
    """Print a page to `paper`, where that is given; keep what is seen, where SHOTS asks for it."""
    if paper:
        page.pdf(path=str(paper), format="A4")
    if SHOTS:
        folder = Path(SHOTS)
        folder.mkdir(exist_ok=True)
        if paper:
            (folder / f"{name}.pdf").write_bytes(paper.read_bytes())
        else:
            page.screenshot(path=str(folder / f"{name}.png"), full_page=True)
            (folder / f"{name}.txt").write_text(page.inner_text("body"), encoding="utf-8")


class Watched:
    """A page of a browser, with all that it said to its console and asked of the network."""

    def __init__(self, page: Any, origin: str) -> None:
        self.page = page
        self._origin = origin
        self.complaints: List[str] = []
        page.on("console", lambda message: self._console(message))
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("request", self._request)

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"console: {message.text}")

    def _request(self, request: Any) -> None:
        if not request.url.startswith((self._origin, "data:")):
            self.complaints.append(f"asked of elsewhere: {request.url}")

    def too_wide(self) -> int:
        """By how many pixels the page is wider than the window."""
        return int(self.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        ))

    def violations(self) -> List[str]:
        """What axe-core finds wrong with the page for those who cannot see or point."""
        from axe_playwright_python.sync_playwright import Axe

        found = Axe().run(self.page).response["violations"]
        return [f"{item['id']}: {node['html'][:200]}" for item in found for node in item["nodes"]]
