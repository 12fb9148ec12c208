"""What a matrix finds before its lock may have gone when it has it: it is looked at again."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from prepare_bench import Bank, host_of, preparation, prepare
from wcache.core.errors import RefusedError
from wcache_probe.journal.journal_file import StateFolder
from wcache_probe.linux.persistence.prepare import Preparer
from wcache_probe.matrix.measurement import MatrixMeasurement, Plan
from wcache_probe.switcher import Switcher


class BlankScratch:
    """Scratch space that nothing is written to."""

    is_loop = whole = False

    def __init__(self, drive):
        self.drive = drive
        self.device = SimpleNamespace(name=drive.dev_name)

    @contextmanager
    def held(self):
        yield

    def claim(self):
        pass


def test_a_drive_that_was_looked_at_before_unprepare_is_not_toggled_after_it(fake_host, tmp_path):
    bank = Bank()
    host = host_of(fake_host, bank=bank)
    prepare(fake_host, host)
    journal = StateFolder(str(tmp_path / "var"), str(tmp_path / "run")).journal

    @contextmanager
    def unprepared_first(_domain_id):
        Preparer(preparation(fake_host), lambda line: None).remove_rule()
        yield

    (drive,) = host.look()
    measurement = MatrixMeasurement(
        host=host, switcher=Switcher(host, journal, lock=unprepared_first),
        scratch=BlankScratch(drive), plan=Plan("matrix.1", "h", 4, 0.1, 1, False),
        stop=SimpleNamespace(wait=lambda s: None, is_set=lambda: False),
        say=lambda line: None, fio_path=None,
    )
    with pytest.raises(RefusedError, match="boot rule does not name it"):
        measurement.run()
    assert bank.drives["sda"].current[2] & 4, "its cache is on as before"
    assert journal.read() == {}
