"""What is left of the journal after a power cut: all that a write or a removal promised.

`Disk` stands in for fsync(2) alone.  It keeps what a power cut leaves: of a file what it
held when it was synced, of a folder the names that it had then.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import Dict, List

import pytest
from wcache.core.errors import StorageError
from wcache_probe.journal.journal_file import StateFolder

KEY, NAME = "lease/d", "lease%2Fd.json"


class Disk:
    """Stable storage: what is not synced here is lost in a power cut."""

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        self._contents: Dict[int, str] = {}
        self._names: Dict[str, int] = {}
        self._held: List[int] = []  # so that no inode that was synced is used again
        self.at_each_sync: List[Dict[str, str]] = []

    def sync(self, fd: int) -> None:
        """In place of os.fsync."""
        self._note()
        found = os.fstat(fd)
        if stat.S_ISDIR(found.st_mode):
            if os.path.samestat(found, os.stat(self._journal)):
                self._names = self._names_now()
        else:
            self._held.append(os.dup(fd))
            self._contents[found.st_ino] = Path(f"/proc/self/fd/{fd}").read_text()
        self._note()

    def after_power_cut(self) -> Dict[str, str]:
        """Names and contents of the journal if the power went now and only syncs counted."""
        return self._with(self._names)

    def _note(self) -> None:
        # a kernel may also have written the folder, and not the files, by itself
        self.at_each_sync += [self._with(self._names), self._with(self._names_now())]

    def _names_now(self) -> Dict[str, int]:
        return {item.name: item.inode() for item in os.scandir(self._journal)}

    def _with(self, names: Dict[str, int]) -> Dict[str, str]:
        return {
            name: self._contents.get(inode, "")
            for name, inode in names.items() if name.endswith(".json")
        }

    def close(self) -> None:
        for fd in self._held:
            os.close(fd)


@pytest.fixture
def disk(tmp_path):
    disk = Disk(tmp_path / "state" / "journal")
    yield disk
    disk.close()


@pytest.fixture
def journal(tmp_path, disk):
    (tmp_path / "state" / "journal").mkdir(parents=True, mode=0o700)
    return StateFolder(str(tmp_path / "state"), str(tmp_path / "run"), sync=disk.sync).journal


def test_what_was_written_replaced_or_removed_is_so_after_a_power_cut(journal, disk):
    journal.write(KEY, "old")
    assert disk.after_power_cut() == {NAME: "old"}
    journal.write(KEY, "new")
    assert disk.after_power_cut() == {NAME: "new"}
    journal.write("action/a", "another")
    journal.remove(KEY)
    assert disk.after_power_cut() == {"action%2Fa.json": "another"}


def test_a_power_cut_in_the_middle_leaves_an_entry_whole_or_not_at_all(journal, disk):
    journal.write(KEY, "old")
    assert [left for left in disk.at_each_sync if left not in ({}, {NAME: "old"})] == []
    disk.at_each_sync.clear()
    journal.write(KEY, "new")
    assert {left[NAME] for left in disk.at_each_sync} == {"old", "new"}


def test_an_entry_that_cannot_be_synced_is_an_error_and_not_a_promise(tmp_path):
    def fails(fd: int) -> None:
        raise OSError(5, "Input/output error")

    with pytest.raises(StorageError, match="Input/output error"):
        StateFolder(str(tmp_path / "state"), str(tmp_path / "run"), sync=fails)
    failing = False
    state = StateFolder(
        str(tmp_path / "state"), str(tmp_path / "run"),
        sync=lambda fd: fails(fd) if failing else None,
    )
    failing = True
    with pytest.raises(StorageError, match="Input/output error"):
        state.journal.write(KEY, "prior state")


def test_without_a_stand_in_the_kernel_is_asked_to_sync_file_and_folder(tmp_path):
    journal = StateFolder(str(tmp_path / "state"), str(tmp_path / "run")).journal
    calls = []

    def note(frame, event, function):
        if event == "c_call" and function in (os.fsync, os.rename, os.unlink):
            calls.append(function)

    sys.setprofile(note)
    try:
        journal.write("action/a", "prior state")
        journal.remove("action/a")
    finally:
        sys.setprofile(None)
    assert calls[:5] == [os.fsync, os.rename, os.fsync, os.unlink, os.fsync]
