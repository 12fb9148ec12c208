"""No value comes into a script, a spec or a manifest but through a filter that quotes it."""

import errno
import subprocess
import sys
from pathlib import Path

import jinja2
import pytest
import yaml
from jinja2 import nodes
from module_world import a_mgr, ok, refused
from wcache.core.errors import MalformedError, NotReadyError
from wcache.core.fleet.foreign_rules import Reload
from wcache.deployment import scripts
from wcache.deployment.scripts import QUOTING, reloading, script

FOLDER = Path(scripts.__file__).parent
TEMPLATES = sorted(path.name for path in FOLDER.glob("*.j2"))
FSID = "00000000-0000-4000-8000-000000000001"
FORMS = ("cephadm", "rook", "systemd")
GIVEN = {
    "hostnames": ["h1"], "namespace": "the-namespace", "image": "the-image", "fsid": FSID,
    "program_inside": False, "ceph_user_id": 167,
}
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
    assert unquoted("a {{ x|quote }} {{ (x ~ y)|yaml }} {{ y|names }} {# {{ z }} #}") == []
    assert len(TEMPLATES) == 5


def test_a_value_that_a_template_is_not_given_is_an_error():
    with pytest.raises(jinja2.UndefinedError):
        script("removal", form="systemd")


@pytest.mark.parametrize("text", HOSTILE)
def test_a_shell_takes_a_quoted_value_for_one_word(text, tmp_path):
    line = f"printf %s {QUOTING['quote'](text)} # {QUOTING['comment'](text)}"
    assert run(line, tmp_path).stdout.decode() == text


def run(text, folder, **programs):
    """Run a script with these programs there; what it is told to touch is not there after it."""
    for name, body in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", "-c", text], cwd=folder, capture_output=True, timeout=60, check=False,
        env={"PATH": f"{folder}:/usr/bin:/bin"}, stdin=subprocess.DEVNULL,
    )
    assert not (folder / "broken").exists()
    return done


@pytest.mark.parametrize("text", HOSTILE)
def test_a_name_has_nothing_that_means_anything_or_nothing_is_printed(text):
    for form in FORMS:
        with pytest.raises(MalformedError):
            script("removal", form=form, hostname=text, namespace="rook-ceph")
        with pytest.raises(MalformedError):
            script(form, **{**GIVEN, "hostnames": ["h1", text]})
    with pytest.raises(MalformedError):
        script("removal", form="rook", hostname="h1", namespace=text)
    with pytest.raises(MalformedError):
        script("rook", **{**GIVEN, "fsid": text})
    with pytest.raises(MalformedError):
        reloading([Reload("h1", 1, ("dm-0",))], text)


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize(("form", "name"), [
    ("cephadm", "image"), ("rook", "image"), ("rook", "namespace"),
])  # fmt: skip
def test_what_is_no_name_is_one_text_to_whoever_reads_the_spec(form, name, text, tmp_path):
    plain = PLAIN.get(form) or PLAIN.setdefault(form, spec(tmp_path, form))
    assert spec(tmp_path, form, **{name: text}) == put(plain, GIVEN[name], text) != plain


PLAIN = {}  # the spec of each form, of names that mean nothing


def spec(folder, form, **values):
    """What the script of a form has somebody apply."""
    applied = 'case "$*" in *"apply "*) cat >spec ;; esac'
    made = script(form, **{**GIVEN, **values}).text
    assert run(made, folder, ssh=":", ceph=applied, kubectl=applied).returncode == 0
    return list(yaml.safe_load_all((folder / "spec").read_text(encoding="utf-8")))


def put(found, was, text):
    """The same document with a text in place of another."""
    if isinstance(found, dict):
        return {key: put(value, was, text) for key, value in found.items()}
    if isinstance(found, list):
        return [put(value, was, text) for value in found]
    return text if found == was else found


@pytest.mark.parametrize("text", HOSTILE)
def test_a_host_and_its_drive_are_one_word_each_here_and_there(text, tmp_path):
    told = 'printf "%s\\0" "$@" >>told'
    there = f'{told}; [ "$1" = -n ] && exec /bin/sh -c "$3"'
    programs = {"ssh": there, "wcache-probe": told, "ceph": ":"}
    run(reloading([Reload(text, 1, ("dm-0",), to_name=(text,))], FSID), tmp_path, **programs)
    words = (tmp_path / "told").read_text(encoding="utf-8").split("\0")
    drive = "".join(char if char.isprintable() else "?" for char in text)
    assert [*words[:2], *words[3:]] == [
        "-n", f"root@{text}", "prepare", f"--drive={drive}", f"root@{text}", f"sh -s 1 {FSID}", "",
    ]


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
    with pytest.raises(NotReadyError, match="jinja2 is missing"):
        reloading([], FSID)
    assert mgr.keys.held == {}
    assert "h1" in ok(mgr.command("agent ls"))
