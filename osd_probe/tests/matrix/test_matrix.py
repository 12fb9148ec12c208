"""`wcache-probe matrix` on a real loop device: measures, spares what is not blank, restores."""

import json
import os
import signal

import pytest
from loop_devices import loop_on
from matrix_bench import Bench
from wcache.core.errors import MalformedError, NotReadyError, RefusedError, StorageError
from wcache.core.experiment.matrix import CELLS
from wcache_probe.linux.block.host_files import HostFiles
from wcache_probe.linux.host import LinuxDriveHost
from wcache_probe.matrix import cells
from wcache_probe.matrix.command import result_file
from wcache_probe.matrix.scratch import MARK, MIB, find
from wcache_probe.stop_signal import StopSignal

SIZE_BYTES = 24 * MIB
LONG = ("--pairs", "40")


@pytest.fixture
def bench(tmp_path):
    with loop_on(tmp_path / "scratch.img", SIZE_BYTES) as name:
        yield Bench(tmp_path, name)


def refused_as_not_blank(bench):
    before = bench.content()
    code, _, error = bench.run()
    assert code == 2
    assert "is not blank" in error
    assert bench.content() == before
    assert bench.view == "write back"
    assert not bench.out.exists()


@pytest.mark.slow
@pytest.mark.parametrize("place", [0, 5 * MIB + 3, SIZE_BYTES - 1])
def test_what_is_not_blank_is_neither_written_nor_toggled(bench, place):
    with open(bench.path, "r+b") as device:
        device.seek(place)
        device.write(b"x")
    refused_as_not_blank(bench)


@pytest.mark.slow
def test_a_long_run_measures_both_modes_and_puts_back_what_was(bench):
    code, out, error = bench.run("--long", "5")
    assert code == 0, error
    assert "FIRST writes/s" in out
    assert len(json.loads(bench.out.read_text())["cells"]) == 2
    assert bench.view == "write back"


@pytest.mark.slow
def test_a_small_device_is_refused_for_pieces_over_all_of_it(bench):
    code, _, error = bench.run("--span")
    assert code == 2
    assert "too small for --span" in error
    assert not any(bench.content())


