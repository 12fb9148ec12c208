"""apt's verbs on a fresh host, with one loop device as the drive of an OSD that is stopped."""

from __future__ import annotations

import pytest
from harness import loops

pytestmark = pytest.mark.packages

RULES = "/etc/udev/rules.d"
BOOT_RULE = f"{RULES}/59-wcache-pin.rules"
# What the probe would have written down before it touched the drive of that name.  Drives of OSDs
# of other clusters on this machine are seen here too: a restore must not touch them.
JOURNAL = """
import sys
from wcache.core.drive.journal import EntryKind, JournalEntry, encode, prior_of
from wcache_probe.journal.journal_file import StateFolder
from wcache_probe.linux.host import LinuxDriveHost
drives = [drive for drive in LinuxDriveHost().look() if drive.dev_name == sys.argv[3]]
entry = JournalEntry(
    2, EntryKind(sys.argv[1]), sys.argv[2], drives[0].domain_id, prior_of(drives), 0.0
)
StateFolder("/var/lib/wcache", "/run/wcache").journal.write(entry.key, encode(entry))
"""
# The boot rule for a disk that is not here, as `prepare` writes it.
PREPARED = """
from wcache_probe.linux.persistence.udev_rule import boot_rule
print(boot_rule(("naa.5000c50000000061",)), end="")
"""
PERSISTED = """
from wcache.core.model import CacheMode
from wcache_probe.linux.persistence.udev_rule import RuleFolder
RuleFolder().write("naa.5000c50000000061", CacheMode.WRITE_THROUGH)
"""


@pytest.fixture(scope="module")
def release():
    return 16


@pytest.fixture
def drive(host, fresh_root):
    """A loop device under an OSD's folder; its name."""
    image = fresh_root.folder / "osd.img"
    device = loops.attach(image, 64 << 20)
    host.type(
        "mkdir -p /var/lib/ceph/osd/ceph-0 && cd /var/lib/ceph/osd/ceph-0 && echo 0 > whoami && "
        f"echo 11111111-2222-3333-4444-555555555555 > ceph_fsid && ln -s {device} block"
    )
    yield device.rpartition("/")[2]
    loops.detach_all(fresh_root.folder)


@pytest.fixture
def installed(host, debs):
    """The probe's package, as apt installs it."""
    host.copy(list(debs.values()))
    host.type("apt-get install -y ./wcache-probe_*.deb")
    return host


def program(host, text, *words):
    """Run a piece of Python with what is in the installed program."""
    host.write("/root/piece.py", text)
    return host.type(
        f"PYTHONPATH=/usr/bin/wcache-probe python3 -B /root/piece.py {' '.join(words)}"
    )


def state(host):
    """What dpkg says of the package."""
    asked = host.try_to("dpkg-query -W -f '${Status}' wcache-probe")
    return asked.text.split()[-1] if asked.code == 0 else "not-known"


def kernel_view(name, mode=""):
    path = f"/sys/block/{name}/queue/write_cache"
    if mode:
        with open(path, "w", encoding="ascii") as file:
            file.write(mode)
    with open(path, encoding="ascii") as file:
        return file.read().strip()


def refusal(host, verb):
    """The one line in which apt's verb is refused; the package is as it was."""
    refused = host.try_to(f"apt-get {verb} -y wcache-probe")
    assert refused.code != 0
    (line,) = [line for line in refused.text.splitlines() if line.startswith("wcache-probe: ")]
    return line


def test_all_three_install_beside_each_other_and_say_their_version(host, debs):
    host.copy(list(debs.values()))
    host.type("apt-get install -y ./*.deb")
    assert host.type("wcache-probe --version").startswith("wcache-probe ")
    assert host.type("wcache --version").startswith("wcache ")
    for name, verb in (("wcache", "watch"), ("wcache-probe", "prepare")):
        typed = f"COMP_WORDS=({name} {verb[:3]}); COMP_CWORD=1; _shtab_{name.replace('-', '_')}"
        completes = f". /usr/share/bash-completion/completions/{name}; {typed}"
        assert host.type(f"bash -c '{completes}; echo $COMPREPLY'").strip() == verb
        host.type(f"grep -qx '#compdef {name}' /usr/share/zsh/vendor-completions/_{name}")
    host.type("apt-get purge -y wcache wcache-probe ceph-mgr-wcache")
    assert host.files_named("wcache") == []


