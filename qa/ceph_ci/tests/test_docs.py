"""Ceph's documentation build has no warning of ours, and prints what a reader needs."""

from __future__ import annotations

import html
import re
from collections import Counter
from pathlib import Path
from typing import Dict

import pytest
from ceph_ci.docs import build, ensure_sphinx
from ceph_ci.series import write_series
from ceph_ci.source import source_of
from wcache.commands.commands import specs
from wcache.knobs.registry import ADVICE
from wcache.options import module_options

pytestmark = [pytest.mark.ceph_ci, pytest.mark.long]
RELEASE = 20


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Dict[str, str]:
    """What a reader of each page reads; the series brings no warning."""
    source = source_of(RELEASE)
    python = ensure_sphinx(source)
    home = tmp_path_factory.mktemp("docs")
    write_series(source, home / "tree", home / "patches")
    before = build(python, source, home / "before")
    after = build(python, home / "tree", home / "after")
    ours = Counter(after) - Counter(before)
    assert not ours, "\n".join(ours)
    return {
        name: _read(home / f"after/html/{name}.html")
        for name in ("mgr/wcache", "api/mon_command_api", "rados/operations/health-checks")
    }


def _read(path: Path) -> str:
    text = re.sub(r"<(script|style).*?</\1>", "", path.read_text(encoding="utf-8"), flags=re.S)
    # the theme's sign for the link of a heading
    text = html.unescape(re.sub(r"<[^>]+>", "", text)).replace("\uf0c1", "¶")
    return " ".join(text.split())


def test_each_option_is_there_with_its_words_and_default(pages: Dict[str, str]) -> None:
    page = pages["mgr/wcache"]
    for option in module_options():
        words = str(option["desc"]).replace("`", "").split()
        assert f"{option['name']}¶ {words[0]} {words[1]}" in page, option["name"]
    assert page.count("default:") == len(module_options())


def test_each_command_is_there_with_its_help_and_an_example(pages: Dict[str, str]) -> None:
    page = pages["api/mon_command_api"]
    for spec in specs():
        prefix = str(spec["cmd"]).partition(" name=")[0]
        assert f"Example command: ceph {prefix}" in page, prefix
        assert " ".join(str(spec["desc"]).split()[:4]).replace("'", "’") in page, prefix


def test_each_health_check_has_a_section(pages: Dict[str, str]) -> None:
    page = pages["rados/operations/health-checks"]
    for code in ADVICE:
        assert f"{code.value}¶" in page, code
    assert ".md" not in page  # no page of the project's own
