"""`accept` by hand, beside a probe that runs."""

import pytest
from mgr_fakes import builders as make
from process_bench import holding
from wcache.core.drive.journal import (
    JOURNAL_VERSION,
    EntryKind,
    JournalEntry,
    encode,
    prior_of,
)
from wcache_probe.journal.journal_file import StateFolder
from wcache_probe.main import main


@pytest.mark.parametrize("named", ["domain-sda", "lease/domain-sda"])
def test_what_is_owed_to_other_domains_stays(tmp_path, capsys, named):
    folders = ["--state-dir", str(tmp_path / "state"), "--run-dir", str(tmp_path / "run")]
    journal = StateFolder(folders[1], folders[3]).journal
    for name in ("sda", "sdb", "sdc"):
        drives = prior_of((make.drive(name, 0),))
        entry = JournalEntry(
            JOURNAL_VERSION, EntryKind.LEASE, f"l-{name}", f"domain-{name}", drives, 0.0
        )
        journal.write(entry.key, encode(entry))
    journal.write("lease/domain-sdd", "{ half an entry")
    others = ["lease/domain-sdb", "lease/domain-sdc", "lease/domain-sdd"]
    assert main(["accept", *folders, named]) == 1
    assert len(journal.read()) == 4
    assert main(["accept", *folders, "--yes", named]) == 0
    assert sorted(journal.read()) == others
    told = capsys.readouterr().out
    assert "sda" in told
    assert "sdb" not in told
    assert main(["accept", *folders, "--yes", "lease/domain-sdd"]) == 0
    assert sorted(journal.read()) == others[:2]


@pytest.mark.parametrize(("text", "said"), [
    ('{"version": 99}', f"p1 is of version 99, and {JOURNAL_VERSION} is known here: update this"),
    ('{"version": 1}', f"p1 is of version 1, and {JOURNAL_VERSION} is known here: update this"),
    ("{", "p1 is damaged"), ("{}", "p1 cannot be read (it has no version"),
])
def test_no_admin_is_told_to_give_up_what_another_version_can_bring_back(
    tmp_path, capsys, text, said
):
    folders = ["--state-dir", str(tmp_path / "state"), "--run-dir", str(tmp_path / "run")]
    journal = StateFolder(folders[1], folders[3]).journal
    journal.write("action/p1", text)
    assert main(["status", *folders]) == 1
    told = capsys.readouterr().out
    assert f"cannot be read: journal entry action/{said}" in told
    assert main(["restore", *folders, "--action", "p1"]) == 2
    told += capsys.readouterr().err
    assert said in told
    known = "version" not in said or "no version" in said
    assert ("wcache-probe accept action/p1" in told) is known
    assert ("damaged" in told) is (text == "{")
    assert journal.read() == {"action/p1": text}


def test_nothing_is_given_up_behind_the_back_of_a_running_probe(tmp_path, capsys):
    """It holds leases by what its journal says, and would take their drives for free."""
    folders = ["--state-dir", str(tmp_path / "state"), "--run-dir", str(tmp_path / "run")]
    journal = StateFolder(folders[1], folders[3]).journal
    journal.write("lease/d", "{}")
    with holding(folders[1], folders[3]) as probe:
        assert main(["accept", *folders, "--yes", "lease/d"]) == 2
        assert f"pid {probe.pid}" in capsys.readouterr().err
        assert list(journal.read()) == ["lease/d"]
    assert main(["accept", *folders, "--yes", "lease/d"]) == 0
    assert journal.read() == {}
