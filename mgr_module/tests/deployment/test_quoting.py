"""No value comes into a script, a spec or a manifest but through a filter that quotes it."""

import errno
import shlex
import subprocess
import sys
from pathlib import Path

import jinja2
import pytest
from jinja2 import nodes
from module_world import a_mgr, ok
from test_commands_do_what_they_say import refused
from wcache.core.errors import MalformedError
from wcache.core.fleet.loaded_off import Reload
from wcache.deployment import scripts
from wcache.deployment.scripts import QUOTING, reloading, script

FOLDER = Path(scripts.__file__).parent
TEMPLATES = sorted(path.name for path in FOLDER.glob("*.j2"))
FSID = "00000000-0000-4000-8000-000000000001"
HOSTILE = (
    "$(touch broken)", "`touch broken`", "a b", "'", '"', "\\", "a\ntouch broken", ";touch broken",
    "-n", "", "%h", "{{ 7 }}", "é", "\U0001f600", "\u2028", "*",
)


def unquoted(text):
    """The lines of a template on which a value is printed that no filter has quoted."""
    printed = [
        node for output in jinja2.Environment().parse(text).find_all(nodes.Output)
        for node in output.nodes if not isinstance(node, nodes.TemplateData)
    ]
    return [
        node.lineno for node in printed
        if not isinstance(node, nodes.Filter) or node.name not in QUOTING
    ]


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_value_of_a_template_goes_through_a_filter_that_quotes(name):
    text = (FOLDER / name).read_text(encoding="utf-8")
    assert unquoted(text) == []
    assert "autoescape" not in text


def test_a_value_that_does_not_is_found():
    for text in (
        "{{ x }}", "{{ x|upper }}", "{{ x|quote ~ y }}", "{{ x|quote|upper }}", "{{ x.y() }}",
        "{% for x in y %}\n{{ x }}{% endfor %}", "{{ x|quote if y else z }}", "{{ x|safe }}",
    ):
        assert len(unquoted(text)) == 1, text
    assert unquoted("a {{ x|quote }} {{ (x ~ y)|yaml }} {{ y|words }} {# {{ z }} #}") == []
    assert len(TEMPLATES) == 5


def test_a_value_that_a_template_is_not_given_is_an_error():
    with pytest.raises(jinja2.UndefinedError):
        script("removal", form="systemd")


@pytest.mark.parametrize("text", HOSTILE)
def test_a_shell_takes_a_quoted_value_for_one_word(text, tmp_path):
    assert shlex.split(QUOTING["quote"](text)) == [text]
    assert shlex.split(QUOTING["words"]([text, text])) == [text, text]
    line = f"printf %s {QUOTING['quote'](text)} # {QUOTING['comment'](text)}"
    done = subprocess.run(
        ["/bin/sh", "-c", line], cwd=tmp_path, capture_output=True, timeout=20, check=True
    )
    assert done.stdout.decode() == text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", [text for text in HOSTILE if text not in ("", "-n")])
def test_what_stands_unquoted_has_nothing_that_means_anything(text):
    with pytest.raises(MalformedError):
        QUOTING["name"](text)
    for form in ("cephadm", "rook", "systemd"):
        with pytest.raises(MalformedError):
            script("removal", form=form, hostname=text, namespace="rook-ceph")
    with pytest.raises(MalformedError):
        script("removal", form="rook", hostname="h1", namespace=text)
    with pytest.raises(MalformedError):
        reloading([Reload("h1", 1, ("dm-0",))], text)


def test_a_comment_is_one_line_whatever_a_probe_calls_its_host_and_drives():
    odd = "x\ntouch broken\r\x1b[2J\u2028"
    text = reloading([Reload(odd, 1, ("md0",), odd, (odd,))], FSID)
    assert [line for line in text.splitlines() if "broken" in line and line[0] != "#"] == []
    assert "# left out: osd.1 on x?touch broken??[2J?: x?touch broken" in text


@pytest.fixture
def no_jinja2(monkeypatch):
    scripts._environment.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    yield
    scripts._environment.cache_clear()


def test_without_jinja2_nothing_is_changed_and_it_is_said_what_to_install(no_jinja2):
    mgr = a_mgr()
    told = [
        refused(mgr, "agent add", errno.EAGAIN, hostname="h1"),
        refused(mgr, "agent rm", errno.EAGAIN, hostname="h1"),
    ]
    assert all("install python3-jinja2" in error for error in told)
    assert mgr.keys.held == {}
    assert "h1" in ok(mgr.command("agent ls"))
