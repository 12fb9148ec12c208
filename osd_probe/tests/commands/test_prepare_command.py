"""What `prepare` looks at before it writes: the journal, other programs, whose /etc it is."""

import os
from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from prepare_bench import chosen, entry_of, host_of, options_of, preparer_of
from wcache.core.drive.journal import EntryKind, encode
from wcache.core.errors import NotReadyError, RefusedError
from wcache_probe.arguments import parse
from wcache_probe.commands import prepare as command
from wcache_probe.commands.prepare import LOOKS_MAX, wait_for_others
from wcache_probe.journal.host_lock import HostLock
from wcache_probe.journal.journal_file import StateFolder
from wcache_probe.linux.persistence.prepare import in_container


def test_a_change_that_came_while_prepare_looked_is_not_left_out_of_the_rule(
    fake_host, monkeypatch
):
    """The drive of an entry is named whatever uses it, and this entry is not looked at yet."""
    host = host_of(fake_host)
    words = options_of(fake_host, "prepare")
    entry = entry_of(host.look())
    disks = host.disks

    def something_begins():
        StateFolder(words.state_dir, words.run_dir).journal.write(entry.key, encode(entry))
        return disks()

    monkeypatch.setattr(host, "disks", something_begins)
    made = preparer_of(fake_host)
    with pytest.raises(NotReadyError, match="the journal has changed meanwhile"):
        command.prepare(words, made, host)
    assert not os.path.exists(made.preparation.rule_path)
    with HostLock(words.run_dir, wait_s=0).all_held():
        pass
    assert command.prepare(words, made, host) == 0
    assert made.preparation.rule_text() == chosen(host).rule


def test_an_entry_that_was_written_anew_under_its_key_is_not_left_out_either(
    fake_host, monkeypatch
):
    """A domain was given back and leased again, with a drive that was not there before."""
    host = host_of(fake_host)
    words = options_of(fake_host, "prepare")
    second = replace(entry_of(host.look()), kind=EntryKind.LEASE, owner_id="l2", serial=2)
    first = replace(second, drives=second.drives[:1], owner_id="l1", serial=1)
    assert first.key == second.key
    disks = host.disks
    journal = StateFolder(words.state_dir, words.run_dir).journal
    journal.write(first.key, encode(first))

    def another_lease_begins():
        journal.remove(first.key)
        journal.write(second.key, encode(second))
        return disks()

    monkeypatch.setattr(host, "disks", another_lease_begins)
    made = preparer_of(fake_host)
    with pytest.raises(NotReadyError, match="the journal has changed meanwhile"):
        command.prepare(words, made, host)
    assert not os.path.exists(made.preparation.rule_path)


# ---- whose /etc


@pytest.mark.parametrize("verb", ["prepare", "unprepare"])
@pytest.mark.parametrize(
    ("mark", "text"),
    [(".dockerenv", ""), ("run/.containerenv", ""), ("run/systemd/container", "lxc\n"),
     ("proc/1/environ", "PATH=/bin\0container=lxc\0"), ("", "KUBERNETES_SERVICE_HOST")],
)
def test_in_a_container_nothing_is_written_and_nothing_called_prepared(
    fake_host, monkeypatch, verb, mark, text
):
    """Its /etc is not that of the host, and neither are the images."""
    options = parse([verb])
    options.host_root = str(fake_host.root)
    if mark:
        fake_host.write(mark, text)
    else:
        monkeypatch.setenv(text, "10.0.0.1")
    with pytest.raises(RefusedError, match="this is a container") as refused:
        command.preparer_of(options)
    assert "on the host itself" in refused.value.advice
    assert not os.path.exists(fake_host.root / "etc")


def test_a_host_is_no_container(fake_host, monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    fake_host.write("proc/1/environ", "PATH=/bin\0XDG_container=a\0")
    assert not in_container(str(fake_host.root), os.environ)
    # a host's root that was entered out of a container keeps the container's environment
    fake_host.write("proc/1/environ", "HOME=/\0TERM=linux\0")
    assert not in_container(str(fake_host.root), {"KUBERNETES_SERVICE_HOST": "10.96.0.1"})
    fake_host.write("proc/1/environ", "HOME=/\0KUBERNETES_SERVICE_HOST=10.96.0.1\0")
    assert in_container(str(fake_host.root), {})


# ---- who has a drive open for a moment


class Host:
    """A host whose drive is held by another program at the first looks."""

    def __init__(self, held):
        self.held, self.looks = held, 0

    def look(self):
        self.looks += 1
        uses = ("sda open for writing in lvm (pid 1)",) if self.looks <= self.held else ()
        return (replace(make.drive("sda", 0), foreign_uses=uses),)


@pytest.mark.parametrize(("held", "looks"), [(0, 1), (2, 3), (99, LOOKS_MAX)])
def test_a_drive_that_is_held_for_a_moment_is_waited_for_and_one_that_stays_so_is_not(
    held, looks, capsys
):
    host, slept = Host(held), []
    wait_for_others(host, slept.append)
    assert host.looks == looks
    assert len(slept) == min(held, LOOKS_MAX)
    assert ("sda: used by something" in capsys.readouterr().out) == bool(held)