def test_pieces_lie_over_the_whole_device_and_never_on_each_other(tmp_path):
    with loop_on(tmp_path / "large.img", 2048 * MIB) as name:
        scratch = find(HostFiles(), LinuxDriveHost(), f"/dev/{name}", whole=True)
        offsets = [scratch.offset_of(block) for block in range(scratch.span // 4096)]
    assert len(set(offsets)) == len(offsets)
    assert all(b - a >= 4096 for a, b in zip(offsets, offsets[1:]))
    assert offsets[0] == MIB
    assert 2000 * MIB < offsets[-1] < 2047 * MIB


@pytest.mark.slow
@pytest.mark.parametrize("place", [446, 1080, 4086, MIB - 1])
def test_a_mark_is_none_where_something_was_written_beside_it(bench, place):
    with open(bench.path, "r+b") as device:
        device.write(MARK)
        device.seek(place)  # an MBR's table, ext4's magic, swap's
        device.write(b"x")
    refused_as_not_blank(bench)


@pytest.mark.slow
def test_what_somebody_else_has_claimed_is_refused(bench):
    fd = os.open(bench.path, os.O_RDONLY | os.O_EXCL)
    try:
        code, _, error = bench.run()
    finally:
        os.close(fd)
    assert code == 2
    assert "is in use" in error


@pytest.mark.slow
def test_a_device_whose_drive_has_another_user_is_refused_with_nothing_written(bench):
    with open(bench.path, "r+b", buffering=0):
        before = bench.content()
        code, _, error = bench.run()
    assert code == 2
    assert "open for writing" in error
    assert "nothing was written" in error
    assert bench.content() == before


@pytest.mark.slow
def test_the_device_of_an_osd_is_refused_although_nobody_holds_it(bench):
    folder = bench.root / "osds" / "osd7"
    folder.mkdir(parents=True)
    (folder / "whoami").write_text("7\n")
    (folder / "ceph_fsid").write_text("11111111-2222-3333-4444-555555555555\n")
    (folder / "block").symlink_to(bench.path)
    code, _, error = bench.run()
    assert code == 2
    assert "belongs to osd.7" in error


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["not there", "scratch.img", "x" * 300])
def test_a_file_that_cannot_be_made_is_refused_before_anything_is_written(bench, folder):
    before = bench.content()
    code, _, error = bench.run("--out", str(bench.root / folder / "x.json"))
    assert code == 2
    assert "nothing was measured" in error
    assert len(error.splitlines()) <= 2
    assert bench.content() == before


@pytest.mark.slow
def test_a_file_that_is_there_is_not_replaced(bench):
    bench.out.write_text("mine")
    code, _, error = bench.run()
    assert code == 2
    assert "give another --out" in error
    assert bench.out.read_text() == "mine"


def test_a_result_has_its_name_only_when_it_is_whole(tmp_path):
    path = tmp_path / "x.json"
    with result_file(str(path)) as put:
        assert not path.exists()
        put("text")
    assert path.read_text() == "text\n"
    assert list(tmp_path.iterdir()) == [path]


def test_of_a_measuring_that_failed_nothing_is_left(tmp_path):
    with pytest.raises(NotReadyError), result_file(str(tmp_path / "x.json")):
        raise NotReadyError("stopped")
    assert list(tmp_path.iterdir()) == []


def test_a_result_whose_name_was_taken_meanwhile_is_kept_and_told(tmp_path):
    path = tmp_path / "x.json"
    with result_file(str(path)) as put:
        path.write_text("mine")
        with pytest.raises(StorageError) as raised:
            put("text")
    assert path.read_text() == "mine"
    (kept,) = (other for other in tmp_path.iterdir() if other != path)
    assert kept.read_text() == "text\n"
    assert f"the result is in {kept}" in raised.value.message


@pytest.mark.slow
@pytest.mark.parametrize("how", ["held", "claim", "check"])
def test_a_path_that_leads_to_another_device_since_is_neither_held_nor_written(
    bench, scratch, tmp_path, how
):
    """A name of the kernel goes to the next device once its own one has gone."""
    with loop_on(tmp_path / "another.img", SIZE_BYTES) as name:
        scratch.path = f"/dev/{name}"
        with pytest.raises(RefusedError, match=f"{name} is another device now"):
            scratch.held().__enter__() if how == "held" else getattr(scratch, how)()
        assert not any((tmp_path / "another.img").read_bytes())


@pytest.mark.slow
def test_a_device_that_is_being_measured_can_be_claimed_by_nobody_else(bench):
    process = bench.start(*LONG)
    bench.reach(process, "write through")
    with pytest.raises(OSError, match="busy"):  # as an OSD opens it
        os.open(bench.path, os.O_RDWR | os.O_EXCL)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert bench.view == "write back"


@pytest.mark.slow
def test_a_device_that_somebody_takes_meanwhile_is_written_to_no_more(bench):
    process = bench.start(*LONG)
    bench.reach(process, "write through")
    with open(bench.path, "r+b", buffering=0) as device:
        device.write(b"bluestore block device\n".ljust(4096, b"x"))
    out, error = process.communicate(timeout=60)
    assert process.returncode in (1, 2)  # 1 where a pair was whole by then
    assert "something else wrote to" in out + error
    assert bench.view == "write back"


@pytest.mark.slow
def test_status_tells_a_matrix_under_way_from_a_probe_and_from_a_lease(bench):
    process = bench.start(*LONG)
    bench.reach(process, "write through")
    text, plain = bench.status(), json.loads(bench.status("--format", "json"))
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert f"probe:  not running\nmatrix: running with pid {process.pid}\n" in text
    why, name = text.splitlines()[-1].split()[:2]
    assert (why, name.partition(".")[0]) == ("matrix", "matrix")
    assert (plain["program"], plain["pid"]) == ("matrix", process.pid)
    after = bench.status()
    assert "probe:  not running\n" in after
    assert "matrix:" not in after


@pytest.mark.slow
def test_after_kill_9_restore_brings_the_mode_back_and_the_marked_device_is_taken_again(bench):
    process = bench.start(*LONG)
    bench.reach(process, "write through")
    process.kill()
    process.communicate(timeout=20)
    assert bench.view == "write through"
    code, _, error = bench.run()
    assert code == 2
    assert "restore --all" in error
    assert bench.restore().returncode == 0
    assert bench.view == "write back"
    again = bench.start(*LONG)
    bench.reach(again, "write through")
    again.send_signal(signal.SIGTERM)
    again.communicate(timeout=60)
    assert bench.view == "write back"
    assert bench.restore().stdout == "nothing to restore\n"


@pytest.fixture
def scratch(bench):
    return find(HostFiles(), LinuxDriveHost(osd_data_globs=[]), bench.path)


DEEP = next(cell for cell in CELLS if cell.depth > 1)


@pytest.mark.parametrize(("said", "error", "why"), [
    ("exit 3", NotReadyError, "fio failed with exit code 3"),
    ("echo 'no such option' >&2; exit 1", NotReadyError, "no such option"),
    ("echo nothing", MalformedError, "not JSON"),
    ("echo '{\"jobs\": []}'", MalformedError, "lacks its number of writes"),
    ("echo '{\"jobs\": [{\"error\": 5, \"write\": {\"total_ios\": 1, \"runtime\": 1}}]}'",
     NotReadyError, "error 5"),
    (r"""printf '%s' '{"jobs": [{"error": "a\u001b[2J", "write": {"total_ios": 1, """
     """"runtime": 1}}]}'""",
     NotReadyError, r"error a \[2J$"),
    ("echo '{\"jobs\": [{\"error\": 0, \"write\": {\"total_ios\": 0, \"runtime\": 500}}]}'",
     MalformedError, "no time"),
])
def test_a_fio_that_fails_or_makes_no_sense_gives_one_line(tmp_path, scratch, said, error, why):
    script = tmp_path / "fio"
    script.write_text(f"#!/bin/sh\n{said}\n")
    script.chmod(0o755)
    with pytest.raises(error, match=why):
        cells.measure_deep(str(script), scratch, DEEP, 0.1, 1, StopSignal())


def test_a_fio_under_way_ends_when_the_matrix_has_to(tmp_path, scratch):
    script = tmp_path / "fio"
    script.write_text("#!/bin/sh\nexec sleep 600\n")
    script.chmod(0o755)
    stop = StopSignal()
    stop.set()
    with pytest.raises(NotReadyError, match="stopped"):
        cells.measure_deep(str(script), scratch, DEEP, 0.1, 1, stop)
