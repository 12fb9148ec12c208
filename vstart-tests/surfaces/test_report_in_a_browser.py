"""The report in a real browser: all columns at 360 and 1,400 px, nothing asked of elsewhere."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Iterator, List

import pytest
from browser import Watched, a_browser, shot
from harness.releases import install_packages
from module_answers import HOSTILE, FakeAnswers
from report_answers import a_lot
from wcache_cli.evidence import gather
from wcache_cli.report_page import render

pytestmark = [pytest.mark.cluster, pytest.mark.one_release, pytest.mark.long]

# The page in a frame of a width; the script of the page around it measures what it became.
AROUND = """<!DOCTYPE html><body style="margin:0">
<iframe src="report.html" style="width:WIDTHpx;height:900px;border:0"></iframe><pre id="found">
</pre><script>
const frame = document.querySelector('iframe');
frame.onload = () => {
  const page = frame.contentDocument, wide = page.documentElement;
  const cells = [...page.querySelectorAll('td')];
  const out = cells.filter(c => {
    const box = c.getBoundingClientRect();
    return box.width < 1 || box.height < 1 || box.right > wide.clientWidth + 1;
  });
  const shown = cells.filter(c => c.dataset.label).map(
    c => frame.contentWindow.getComputedStyle(c, '::before').content);
  found.textContent = JSON.stringify({
    width: wide.clientWidth, scroll: wide.scrollWidth, cells: cells.length, out: out.length,
    labelled: shown.filter(text => text !== 'none').length,
    svgs: [...page.querySelectorAll('svg')].filter(
      s => s.getBoundingClientRect().height > 60).length,
    scripts: page.scripts.length});
};
</script></body>"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> Iterator[tuple[str, List[str]]]:
    """Where the report is served, and what was asked for there."""
    install_packages(["chromium"])
    folder = tmp_path_factory.mktemp("report")
    answers = a_lot()
    # a model string that is one word, and longer than any column
    answers["drive ls"]["drives"][0]["drive_model"]["model"] = "W" * 10_000 + HOSTILE
    (folder / "report.html").write_text(render(gather(FakeAnswers(answers))))
    (folder / "three.html").write_text(render(gather(FakeAnswers(a_lot(drives=3)))))
    for width in (360, 1400):
        (folder / f"{width}.html").write_text(AROUND.replace("WIDTH", str(width)))
    asked: List[str] = []

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_args: object) -> None:
            asked.append(self.path)

    server = ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Handler, directory=str(folder))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", asked
    server.shutdown()
    server.server_close()


def browse(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
         f"--user-data-dir={tmp_path / 'profile'}", *arguments],
        capture_output=True, text=True, timeout=180, check=True, stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize(("width", "labelled"), [(360, True), (1400, False)])
def test_every_column_is_within_the_page(pages, tmp_path, width, labelled):
    at, asked = pages
    done = browse(
        tmp_path, "--window-size=1500,1000", "--virtual-time-budget=20000", "--dump-dom",
        f"{at}/{width}.html",
    )
    found = json.loads(re.search(r'<pre id="found">\s*(\{.*?\})', done.stdout)[1])
    assert found["scroll"] <= found["width"]
    assert width - 20 <= found["width"] <= width  # a scroll bar takes the rest
    assert found["cells"] > 500
    assert (found["out"], found["scripts"], found["svgs"]) == (0, 0, 24)
    assert (found["labelled"] > 500) is labelled
    assert "CONSOLE" not in done.stderr
    assert set(asked) <= {f"/{width}.html", "/360.html", "/report.html", "/three.html",
                          "/favicon.ico"}


def test_it_prints_with_every_column(pages, tmp_path):
    install_packages(["poppler-utils"])
    at, _ = pages
    paper = tmp_path / "report.pdf"
    browse(tmp_path, "--no-pdf-header-footer", f"--print-to-pdf={paper}", f"{at}/report.html")
    text = subprocess.run(
        ["pdftotext", "-layout", str(paper), "-"], capture_output=True, text=True, check=True,
        timeout=60,
    ).stdout
    heads = "OSD Drive Load Mode n Mean Std Min p25 p50 p75 p90 Max"
    assert heads in {" ".join(line.split()) for line in text.splitlines()}
    assert "Glossary" in text


def test_of_three_drives_it_prints_on_four_pages(pages, tmp_path):
    install_packages(["poppler-utils"])
    paper = tmp_path / "three.pdf"
    browse(tmp_path, "--no-pdf-header-footer", f"--print-to-pdf={paper}", f"{pages[0]}/three.html")
    told = subprocess.run(
        ["pdfinfo", str(paper)], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert 1 <= int(re.search(r"Pages: +(\d+)", told)[1]) <= 4


def test_it_is_accessible_on_a_phone_and_a_screen_light_and_dark(pages):
    at, _ = pages
    wrong: List[str] = []
    with a_browser() as browser:
        for width in (360, 1400):
            for scheme in ("light", "dark"):
                page = browser.new_page(
                    viewport={"width": width, "height": 900}, color_scheme=scheme
                )
                watched = Watched(page, at)
                page.goto(f"{at}/report.html")
                shot(page, f"report-{width}-{scheme}")
                wrong += [f"{width} {scheme}: {line}" for line in watched.violations()]
                wrong += watched.complaints
                if watched.too_wide() > 0:
                    wrong.append(f"{width} {scheme}: {watched.too_wide()} px too wide")
                page.close()
    # the test's server has no icon
    assert [line for line in wrong if "404" not in line] == []
