"""`accept` by hand, beside a probe that runs."""

from process_bench import holding
from wcache_probe.journal.journal_file import StateFolder
from wcache_probe.main import main


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
