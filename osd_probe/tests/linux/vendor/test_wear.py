"""Host and NAND writes out of smartctl's JSON: well-known figures or none, whatever it prints."""

import json
import os
import sys
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mgr_fakes import builders as make
from wcache.core.errors import NotReadyError, WcacheError
from wcache.core.hardware import Wear, since
from wcache.core.model import Transport
from wcache_probe.linux.vendor import tool
from wcache_probe.linux.vendor.tool import WEAR_FRESH_S, WearReader, wear_in


def attributes(**raw):
    rows = [{"id": 1, "name": name, "raw": {"value": value}} for name, value in raw.items()]
    return {"ata_smart_attributes": {"table": rows}}


@pytest.mark.parametrize(
    ("found", "host", "nand"),
    [
        ({"nvme_smart_health_information_log": {"data_units_written": 1000}}, 512_000_000, None),
        ({"scsi_error_counter_log": {"write": {"gigabytes_processed": "12.345"}}},
         12_345_000_000, None),
        ({"ata_device_statistics": {"pages": [{"number": 1, "table": [
            {"name": "Logical Sectors Written", "value": 2048}]}]}}, 2**20, None),
        (attributes(Host_Writes_32MiB=2, NAND_Writes_1GiB=3), 2**26, 3 * 2**30),
        (attributes(Total_LBAs_Written=77), None, None),  # its unit differs between vendors
        ({"nvme_smart_health_information_log": {"data_units_written": -1}}, None, None),
        ({"nvme_smart_health_information_log": {"data_units_written": 2**63}}, None, None),
        ({"nvme_smart_health_information_log": {"data_units_written": True}}, None, None),
        ({"nvme_smart_health_information_log": []}, None, None),
        ({"ata_smart_attributes": {"table": [3, {"name": 4}, {"name": "x", "raw": 5}]}},
         None, None),
        ({"scsi_error_counter_log": {"write": {"gigabytes_processed": "1e400"}}}, None, None),
    ],
)
def test_only_well_known_figures_are_taken(found, host, nand):
    wear = wear_in(json.dumps(found), 5.0)
    assert wear == (None if host is nand is None else Wear(host, nand, 5.0))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from([
        "nvme_smart_health_information_log", "data_units_written", "ata_smart_attributes", "table",
        "name", "raw", "value", "scsi_error_counter_log", "write", "gigabytes_processed",
        "ata_device_statistics", "pages", "logical_block_size",
    ]), inner, max_size=4), max_leaves=20,
)


@given(JSON)
def test_whatever_json_comes_gives_figures_or_none(found):
    wear = wear_in(json.dumps(found), 1.0)
    assert wear is None or 0 <= (wear.host_bytes or 0) < 2**63


@given(st.text(max_size=200))
def test_whatever_text_comes_is_one_clear_line_at_most(text):
    with suppress(WcacheError):
        wear_in(text, 1.0)


def reader(answer, calls):
    def run(command, seconds):
        calls.append(tuple(command))
        if isinstance(answer, Exception):
            raise answer
        return answer

    clock = [0.0]
    return WearReader(lambda: "/usr/sbin/smartctl", run, lambda: clock[0], lambda: 9.0), clock


def test_a_drive_is_asked_once_in_a_while_and_remembered():
    calls = []
    found, clock = reader(json.dumps(attributes(Host_Writes_GiB=1)), calls)
    drive = make.drive("sda", 0)
    found.begin()
    assert found.known(drive) is None
    assert found.read(drive) == found.read(drive) == found.known(drive) == Wear(2**30, None, 9.0)
    assert len(calls) == 1
    assert calls[0][-1] == "/dev/sda"
    clock[0] += WEAR_FRESH_S + 1
    assert found.read(drive) is not None
    assert len(calls) == 1  # the time of that look was over
    found.begin()
    found.read(drive)
    assert len(calls) == 2


def test_a_tool_that_fails_takes_nothing_away_and_no_loop_device_is_asked():
    calls = []
    found, _ = reader(NotReadyError("smartctl took more than 5 s"), calls)
    found.begin()
    assert found.read(make.drive("sda", 0)) is None
    found.read(make.drive("loop0", 1, transport=Transport.LOOP))
    assert len(calls) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("import time; time.sleep(60)", "took more than"),
        ("print('x' * 6_000_000)", "prints more than"),
        ("import sys\nwhile True: sys.stdout.write('x' * 65536)", "than"),
    ],
)
def test_a_tool_is_bounded_in_time_and_output(script, said):
    with pytest.raises(NotReadyError, match=said):
        tool.run([sys.executable, "-c", script], 1.5)


def test_what_a_tool_prints_is_text_whatever_its_exit_code():
    script = "import os; os.write(1, b'a\\xffb'); raise SystemExit(64)"
    assert tool.run([sys.executable, "-c", script], 10.0) == "a\ufffdb"
    with pytest.raises(NotReadyError, match="does not start"):
        tool.run(["/nowhere/tool"], 1.0)


def put_in_a_folder_of_all(program):
    program.parent.chmod(0o777)


def open_to_all(program):
    program.chmod(0o777)


def of_another_user(program):
    os.chown(program, 65534, 65534)


@pytest.mark.parametrize("how", [put_in_a_folder_of_all, open_to_all, of_another_user])
@pytest.mark.parametrize("link", [False, True], ids=["by its path", "by a link of ours"])
def test_a_tool_that_others_may_change_is_not_run(tmp_path, how, link):
    """The probe would run it as root."""
    if how is of_another_user and os.geteuid() != 0:
        pytest.skip("only root gives files away")
    mark, program = tmp_path / "mark", tmp_path / "vendor" / "storcli64"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho ran >>{mark}\n")
    program.chmod(0o755)
    asked = program
    if link:
        asked = tmp_path / "link"
        asked.symlink_to(program)
    tool.run([str(asked)], 10.0)
    assert mark.read_text() == "ran\n"
    how(program)
    with pytest.raises(NotReadyError, match=r"is not run: .*(others may write|another user)"):
        tool.run([str(asked)], 10.0)
    assert mark.read_text() == "ran\n"


def test_since_tells_what_both_readings_tell():
    before, now = Wear(100 * 2**30, 150 * 2**30), Wear(110 * 2**30, 190 * 2**30)
    assert "4.00 times as much, 1.50 times over its life before" in since(before, now)
    assert "does not report its NAND writes" in since(Wear(1), Wear(5))
    assert since(Wear(9), Wear(5)) == ""  # it went back: another drive, or a reset
    assert since(Wear(), Wear(5, 5)) == ""
