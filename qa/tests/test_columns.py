"""Lines of text files stay under 100 columns; ruff holds the same for Python, up to 100."""

import subprocess
from fnmatch import fnmatch
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
COLUMNS = 100

# What may be wider, and why: patterns of names.
EXCEPTIONS = {
    "*/goldens/*": "answers as they are printed, tables among them",
    "*/switching/steps/*": "recordings, a line for each sequence",
    "*.json": "data, written by programs",
    "*.py": "ruff's line-length",
    "*.svg": "a drawing",
}


def excepted(name):
    return any(fnmatch(name, pattern) for pattern in EXCEPTIONS)


def tracked():
    """The project's files as git lists them."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
            cwd=PROJECT, capture_output=True, text=True, check=True,
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a working copy of git")
    return [name for name in listed.splitlines() if (PROJECT / name).is_file()]


def too_wide(text):
    """The numbers of the lines that are too wide; one with nothing but a URL may be."""
    return [
        number for number, line in enumerate(text.splitlines(), 1)
        if len(line) >= COLUMNS and not line.strip(" <>#*-").startswith("https://")
    ]


def test_no_line_of_a_text_file_is_too_wide():
    wide = []
    for name in tracked():
        if excepted(name):
            continue
        try:
            text = (PROJECT / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        wide += [f"{name}:{number}" for number in too_wide(text)]
    assert wide == []


@pytest.mark.parametrize("pattern", EXCEPTIONS)
def test_each_exception_is_needed(pattern):
    files = [PROJECT / name for name in tracked() if fnmatch(name, pattern)]
    assert any(too_wide(path.read_text(encoding="utf-8")) for path in files)


def test_a_wide_line_is_found_and_a_url_is_not():
    wide = "x" * COLUMNS
    assert too_wide(f"short\n{wide}\n") == [2]
    assert too_wide(f"<https://{wide}>\n") == []
