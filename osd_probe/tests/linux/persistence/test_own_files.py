"""What keeps a drive safe over a boot is on stable storage before anything says that it is."""

from __future__ import annotations

import os
import stat
import sys

import pytest
from wcache.core.model import CacheMode
from wcache_probe.linux.persistence.preparation import RULES_FOLDER, BootRecord, Preparation
from wcache_probe.linux.persistence.prepare import Chosen, Preparer
from wcache_probe.linux.persistence.udev_rule import RuleFolder

WWID = "naa.5000c50000000001"


def calls_of(act):
    """Which of these the kernel is asked for, in order."""
    calls = []

    def note(frame, event, function):
        if event == "c_call" and function in (os.rename, os.unlink):
            calls.append(function.__name__)
        if event == "c_call" and function is os.fsync:
            calls.append(f"sync {kind_of(frame.f_locals.get('fd', -1))}")

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return calls


def kind_of(fd):
    try:
        return "file" if stat.S_ISREG(os.fstat(fd).st_mode) else "folder"
    except OSError:  # the file's is closed by then
        return "folder"


def boot_rule(root):
    preparer = Preparer(Preparation(root, f"{root}/state"), lambda _line: None)
    preparer.reload_udev = lambda: ""
    return lambda: preparer.write_rule(Chosen((WWID,)))


def record(root):
    return lambda: Preparation(root, f"{root}/state").write_record(BootRecord(3, "a" * 64))


def drives_rule(root):
    folder = RuleFolder(f"{root}/{RULES_FOLDER}", command="/usr/bin/wcache-probe")
    return lambda: folder.write(WWID, CacheMode.WRITE_THROUGH)


@pytest.mark.parametrize("write", [boot_rule, record, drives_rule])
def test_a_file_is_synced_before_it_has_its_name_and_so_is_the_name(tmp_path, write):
    os.makedirs(tmp_path / RULES_FOLDER)
    os.makedirs(tmp_path / "state")
    calls = calls_of(write(str(tmp_path)))
    assert calls[-3:] == ["sync file", "rename", "sync folder"]


def test_rules_and_records_go_for_good(tmp_path):
    root = str(tmp_path)
    boot_rule(root)()
    record(root)()
    preparer = Preparer(Preparation(root, f"{root}/state"), lambda _line: None)
    assert calls_of(preparer.remove_rule) == ["unlink", "sync folder", "unlink", "sync folder"]
    drives_rule(root)()
    folder = RuleFolder(f"{root}/{RULES_FOLDER}", command="")
    assert calls_of(lambda: folder.remove(WWID)) == ["unlink", "sync folder"]
