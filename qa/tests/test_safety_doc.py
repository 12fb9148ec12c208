"""Pages on safety, security and what was shown name the test of a claim: each is there."""

import re
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
FOLDERS = (
    "mgr_module/tests", "osd_probe/tests", "cli/tests", "qa/drive_lab/tests", "qa/statistics",
    "vstart-tests", "qa/packages_lab/tests", "qa/tests",
)
PAGES = ("safety.md", "safety-tests.md", "security.md", "what-was-shown.md")
DOC = "".join((PROJECT / "doc" / name).read_text() for name in PAGES)


def sources():
    return [path for folder in FOLDERS for path in (PROJECT / folder).rglob("test_*.py")]


def test_every_test_that_the_safety_page_names_is_there():
    defined = {
        name for path in sources()
        for name in re.findall(r"^def (test_\w+)\(", path.read_text(), re.MULTILINE)
    }
    files = {path.name for path in sources()}
    named = set(re.findall(r"\btest_\w+(?:\.\.\.|\.py)?", DOC))
    assert len(named) > 40
    missing = {
        name for name in named
        if not (
            name in files or name in defined
            or (name.endswith("...") and any(one.startswith(name[:-3]) for one in defined))
        )
    }
    assert missing == set()


def test_every_path_that_the_safety_pages_name_is_there():
    named = set(re.findall(r"`((?:mgr_module|osd_probe|qa|vstart-tests)/[\w/-]+\.\w+)`", DOC))
    assert len(named) > 20
    assert [path for path in sorted(named) if not (PROJECT / path).exists()] == []


def test_every_test_of_a_file_is_in_that_file():
    """As `test_file.py::test_name`, or cut: `test_file.py::test_na...`."""
    named = set(re.findall(r"`(test_\w+\.py)::(test_\w+)((?:\.\.\.)?)`", DOC))
    assert len(named) > 40
    assert len(named) == len(set(re.findall(r"`(test_\w+\.py::[^`]*)`", DOC)))
    texts = {name: [] for name, _, _ in named}
    for path in sources():
        if path.name in texts:
            texts[path.name].append(path.read_text())
    assert [
        f"{name}::{test}" for name, test, cut in sorted(named)
        if not any(
            re.search(rf"^def {test}{'' if cut else '[(]'}", text, re.MULTILINE)
            for text in texts[name]
        )
    ] == []
