"""Whole write+sync matrices on a real loop device, with fio where it is installed."""

import contextlib
import os
import shutil
import signal
import threading
from pathlib import Path
from statistics import median

import pytest
from loop_devices import loop_on
from matrix_bench import Bench
from wcache.core.errors import NotReadyError
from wcache.core.experiment.design import coin
from wcache.core.experiment.matrix import Cell, Pattern, Sync, cells_of
from wcache.core.model import CacheMode
from wcache.core.options.entries import mode_of_arm
from wcache_probe.linux.block.host_files import HostFiles
from wcache_probe.linux.host import LinuxDriveHost
from wcache_probe.matrix import cells
from wcache_probe.matrix.scratch import MARK, MIB, find
from wcache_probe.stop_signal import StopSignal

LONG = ("--pairs", "40")


@pytest.fixture
def bench(tmp_path):
    with loop_on(tmp_path / "scratch.img", 24 * MIB) as name:
        yield Bench(tmp_path, name, with_fio=True)


def test_all_cells_are_measured_in_both_modes_and_the_drive_is_as_it_was(bench):
    code, out, error = bench.run("--pairs", "4")
    assert (code, bench.view) == (0, "write back"), error
    found = bench.found()
    assert [pair.index for pair in found.pairs] == [0, 1, 2, 3]
    skipped = {item.cell for item in found.skipped}
    assert all(cell.depth > 1 for cell in skipped)
    assert skipped == set() or shutil.which("fio") is None
    for pair in found.pairs:
        assert pair.first is mode_of_arm(coin(found.seed, pair.index))
        wanted = [cell for cell in cells_of(found.seed, pair.index) if cell not in skipped]
        for period, mode in ((pair.write_back, CacheMode.WRITE_BACK),
                             (pair.write_through, CacheMode.WRITE_THROUGH)):
            assert [item.cell for item in period.cells] == wanted
            assert {state.kernel_view.value for state in period.state_before} == {mode.value}
            assert period.state_after == period.state_before
            for item in period.cells:
                assert len(item.samples_ns) >= (5 if item.cell.depth == 1 else 1)
    # a loop device in write through drops flushes, so that fdatasync costs nothing there
    cell = Cell(Pattern.SEQUENTIAL, Sync.FDATASYNC, 1)
    levels = {
        period.mode: median(item.samples_ns) for pair in found.pairs
        for period in (pair.write_back, pair.write_through)
        for item in period.cells if item.cell == cell
    }
    assert levels[CacheMode.WRITE_BACK] > levels[CacheMode.WRITE_THROUGH]
    assert "wcache analyze" in out
    assert "pair 4 of 4" in error
    content = bench.backing.read_bytes()
    assert content.startswith(MARK)
    assert not any(content[4096:MIB])
    assert not any(content[-MIB:])
    assert any(content[MIB:-MIB])
    assert bench.restore().stdout == "nothing to restore\n"


def holders(path):
    """Processes that have a file open."""
    found = []
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            found += [link.parts[2]] if os.readlink(link) == path else []
    return found


def test_no_fio_outlives_the_matrix_that_is_stopped(installed_fio, bench):
    scratch = find(HostFiles(), LinuxDriveHost(osd_data_globs=[]), bench.path)
    stop = StopSignal()
    timer = threading.Timer(1.0, stop.set)
    timer.start()
    cell = Cell(Pattern.RANDOM, Sync.NONE, 128)
    with pytest.raises(NotReadyError, match="stopped"):
        cells.measure_deep(shutil.which("fio"), scratch, cell, 30.0, 1, stop)
    timer.join()
    assert holders(bench.path) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_stopped_matrix_restores_and_keeps_the_whole_pairs(bench, number):
    process = bench.start(*LONG)
    said = ""
    while "pair 2 of 40" not in said:
        said += process.stderr.readline()
    bench.reach(process, "write through")
    process.send_signal(number)
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, bench.view) == (1, "write back")
    assert bench.found().ended == "stopped"
    assert 1 <= len(bench.found().pairs) < 40
    assert "of 40 pairs: stopped" in out


def test_two_at_a_time_are_refused(bench):
    process = bench.start(*LONG)
    bench.reach(process, "write through")
    code, _, error = bench.run("--out", str(bench.root / "second.json"))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert code == 2
    assert "is running with" in error
    assert bench.view == "write back"
