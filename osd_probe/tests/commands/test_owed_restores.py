"""What measures by itself touches no drive while the journal has a prior state to restore."""

import pytest
from mgr_fakes import builders as make
from wcache.core.drive.journal import EntryKind, JournalEntry, encode, prior_of
from wcache_probe.journal.journal_file import StateFolder
from wcache_probe.main import main

COMMANDS = {
    "bench": ["bench", "--consent"], "matrix": ["matrix", "--scratch"],
    "prove": ["prove", "--consent"],
}
LEASE = JournalEntry(2, EntryKind.LEASE, "l", "d1", prior_of([make.drive("sda", 0)]), 0.0)
JOURNALS = {
    "owed": (LEASE.key, encode(LEASE), "(d1)"),
    "damaged": ("action/a1", "{", "(action/a1)"),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("journal", JOURNALS)
def test_nothing_is_begun_while_a_prior_state_is_to_be_restored(
    tmp_path, capsys, command, journal
):
    """It is refused before anything is looked at: there is not even such a device."""
    key, text, named = JOURNALS[journal]
    folders = [str(tmp_path / "state"), str(tmp_path / "run")]
    kept = StateFolder(*folders).journal
    kept.write(key, text)
    words = [*COMMANDS[command], "/dev/none", "--state-dir", folders[0], "--run-dir", folders[1]]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert f"the journal has prior states to restore {named}" in said
    assert "`wcache-probe restore --all` first" in said
    assert kept.read() == {key: text}
