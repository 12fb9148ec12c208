"""Manual pages say what the programs take, and nothing of the machine that made them."""

import errno
import socket
import subprocess

import manual
import pytest
import wcache.core.errors as errors
import zipapps
from wcache.commands.commands import COMMANDS


@pytest.fixture(scope="module")
def pages():
    return {page.name: page.text.replace(r"\-", "-") for page in manual.pages()}


@pytest.mark.parametrize(("name", "command"), [
    ("wcache-probe.8", "wcache-probe prepare"), ("wcache-probe.8", "wcache-probe restore"),
    ("wcache.1", "wcache report"), ("wcache.1", "wcache analyze"),
])
def test_each_command_has_its_section(pages, name, command):
    assert f'.SS "{command}"' in pages[name]


def test_every_command_of_the_module_is_there(pages):
    for command in COMMANDS:
        assert f"ceph {command.prefix}" in pages["ceph-wcache.8"]
        lines = pages["ceph-wcache.8"].partition(".SH COMMANDS")[2].splitlines()
        (line,) = [one for one in lines if one.startswith(rf"\fBceph {command.prefix}\fR")]
        for argument in command.arguments:
            name = argument.split(",")[0].partition("=")[2]
            shown = f"--{name.replace('_', '-')}" if "req=false" in argument else name.upper()
            assert shown in line or "strings=" in argument


def test_what_the_probe_starts_of_itself_is_not_for_people(pages):
    assert "restore-one" not in pages["wcache-probe.8"]


def test_no_default_of_this_machine_is_in_them(pages, monkeypatch):
    monkeypatch.setenv("CEPH_CONF", "/home/me/ceph.conf")
    for page in manual.pages():
        assert "/home/me" not in page.text
    assert f"default: {socket.gethostname()}\n" not in pages["wcache-probe.8"]
    assert "default: the name of this host" in pages["wcache-probe.8"]


def test_exit_codes_are_those_of_the_errors(pages):
    kinds = [
        one for one in vars(errors).values()
        if isinstance(one, type) and issubclass(one, errors.WcacheError)
    ]
    wanted = {f"{one.errno} {errno.errorcode[one.errno]}" for one in kinds}
    assert wanted <= {code for code, _ in manual.MODULE_EXIT}
    assert all(".SH EXIT STATUS" in text for text in pages.values())


@pytest.mark.slow
def test_both_shells_complete_every_command_that_is_for_people(tmp_path):
    asked = subprocess.run(
        ["/usr/bin/python3", "-c", "import shtab"], capture_output=True, check=False
    )
    if asked.returncode:
        pytest.skip("python3-shtab is not installed; the package tests do this too")
    tree = zipapps.PROJECT / "packaging/install_tree.py"
    subprocess.run(["/usr/bin/python3", tree, tmp_path], check=True, timeout=60)
    share = tmp_path / "usr/share"
    for parser in manual.parsers():
        zsh = (share / f"zsh/vendor-completions/_{parser.prog}").read_text()
        bash = (share / f"bash-completion/completions/{parser.prog}").read_text()
        assert zsh.startswith(f"#compdef {parser.prog}\n")
        for name, _ in manual.verbs(parser):
            assert f'"{name.split()[-1]}:' in zsh
            assert f"'{name.split()[0]}'" in bash
        assert "%(default)s" not in zsh
    for typed, found in (
        ("wcache w", "watch"), ("wcache report --sa", "--save"), ("wcache-probe pre", "prepare"),
        ("wcache-probe witness l", "listen"), ("wcache compare --format j", "json"),
    ):
        assert completed(share / "bash-completion/completions", typed) == [found], typed


def completed(folder, typed):
    """What a real bash makes of the last word of a line when Tab is pressed."""
    words = typed.split(" ")
    script = '. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); "_shtab_${1//-/_}"; '
    return subprocess.run(
        ["bash", "-c", f"{script} echo \"${{COMPREPLY[@]}}\"", folder / words[0], *words],
        check=True, capture_output=True, text=True, timeout=20,
    ).stdout.split()


def test_a_line_that_begins_with_a_dot_or_a_quote_is_no_request(pages):
    requests = (".TH", ".SH", ".SS", ".TP")
    for text in pages.values():
        bare = [line for line in text.splitlines() if line[:1] in (".", "'")]
        assert all(line.startswith(requests) for line in bare), bare
