"""What fio timed without a sync after each write decides nothing, however clear it looks."""

import json
import random

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
        (True, {"direct": "0"}),
        (False, {"direct": "0", "fdatasync": "0"}),
        (False, {"direct": "0", "fdatasync": "0", "sync": "1"}),
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
    ],
)
def test_writes_that_were_each_synced_are_judged(tmp_path, capsys, syncs, options):
    found, _ = asked(capsys, tmp_path, syncs=syncs, **options)
    assert found["verdict"] == "write back"
    assert "unsynced" not in found["warnings"]


def test_a_file_that_does_not_tell_its_settings_is_not_called_unsynced(tmp_path, capsys):
    paths = []
    for name, seed, middle in (("on", 1, 20_000), ("off", 7, 200_000)):
        path = tmp_path / name
        path.write_text(json.dumps({"jobs": [{"write": {"clat_ns": side(seed, middle)}}]}))
        paths.append(str(path))
    words = ["--write-back", paths[0], "--write-through", paths[1], "--format", "json"]
    assert main(["compare", *words]) == 0
    assert "unsynced" not in json.loads(capsys.readouterr().out)["warnings"]
