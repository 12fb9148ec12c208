"""The state folder: durable entries, hostile ones, one probe at a time."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from process_bench import holding
from wcache.core.errors import ConflictError, StorageError
from wcache_probe.journal.journal_file import ENTRIES_MAX, LeaseMarker, StateFolder
from wcache_probe.switcher import read_journal


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    return StateFolder(str(tmp_path / "state"), str(tmp_path / "run"))


def marked(state: StateFolder) -> list:
    """The domains that a rule of udev takes for leased."""
    marker = LeaseMarker(str(Path(state.path).parent / "run"))
    return [domain for domain in ("d1", "d2") if marker.covers(domain)]


def test_an_entry_is_there_for_a_new_process_and_gone_when_removed(state, tmp_path):
    state.journal.write("lease/wwn-1", '{"a": 1}')
    again = StateFolder(str(tmp_path / "state"), str(tmp_path / "run"))
    assert again.journal.read() == {"lease/wwn-1": '{"a": 1}'}
    again.journal.remove("lease/wwn-1")
    assert state.journal.read() == {}
    state.journal.remove("lease/wwn-1")


@pytest.mark.slow
@given(key=st.text(max_size=20), text=st.text(max_size=50))
def test_any_key_and_text_come_back_and_stay_in_the_folder(tmp_path_factory, key, text):
    root = tmp_path_factory.mktemp("journal")
    state = StateFolder(str(root / "state"), str(root / "run"))
    try:
        state.journal.write(key, text)
    except (StorageError, UnicodeEncodeError):
        return
    assert state.journal.read() == {key: text}
    assert sorted(os.listdir(root)) in (["state"], ["run", "state"])


def test_a_key_too_long_for_a_file_name_is_refused_in_one_line(state):
    with pytest.raises(StorageError, match="too long"):
        state.journal.write("lease/" + "x" * 300, "{}")
    assert state.journal.read() == {}


def test_a_crash_in_the_middle_of_writing_leaves_the_old_entry(state):
    state.journal.write("lease/d", "old")
    folder = Path(state.path) / "journal"
    (folder / "lease%2Fd.json.new").write_text("half of the n")
    assert state.journal.read() == {"lease/d": "old"}


def test_hostile_entries_are_named_and_left_and_hide_no_sound_one(state):
    folder = Path(state.path) / "journal"
    (folder / "binary.json").write_bytes(b"\xff\x00\xfe")
    (folder / "huge.json").write_text("[" * 400_000)
    (folder / "folder.json").mkdir()
    (folder / "link.json").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe.json")
    (folder / "lease%2Fd.json").write_text('{"version": 99}')
    (folder / "new%0Aline.json").write_text("{}")
    (folder / "no-entry.txt").write_text("x")
    sound, damaged = read_journal(state.journal)
    assert sound == {}
    assert set(damaged) == {"binary", "huge", "folder", "link", "pipe", "lease/d", "new\nline"}
    for line in damaged.values():
        assert "\n" not in line
        assert "root:" not in line
    assert len(list(folder.iterdir())) == 8


def test_an_entry_that_is_a_link_or_a_pipe_is_not_followed_whatever_it_would_say(state, tmp_path):
    folder = Path(state.path) / "journal"
    (tmp_path / "elsewhere").write_text("a sound entry")
    (folder / "lease%2Fd1.json").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(folder / "lease%2Fd2.json")
    reader = os.open(folder / "lease%2Fd2.json", os.O_RDWR | os.O_NONBLOCK)
    os.write(reader, b"a sound entry")
    assert state.journal.read() == {"lease/d1": "", "lease/d2": ""}
    assert os.read(reader, 100) == b"a sound entry", "it was opened and read"
    os.close(reader)


def test_a_mark_is_there_before_its_entry_and_until_that_is_gone_for_good(tmp_path):
    seen = []

    def note(_fd):
        there = os.path.exists(tmp_path / "state/journal/lease%2Fd1.json")
        seen.append((there, marked(state) if state else []))

    state = None
    state = StateFolder(str(tmp_path / "state"), str(tmp_path / "run"), sync=note)
    seen.clear()
    state.journal.write("lease/d1", "{}")
    state.journal.remove("lease/d1")
    # file and folder when it is written, the folder when it is gone
    assert seen == [(False, ["d1"]), (True, ["d1"]), (False, ["d1"])]
    assert marked(state) == []


def test_a_domain_is_marked_as_long_as_there_is_an_entry_of_its_lease(state):
    state.journal.write("action/d1", "{}")
    assert marked(state) == []
    state.journal.write("lease/d1", "{}")
    state.journal.write("lease/d2", "{}")
    state.journal.remove("lease/d1")
    assert marked(state) == ["d2"]
    state.journal.remove("lease/d2")
    assert marked(state) == []


def test_the_mark_goes_though_the_first_attempt_to_remove_its_entry_broke_off(state):
    state.journal.write("lease/d1", "{}")
    os.unlink(Path(state.path) / "journal" / "lease%2Fd1.json")
    state.journal.remove("lease/d1")
    assert marked(state) == []


def test_a_boot_that_emptied_run_gets_its_marks_back_and_old_ones_go(state):
    state.journal.write("lease/d1", "{}")
    shutil.rmtree(Path(state.path).parent / "run")
    state.journal.sync_marks()
    assert marked(state) == ["d1"]
    os.unlink(Path(state.path) / "journal" / "lease%2Fd1.json")
    state.journal.sync_marks()
    assert marked(state) == []


@pytest.mark.parametrize("later", [{}, {"mode": "of later"}, {"transport": "of later"}])
def test_the_mark_of_a_lease_of_another_version_names_its_drives_too(state, tmp_path, later):
    """What other probes and rules go by; of the entry nothing else may be understood here."""
    drive = {"drive_id": "wwn-7", "dev_name": "sda", "transport": "scsi", **later}
    state.journal.write("lease/d1", json.dumps({
        "version": 99, "kind": "lease", "owner_id": "r1", "domain_id": "d1", "drives": [drive],
    }))
    other = StateFolder(str(tmp_path / "other"), str(tmp_path / "run"))
    assert other.journal.held_elsewhere("of another name", {"wwn-7"})
    assert not other.journal.held_elsewhere("of another name", {"wwn-8"})


def test_another_state_folder_takes_no_mark_of_ours_away(state, tmp_path):
    state.journal.write("lease/d1", "{}")
    other = StateFolder(str(tmp_path / "other"), str(tmp_path / "run"))
    other.journal.sync_marks()
    other.journal.write("lease/d1", "{}")
    other.journal.remove("lease/d1")
    assert marked(state) == ["d1"]


@pytest.mark.slow
def test_a_full_journal_takes_no_new_entry_and_is_read_and_emptied_as_before(state):
    folder = Path(state.path) / "journal"
    for number in range(ENTRIES_MAX):
        (folder / f"action%2Fa{number}.json").write_text("{}")
    with pytest.raises(StorageError, match="is full: it has 4096 entries") as refused:
        state.journal.write("lease/d1", "{}")
    assert "wcache-probe status" in refused.value.advice
    assert marked(state) == []
    state.journal.write("action/a7", '{"again": 1}')
    assert len(state.journal.read()) == ENTRIES_MAX
    state.journal.sync_marks()
    state.journal.remove("action/a7")
    state.journal.write("lease/d1", "{}")
    assert marked(state) == ["d1"]


@pytest.mark.slow
def test_an_older_journal_with_more_than_it_may_have_is_read(state):
    folder = Path(state.path) / "journal"
    for number in range(ENTRIES_MAX + 2):
        (folder / f"action%2Fa{number}.json").write_text("{}")
    assert len(read_journal(state.journal)[1]) == ENTRIES_MAX + 2


def test_the_mark_of_another_journal_is_named_for_its_own_domain_alone(state, tmp_path):
    other = StateFolder(str(tmp_path / "other"), str(tmp_path / "run"))
    other.journal.write("lease/d1", "{}")
    state.journal.write("lease/d2", "{}")
    other.journal.write("action/d3", "{}")
    (mark,) = state.journal.marks.of_others()
    assert state.journal.held_elsewhere("d1", set()) == mark
    for domain in ("d2", "d3", "1"):
        assert state.journal.held_elsewhere(domain, {"another"}) == ""
    assert other.journal.held_elsewhere("d2", set())


def test_a_state_folder_is_on_stable_storage_with_all_that_was_made_above_it(tmp_path):
    synced = []
    StateFolder(
        str(tmp_path / "var/lib/wcache"), str(tmp_path / "run"),
        sync=lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")),
    )
    made = [tmp_path, tmp_path / "var", tmp_path / "var/lib", tmp_path / "var/lib/wcache"]
    assert synced == [str(path) for path in made]


def test_folders_that_were_there_are_synced_before_the_first_entry_and_not_sooner(tmp_path):
    """Who made them may have been killed before that; and an fsync may take a minute."""
    synced = []
    StateFolder(str(tmp_path / "lib/wcache"), str(tmp_path / "run"), sync=lambda fd: None)
    journal = StateFolder(
        str(tmp_path / "lib/wcache"), str(tmp_path / "run"),
        sync=lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")),
    ).journal
    journal.remove("action/a")
    assert synced == [str(tmp_path / "lib/wcache/journal")]
    synced.clear()
    journal.write("action/a", "{}")
    first = [str(tmp_path / "lib"), str(tmp_path / "lib/wcache")]
    assert synced[:2] == first
    synced.clear()
    journal.write("action/b", "{}")
    assert not set(first) & set(synced)


def test_a_journal_without_its_marker_is_not_written(state, tmp_path):
    (tmp_path / "run").write_text("a file where a folder should be")
    with pytest.raises(StorageError, match="lease"):
        state.journal.write("lease/d1", "{}")
    assert state.journal.read() == {}


def test_a_folder_that_others_may_write_to_is_refused(tmp_path):
    folder = tmp_path / "state"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(StorageError, match="others may write"):
        StateFolder(str(folder), str(tmp_path / "run"))


def test_the_folder_and_its_entries_are_for_the_owner_alone(state):
    state.journal.write("lease/d", "{}")
    for path in (Path(state.path), Path(state.path) / "journal" / "lease%2Fd.json"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


def test_the_probe_id_stays_and_a_damaged_one_is_made_anew(state, tmp_path):
    first = state.probe_id()
    assert StateFolder(state.path, str(tmp_path / "run")).probe_id() == first
    (Path(state.path) / "probe_id").write_text("../../etc")
    assert len(state.probe_id()) == 32
    assert state.probe_id() != first


def test_a_second_probe_on_one_folder_is_refused_with_the_pid_of_the_first(state, tmp_path):
    with holding(state.path, tmp_path / "run") as child:
        assert state.holder() == child.pid
        with pytest.raises(ConflictError, match=rf"pid {child.pid}"):
            state.lock()
    assert state.holder() == 0
    state.lock()
    assert state.holder() == os.getpid()


def given_to_ceph(parent):
    os.chown(parent, 167, 167)


def open_to_a_group(parent):
    os.chown(parent, 0, 50)
    parent.chmod(0o2775)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")
@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize("how", [given_to_ceph, open_to_a_group])
def test_below_a_parent_of_others_what_was_begun_is_finished_and_nothing_new_is_begun(
    tmp_path, capsys, how, running
):
    parent = tmp_path / "parent"
    parent.mkdir()
    path, run_dir = str(parent / "state"), str(tmp_path / "run")
    state = StateFolder(path, run_dir)
    state.journal.write("lease/d1", '{"a": 1}')
    state.journal.write("action/p1", '{"a": 2}')
    probe_id = state.probe_id()
    how(parent)
    if not running:
        state = StateFolder(path, run_dir)
        warned = capsys.readouterr().err
        assert f"{parent} " in warned.replace(":", " ")
        assert "chown root" in warned
    state.lock()
    assert state.probe_id() == probe_id
    assert state.journal.read() == {"lease/d1": '{"a": 1}', "action/p1": '{"a": 2}'}
    with pytest.raises(StorageError, match=r"nothing is begun in .*parent"):
        state.journal.write("lease/d2", "{}")
    state.journal.write("lease/d1", '{"a": 3}')
    state.journal.remove("action/p1")
    assert state.journal.read() == {"lease/d1": '{"a": 3}'}
    os.rename(path, f"{path}.moved")
    shutil.copytree(f"{path}.moved", path)
    (Path(path) / "journal/lease%2Fd1.json").write_text("forged")
    assert state.journal.read() == {"lease/d1": '{"a": 3}'}
    os.chown(parent, 0, 0)
    parent.chmod(0o755)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")
def test_no_journal_is_made_below_a_parent_of_others(tmp_path):
    parent = tmp_path / "parent"
    parent.mkdir()
    given_to_ceph(parent)
    with pytest.raises(StorageError, match="parent belongs to another user"):
        StateFolder(str(parent / "state"), str(tmp_path / "run"))
    assert list(parent.iterdir()) == []


def test_an_entry_that_could_not_be_written_leaves_no_mark(tmp_path):
    full = []

    def sync(fd):
        if full:
            raise OSError(errno.ENOSPC, "No space left on device")
        os.fsync(fd)

    state = StateFolder(str(tmp_path / "state"), str(tmp_path / "run"), sync)
    state.journal.write("lease/d2", "{}")
    full.append(1)
    for domain in ("d1", "d2"):
        with pytest.raises(StorageError, match="No space left"):
            state.journal.write(f"lease/{domain}", '{"new": 1}')
    assert set(state.journal.read()) == {"lease/d2"}
    assert marked(state) == ["d2"], "what is leased stays so"
