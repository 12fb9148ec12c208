"""What fio timed without a sync after each write decides nothing, however clear it looks."""

import json
import random
from pathlib import Path

import pytest
from wcache_cli.main import main

pytestmark = pytest.mark.slow

SYNCED = {"rw": "randwrite", "bs": "4k", "iodepth": "1", "direct": "1", "fdatasync": "1"}


def side(seed, middle_ns, n=4000):
    rng, bins = random.Random(seed), {}
    for _ in range(n):
        value = str(int(middle_ns * rng.lognormvariate(0, 0.2)))
        bins[value] = bins.get(value, 0) + 1
    return {"N": n, "bins": bins}


def fio(path, seed, middle_ns, syncs=True, **options):
    job = {
        "error": 0, "job options": {**SYNCED, **options},
        "write": {"clat_ns": side(seed, middle_ns)},
        "sync": {"lat_ns": side(seed + 1, middle_ns)} if syncs else {},
    }
    path.write_text(json.dumps({"jobs": [job]}))
    return str(path)


def asked(capsys, tmp_path, **more):
    """Write back ten times faster, measured so."""
    back = fio(tmp_path / "on", 1, 20_000, **more)
    through = fio(tmp_path / "off", 7, 200_000, **more)
    words = ["compare", "--write-back", back, "--write-through", through]
    assert main([*words, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert main(words) == 0
    return found, capsys.readouterr().out


@pytest.mark.parametrize(
    ("syncs", "options"),
    [
        (False, {"fdatasync": "0"}),
        (False, {"direct": "0", "fdatasync": "0"}),
        (False, {"fdatasync": "0", "end_fsync": "1"}),
        (False, {"fdatasync": "0", "fsync": "32"}),
        (False, {"fdatasync": "1"}),  # fio before 3.5 syncs, and does not tell how long that took
        (False, {"fdatasync": "0", "sync": "none"}),
        (False, {"fdatasync": "0", "sync": "\n`id`"}),
    ],
)
def test_writes_that_were_not_synced_are_insufficient_data(tmp_path, capsys, syncs, options):
    found, text = asked(capsys, tmp_path, syncs=syncs, **options)
    assert found["verdict"] == "insufficient data"
    assert "unsynced" in found["warnings"]
    assert found["more_needed"] is None
    assert "--direct=1" in found["why"]
    assert "--fdatasync=1" in found["why"]
    assert "warning: unsynced: " in text
    assert "more: " not in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("syncs", "options"),
    [
        (True, {}),
        (True, {"fdatasync": "0", "fsync": "1"}),
        (False, {"fdatasync": "0", "sync": "1"}),
        (False, {"fdatasync": "0", "sync": "dsync"}),
        (True, {"buffered": "0"}),
        # the page cache takes the write, and its sync brings it to the drive
        (True, {"direct": "0"}),
        (True, {"direct": "0", "fdatasync": "0", "fsync": "1"}),
        (False, {"direct": "0", "fdatasync": "0", "sync": "1"}),
        (False, {"direct": "0", "fdatasync": "0", "sync": "dsync"}),
    ],
)
def test_writes_that_were_each_synced_are_judged(tmp_path, capsys, syncs, options):
    found, _ = asked(capsys, tmp_path, syncs=syncs, **options)
    assert found["verdict"] == "write back"
    assert "unsynced" not in found["warnings"]


NORMAL = """commit: (g=0): rw=randwrite, bs=(R) 4096B-4096B, (W) 4096B-4096B, ioengine=psync
fio-3.33
Starting 1 process

commit: (groupid=0, jobs=1): err= 0: pid=4711: Mon Jan  1 00:00:00 2024
  write: IOPS=1024, BW=4096KiB/s (4194kB/s)(12.0MiB/3000msec); 0 zone resets
    clat (usec): min=20, max=900, avg=41.33, stdev= 9.10
"""
TERSE = "3;fio-3.33;commit;0;0;0;0;0;12288;4096;1024;3000\n"
WARNING = "note: both iodepth >= 1 and synchronous I/O engine are selected\n"


def plain(path, middle, n=400):
    path.write_text("".join(f"{middle + i % 7 + i / 997}\n" for i in range(n)))


def lat_log(path, middle, n=400):
    path.write_text("".join(
        f"{i}, {int(1000 * (middle + i % 7 + i / 997))}, 1, 4096, 0\n" for i in range(n)
    ))


def old_json(path, middle):
    path.write_text(json.dumps({"jobs": [{"write": {"clat_ns": side(int(middle), 1e3 * middle)}}]}))


@pytest.mark.parametrize("write", [plain, lat_log, old_json])
def test_what_a_file_does_not_tell_of_syncs_decides_nothing_but_by_the_admins_word(
    tmp_path, capsys, write
):
    paths = [tmp_path / "on", tmp_path / "off"]
    for path, middle in zip(paths, (20.0, 200.0)):
        write(path, middle)
    words = ["compare", "--write-back", str(paths[0]), "--write-through", str(paths[1])]
    assert main([*words, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["more_needed"]) == ("insufficient data", None)
    assert "syncs untold" in found["warnings"]
    assert "--output-format=json+" in found["why"]
    assert main([*words, "--format", "json", "--synced"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "write back"
    assert "syncs untold" not in found["warnings"]


def test_the_admins_word_does_not_outweigh_what_a_file_tells(tmp_path, capsys):
    back = fio(tmp_path / "on", 1, 20_000, syncs=False, fdatasync="0")
    through = fio(tmp_path / "off", 7, 200_000, syncs=False, fdatasync="0")
    words = ["--write-back", back, "--write-through", through, "--synced", "--format", "json"]
    assert main(["compare", *words]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "insufficient data"


def test_syncs_that_a_file_tells_of_need_no_options_beside_them(tmp_path, capsys):
    words = []
    for name, seed, middle in (("back", 1, 20_000), ("through", 7, 200_000)):
        path = tmp_path / name
        job = {"write": {"clat_ns": side(seed, middle)}, "sync": {"lat_ns": side(seed + 1, middle)}}
        path.write_text(json.dumps({"jobs": [job]}))
        words += [f"--write-{name}", str(path)]
    assert main(["compare", *words, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "write back"


@pytest.mark.parametrize(
    ("form", "named"),
    [
        (NORMAL, "fio's text output"),
        (WARNING + NORMAL, "fio's text output"),
        (TERSE, "fio's terse output"),
        (WARNING + TERSE, "fio's terse output"),
        (json.dumps({"fio version": "fio-3.33", "client_stats": [{}]}), "fio --client"),
    ],
)
def test_another_form_of_fios_is_named_with_what_to_run(tmp_path, capsys, form, named):
    path = tmp_path / "out"
    path.write_text(form)
    good = fio(tmp_path / "good", 7, 200_000)
    assert main(["compare", "--write-back", str(path), "--write-through", good]) == 2
    said = capsys.readouterr().err
    assert named in said
    assert "--output-format=json+" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("between", ["\n", "", "\nfio: a warning\n"])
def test_several_documents_in_a_file_are_not_taken_for_the_first(tmp_path, capsys, between):
    first, last = (fio(tmp_path / name, 1, ns) for name, ns in (("a", 20_000), ("b", 90_000)))
    several = tmp_path / "several"
    several.write_text(between.join(Path(path).read_text() for path in (first, last)))
    good = fio(tmp_path / "good", 7, 200_000)
    assert main(["compare", "--write-back", str(several), "--write-through", good]) == 2
    said = capsys.readouterr().err
    assert "several JSON documents" in said
    assert "--status-interval" in said
    assert said.count("\n") == 1
    several.write_text(NORMAL + Path(first).read_text() + "\n")  # --output-format=normal,json
    assert main(["compare", "--write-back", str(several), "--write-through", good]) == 0