def test_what_a_lease_left_behind_is_restored_before_the_program_goes(installed, drive):
    # a service manager that stops the unit would restore it, too
    installed.type("rmdir /run/systemd/system")
    before = kernel_view(drive)
    program(installed, JOURNAL, "lease", "l1", drive)
    kernel_view(drive, "write through" if before == "write back" else "write back")
    installed.type("apt-get remove -y wcache-probe")
    assert kernel_view(drive) == before
    assert state(installed) == "config-files"
    installed.type("apt-get purge -y wcache-probe")
    assert installed.files_named("wcache") == []


def test_an_applied_change_keeps_the_package_until_it_is_rolled_back(installed, drive):
    program(installed, JOURNAL, "action", "p1-a1", drive)
    line = refusal(installed, "remove")
    assert "applied change (p1-a1)" in line
    assert "restore --action" in line
    assert state(installed) == "installed"
    installed.type("wcache-probe restore --action p1-a1")
    installed.type("apt-get purge -y wcache-probe")
    assert installed.files_named("wcache") == []


@pytest.mark.long
def test_a_persisted_rule_keeps_the_package_until_it_is_gone(installed):
    program(installed, PERSISTED)
    assert "udev rule" in refusal(installed, "remove")
    installed.type(f"rm {RULES}/85-wcache-*.rules")
    installed.type("apt-get remove -y wcache-probe")


@pytest.mark.long
def test_told_to_leave_it_the_package_goes_and_what_was_applied_stays(installed, drive):
    program(installed, JOURNAL, "action", "p1-a1", drive)
    program(installed, PERSISTED)
    installed.write(BOOT_RULE, program(installed, PREPARED))
    installed.type("mkdir -p /etc/wcache && touch /etc/wcache/leave")
    said = installed.type("apt-get purge -y wcache-probe")
    assert "as /etc/wcache/leave says" in said
    left = installed.files_named("wcache")
    assert BOOT_RULE in left
    assert [path for path in left if "85-wcache-" in path]
    # who installs it again can still go back
    installed.type("apt-get install -y ./wcache-probe_*.deb")
    assert "p1-a1" in installed.type("wcache-probe status")


@pytest.mark.long
def test_told_to_leave_it_once_the_next_removal_is_refused_again(installed, drive):
    installed.type("mkdir -p /etc/wcache && touch /etc/wcache/leave")
    installed.type("apt-get remove -y wcache-probe")
    installed.type("apt-get install -y ./wcache-probe_*.deb")
    program(installed, JOURNAL, "action", "p1-a1", drive)
    assert "restore --action" in refusal(installed, "remove")


def test_a_removal_leaves_the_boot_rule_and_a_purge_takes_it_back(installed):
    installed.write(BOOT_RULE, program(installed, PREPARED))
    installed.type("apt-get remove -y wcache-probe")
    assert BOOT_RULE in installed.files_named("wcache"), "it needs no program"
    assert "unprepare --gone" in refusal(installed, "purge"), "its drive is not here now"
    installed.type("python3 /var/lib/wcache/wcache-probe.for-purge unprepare --gone")
    installed.type("apt-get purge -y wcache-probe")
    assert installed.files_named("wcache") == []


@pytest.mark.long
def test_a_purge_waits_as_long_as_a_drive_needs_the_boot_rule(installed, drive):
    installed.write(BOOT_RULE, program(installed, PREPARED))
    installed.type("apt-get remove -y wcache-probe")
    # a probe from elsewhere, in a container, uses the same journal
    installed.write("/root/piece.py", JOURNAL)
    installed.type(
        "PYTHONPATH=/var/lib/wcache/wcache-probe.for-purge python3 -B /root/piece.py action p2-a1 "
        + drive
    )
    assert "applied change (p2-a1)" in refusal(installed, "purge")
    assert BOOT_RULE in installed.files_named("wcache")
    assert state(installed) == "config-files"


@pytest.mark.long
@pytest.mark.parametrize("consent", [False, True])
def test_prepare_is_run_at_the_installation_by_consent_only(host, debs, consent):
    host.copy(list(debs.values()))
    if consent:
        host.type("mkdir -p /etc/wcache && touch /etc/wcache/prepare")
    said = host.type("apt-get install -y ./wcache-probe_*.deb")
    assert ("prepare" in said) is consent


@pytest.mark.long
def test_an_upgrade_keeps_journal_and_boot_rule(installed, newer_debs, drive):
    program(installed, JOURNAL, "action", "p1-a1", drive)
    installed.write(BOOT_RULE, program(installed, PREPARED))
    installed.copy(list(newer_debs.values()))
    installed.type("apt-get install -y ./wcache-probe_*.deb")
    assert "p1-a1" in installed.type("wcache-probe status")
    assert BOOT_RULE in installed.files_named("wcache")
    assert "+next" in installed.type("dpkg-query -W wcache-probe")
