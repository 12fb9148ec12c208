"""The matrix and `bench` on drives that really toggle: each period in its mode, then as before."""

import json

import pytest
from probe_bench import BACK, THROUGH
from wcache.core import codec
from wcache.core.experiment.matrix import Matrix
from wcache_probe.matrix.sustained import Sustained

pytestmark = pytest.mark.lab

SPAN_MIB = 258  # what a matrix overwrites, and what it wants blank before
NAMES = pytest.mark.parametrize(
    "name", ["scsi", *(pytest.param(name, marks=[pytest.mark.long]) for name in ("sata", "nvme"))]
)


@pytest.fixture
def blank(bench, probe_of):
    """Empties a drive that no OSD uses; gives its probe and the disk."""

    def empty(name):
        probe = probe_of(name)
        disk = probe.begin(BACK)
        last = probe.bench.lab.drive(name).fitted.placed.spec.size_bytes // 2**20 - 1
        bench.sh(
            f"rm -rf {probe.data}; rm -f /tmp/{name}.json\n"
            f"blkdiscard --force --zeroout --length {SPAN_MIB}M {disk.path}\n"
            f"dd if=/dev/zero of={disk.path} bs=1M seek={last} oflag=direct",
        )
        return probe, disk

    return empty


@pytest.fixture
def matrix_on(blank):
    """Starts a matrix on a blank drive; gives the probe and the process."""

    def start(name, *more):
        probe, disk = blank(name)
        words = ["--scratch", disk.path, "--out", f"/tmp/{name}.json", "--seconds", "0.1", *more]
        return probe, probe.forks.fork([*probe.words("matrix"), *words])

    return start


def found(bench, name):
    text = bench.sh(f"cat /tmp/{name}.json").checked()
    return codec.loads(Matrix, text, bytes_max=10**7, what="matrix")


@pytest.mark.long
@NAMES
def test_each_period_is_in_its_mode_and_the_drive_is_as_it_was(bench, matrix_on, name):
    probe, run = matrix_on(name, "--pairs", "4")
    assert run.wait(300) == 0, run.output()
    measured = found(bench, name)
    assert measured.ended == "done"
    for pair in measured.pairs:
        for mode, period in ((BACK, pair.write_back), (THROUGH, pair.write_through)):
            for state in (*period.state_before, *period.state_after):
                assert state.device_cache.value == mode.value
                assert state.kernel_view is not None
            assert len(period.cells) >= 6
    assert probe.mode() is BACK
    assert probe.journal() == []
    assert bench.true_state(name).flushed


@pytest.mark.long  # a kill -9 of the probe is shown on real drives, one of the matrix on models
@NAMES
def test_a_matrix_killed_in_write_through_is_restored_by_hand(matrix_on, name):
    probe, run = matrix_on(name, "--pairs", "40")
    while probe.mode() is not THROUGH:
        assert run.ended() is None, run.output()
    run.kill()
    assert probe.mode() is THROUGH
    assert probe.restore_all()[0] == 0
    assert probe.mode() is BACK


@pytest.mark.long
def test_a_media_cache_that_fills_up_under_a_lasting_load_is_seen_and_the_answer_turns(
    bench, matrix_on
):
    probe, run = matrix_on("filling", "--long", "60")
    assert run.wait(600) == 0, run.output()
    text = bench.sh("cat /tmp/filling.json").checked()
    found = codec.loads(Sustained, text, bytes_max=10**6, what="long run")
    cells = {cell.mode: cell for cell in found.cells}
    assert cells[BACK].falls_at is None, cells[BACK]
    # before any mode is said to be better for good: what fits into it, and not much more
    assert cells[THROUGH].falls_at is not None, cells[THROUGH]
    assert 0.7 < cells[THROUGH].until_bytes / (8 << 20) < 1.3
    assert (
        "faster at first: write through; faster after a cache of the drive is full: write back; "
        "the faster mode changes"
    ) in run.output()
    assert (probe.mode(), probe.journal()) == (BACK, [])


@pytest.mark.long
@NAMES
def test_a_bench_measures_both_modes_of_a_blank_drive_and_puts_back_what_was(bench, blank, name):
    probe, disk = blank(name)
    words = [*probe.words("bench"), disk.path, "--format", "json"]
    read = probe.forks.fork(words)
    assert read.wait(60) == 0, read.output()
    assert json.loads(read.output())["next"].startswith(f"wcache-probe bench {disk.path} --consent")
    seen = set()
    run = probe.forks.fork([*words, "--consent"])
    while run.ended() is None:
        seen.add(probe.mode())
    assert run.wait(1) == 0, run.output()
    told = json.loads(run.output()[run.output().index("{"):])
    assert (told["pairs"], told["measured_as_it_is"]) == (8, "")
    assert [one["mode"] for one in told["timed"]] == [BACK.value, THROUGH.value]
    assert seen == {BACK, THROUGH}
    assert (probe.mode(), probe.journal()) == (BACK, [])
    assert bench.true_state(name).flushed


# ---- scratch space on the drive of an OSD

MADE = {
    "volumes": (
        "vgcreate -qq -y labvg {path}\n"
        "lvcreate -qq -y -L 256m -n osd labvg\nlvcreate -qq -y -L 512m -n scratch labvg",
        "/dev/labvg/osd", "/dev/labvg/scratch",
        "vgremove -qq -f labvg && pvremove -qq {path}",
    ),
    "partitions": (  # sectors; the kernel has them, the disk no table
        "addpart {path} 1 2048 524288\naddpart {path} 2 526336 1048576",
        "{path}1", "{path}2",
        "delpart {path} 1; delpart {path} 2",
    ),
}  # fmt: skip


@pytest.fixture(params=MADE)
def shared(request, bench, probe_of):
    """The probe of a drive with an OSD and scratch space on it; its words for a matrix."""
    make, osd, scratch, unmake = (
        text.format(path=bench.disk("scsi").path) for text in MADE[request.param]
    )
    bench.sh(make).checked()
    bench.settle()
    probe = probe_of("scsi")
    probe.begin(BACK, osd)
    bench.sh(f"blkdiscard --force --zeroout {scratch}; rm -f /tmp/scsi.json")
    words = [
        *probe.words("matrix"), "--scratch", scratch, "--out", "/tmp/scsi.json",
        "--seconds", "0.1", "--pairs", "4",
    ]
    yield probe, osd, words
    probe.end()
    bench.all_on("scsi")
    bench.sh(unmake).checked()


@pytest.mark.long
def test_beside_an_osd_it_needs_consent_and_the_osd_loses_nothing(bench, shared):
    probe, osd, words = shared
    probe.check_safe("before", osd)
    refused = probe.forks.fork(words)
    assert refused.wait(60) == 2
    assert "--beside-osds" in refused.output()
    run = probe.forks.fork([*words, "--beside-osds"])
    seen = set()
    while run.ended() is None:
        seen.add(probe.mode())
    assert run.wait(1) == 0, run.output()
    assert seen == {BACK, THROUGH}
    assert len(found(bench, "scsi").pairs) == 4
    assert (probe.mode(), probe.journal()) == (BACK, [])
    assert bench.on_the_medium(osd) == "before"
    probe.check_safe("after", osd)
