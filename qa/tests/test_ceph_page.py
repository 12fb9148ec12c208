"""The pages for Ceph's documentation are built without a warning.

Ceph's own conf.py and extensions build them in `make test-ceph-ci`; here three directives of
theirs have a stand-in, so that a mistake in the markup is found in seconds.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
from ceph_ci.health_page import health_checks
from ceph_ci.module_page import module_page

# Ceph's mgr_module and confval render from the module; its prompt is that of sphinx-prompt.
CONF = """
from docutils.parsers.rst import Directive

class Nothing(Directive):
    required_arguments = 1

class Prompt(Directive):
    required_arguments, final_argument_whitespace, has_content = 1, True, True

    def run(self):
        from docutils import nodes
        text = "\\n".join(self.content)
        return [nodes.literal_block(text, text)]

def setup(app):
    app.add_directive("mgr_module", Nothing)
    app.add_directive("prompt", Prompt)
Nothing.run = lambda self: []
exclude_patterns, html_theme = [], "basic"
"""
INDEX = "wcache\n======\n\n.. toctree::\n\n   wcache\n   health-checks\n"


def built(folder, page):
    """Build the pages in a folder. Returns what Sphinx warns of."""
    checks = "\n".join(health_checks()[0].becomes)
    files = {
        "conf.py": CONF,
        "index.rst": INDEX,
        # Ceph's confval is told by mgr_module whose options they are
        "wcache.rst": page.replace(".. confval:: ", ".. confval:: mgr/wcache/"),
        # sections of checks are the third level of their page
        "health-checks.rst": ".. _health-checks:\n\nHealth checks\n=============\n\n"
                             f"Definitions\n-----------\n\nManager\n^^^^^^^\n\nText\n{checks}\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-n", "-E", "-b", "html", ".", "html"],
        cwd=folder, capture_output=True, text=True, timeout=120, check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()


@pytest.mark.slow
def test_the_pages_are_built_without_a_warning(tmp_path):
    assert built(tmp_path, module_page()) == []
    text = (tmp_path / "html/wcache.html").read_text(encoding="utf-8")
    assert "Reading a verdict" in text
    assert "WCACHE_UNSAFE" in (tmp_path / "html/health-checks.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_mistakes_in_the_page_are_warnings(tmp_path):
    page = module_page()
    for there, broken in (
        ("Undoing\n-------", "Undoing\n----"),
        (":ref:`health-checks`", ":ref:`no-such-page`"),
        (":confval:`mgr/wcache/auto_windows`", ":confval:`mgr/wcache/no_such_option`"),
    ):
        assert there in page
        page = page.replace(there, broken)
    warnings = " ".join(built(tmp_path, page))
    assert "underline too short" in warnings
    assert "no-such-page" in warnings
    assert "no_such_option" in warnings
