"""Manual pages say what the programs take, and nothing of the machine that made them."""

import socket

import manual
import pytest
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


def test_a_line_that_begins_with_a_dot_or_a_quote_is_no_request(pages):
    requests = (".TH", ".SH", ".SS", ".TP")
    for text in pages.values():
        bare = [line for line in text.splitlines() if line[:1] in (".", "'")]
        assert all(line.startswith(requests) for line in bare), bare
