"""A package may go from a host when nothing that was applied there stands."""

from __future__ import annotations

import subprocess
import sys

import pytest
from prepare_bench import host_of
from wcache.core.drive.journal import EntryKind, JournalEntry, encode, prior_of
from wcache.core.errors import ConflictError
from wcache.core.model import CacheMode
from wcache_probe.arguments import parse
from wcache_probe.commands.journal import removable
from wcache_probe.journal.journal_file import StateFolder
from wcache_probe.linux.persistence.udev_rule import FILE_NAME, RuleFolder, boot_rule

WWID = "naa.5000c50000000061"


@pytest.fixture
def host(fake_host, tmp_path):
    """Asks whether this host can do without the program; has a journal and a rules folder."""

    class Host:
        rules_d = tmp_path / "rules.d"
        state = tmp_path / "state"
        rules = RuleFolder(str(rules_d), "/run/wcache", "/usr/bin/wcache-probe")

        def journal(self):
            self.state.mkdir(mode=0o700, exist_ok=True)
            return StateFolder(str(self.state), str(tmp_path / "run")).journal

        def enter(self, kind, owner_id):
            prior = prior_of(host_of(fake_host).look())
            entry = JournalEntry(2, kind, owner_id, "naa.d", prior, 0.0)
            self.journal().write(entry.key, encode(entry))
            return entry.key

        def ask(self, *more):
            words = ["--state-dir", str(self.state), "--run-dir", str(tmp_path / "run"), *more]
            return removable(parse(["removable", *words]), self.rules)

    return Host()


def test_a_host_where_nothing_was_done_can_do_without_and_is_not_touched(host):
    assert host.ask() == 0
    assert not host.state.exists()


def test_a_lease_is_no_reason_to_stay_since_it_is_restored_first(host):
    host.enter(EntryKind.LEASE, "l1")
    assert host.ask() == 0


def test_an_applied_change_is_a_reason_until_it_is_rolled_back(host):
    key = host.enter(EntryKind.ACTION, "p1-a0-f00")
    with pytest.raises(ConflictError, match=r"applied change \(p1-a0-f00\)") as refused:
        host.ask()
    assert "ceph wcache rollback" in refused.value.advice
    assert "/etc/wcache/leave" in refused.value.advice
    assert "\n" not in refused.value.line()
    host.journal().remove(key)
    assert host.ask() == 0


def test_what_the_journal_cannot_tell_is_a_reason(host):
    host.journal().write("action/a1", "not an entry")
    with pytest.raises(ConflictError, match="unreadable"):
        host.ask()


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_rule_that_starts_the_program_is_a_reason_changed_by_hand_or_not(host, by_hand):
    host.rules.write(WWID, CacheMode.WRITE_THROUGH)
    (path,) = host.rules_d.iterdir()
    if by_hand:
        path.write_text(path.read_text().replace("# Written by", "# Changed since it was by"))
    with pytest.raises(ConflictError, match="udev rule"):
        host.ask()
    path.unlink()
    assert host.ask() == 0


def test_the_boot_rule_starts_nothing_and_may_stay(host):
    host.rules_d.mkdir()
    (host.rules_d / FILE_NAME).write_text(boot_rule((WWID,)))
    assert host.ask() == 0


def test_a_lease_is_a_reason_where_it_should_be_over(host):
    host.enter(EntryKind.LEASE, "l1")
    with pytest.raises(ConflictError, match=r"still on this host: lease \(naa.d\)"):
        host.ask("--idle")


def test_no_folder_goes_from_under_a_probe_that_runs_with_it(host, tmp_path):
    host.journal()
    assert host.ask("--idle") == 0
    code = (
        "import sys\n"
        f"sys.path[:0] = {[path for path in sys.path if path]!r}\n"
        "from wcache_probe.journal.journal_file import StateFolder\n"
        f"state = StateFolder({str(host.state)!r}, {str(tmp_path / 'run')!r})\n"
        "state.lock()\n"
        "print('up', flush=True)\n"
        "sys.stdin.read()\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert child.stdout.readline() == b"up\n"
        assert host.ask() == 0
        with pytest.raises(ConflictError, match=rf"probe \(pid {child.pid}\) is running"):
            host.ask("--idle")
    finally:
        child.communicate()
    assert host.ask("--idle") == 0
