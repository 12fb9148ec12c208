"""The reader of drive models: documented defaults, and a clear line for anything else."""

import os

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from wcache.core.model import CacheMode, LoadPoint, Role, Transport, Verdict
from wcache_sim.drive_schema import load_drive_file, parse_drive_file
from wcache_sim.placement import osd_roles, place
from wcache_sim.toml_table import FILE_BYTES_MAX, DriveFileError, parse_toml

MINIMAL = """
schema = 1
[[drive]]
name = "one"
model = "M1"
[drive.latency.fua_write]
median_us = 300
[drive.latency.dirty_flush]
median_us = 12000
"""


def refusal(text):
    with pytest.raises(DriveFileError) as caught:
        parse_drive_file(text, "f.toml")
    line = caught.value.line()
    assert line.isprintable()
    assert line.isascii()
    assert len(line) < 500
    return line


def test_a_minimal_file_gets_the_documented_defaults():
    (spec,) = parse_drive_file(MINIMAL).drives
    assert (spec.vendor, spec.firmware, spec.count) == ("SIM", "0001", 1)
    assert spec.transport is Transport.SCSI
    assert spec.cache.default is CacheMode.WRITE_BACK
    assert spec.latency.read.median_us == 300
    assert spec.latency.write.median_us == 100
    assert spec.device.channels == 4
    assert spec.placement.hosts == ("sim1",)


def test_what_a_file_states_is_what_is_read():
    spec = parse_drive_file(
        MINIMAL
        + """
[drive.cache]
savable = true
saved = "write through"
toggle = "ignores"
[drive.carryover]
after_toggle_factor = 2
toggled_to = "write back"
[drive.truth.osd_bench_4m]
verdict = "no material difference"
ratio = 1.01
"""
    ).drives[0]
    assert spec.cache.saved is CacheMode.WRITE_THROUGH
    assert spec.carryover.toggled_to is CacheMode.WRITE_BACK
    assert spec.truth[LoadPoint.OSD_BENCH_4M].verdict is Verdict.NO_DIFFERENCE


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("schema = 1", "schema = 2"), "f.toml.schema: is 2"),
        (("median_us = 300", "mediann_us = 300"), "latency.fua_write.median_us: missing"),
        (("median_us = 300", "median_us = 300\nspred = 1"), "did you mean spread?"),
        (("median_us = 300", "median_us = nan"), "must be finite"),
        (("median_us = 300", "median_us = true"), "a number is needed, not True"),
        (("median_us = 300", "median_us = 0"), "must lie in"),
        (("median_us = 300", "median_us = 1" + "0" * 400), "a huge integer"),
        (("median_us = 300", "median_us = 1" + "0" * 5000), "f.toml"),
        (("median_us = 12000", "median_us = 1\nstall_probability = 0.1"), "stall_us"),
        (('name = "one"', 'name = "../one"'), "f.toml.drive[0].name"),
        (('model = "M1"', 'model = "M\\u001b[2J"'), "drive[0].model"),
        (('model = "M1"', 'model = "M1 "'), "drive[0].model"),
        (('model = "M1"', 'model = "M1"\ncount = 0'), "must lie in 1"),
        (('model = "M1"', 'model = "M1"\ncount = 2\nserial = "S1"'), "is that of one drive"),
        (('model = "M1"', 'model = "M1"\ntransport = "raid"'), "is not one of 'scsi'"),
        (('model = "M1"', 'model = "M1"\ncache = 3'), "cache: a table is needed"),
        (('model = "M1"', 'model = "M1"\ncache.saved = "write back"'), "savable = true"),
        (("[[drive]]", "[[drive]]\n[drive.truth.osd_bench]\n[[drive]]"), "drive[0]"),
        (("[[drive]]", "[drive]"), "1 to 256 tables"),
        (("schema = 1", ""), "f.toml.schema: missing"),
        (("schema = 1", "schema ="), "not TOML"),
    ],
)
def test_each_fault_is_refused_by_name(change, says):
    assert change[0] in MINIMAL
    assert says in refusal(MINIMAL.replace(*change))


def test_two_drives_with_one_name_are_refused():
    assert "two drives have the name one" in refusal(MINIMAL + MINIMAL.replace("schema = 1", ""))


def test_deep_nesting_is_one_clear_line():
    assert "f.toml" in refusal("schema = " + "[" * 100_000)


@pytest.mark.parametrize("make", ["missing", "folder", "fifo", "binary", "long", "nul"])
def test_what_is_no_readable_text_file_is_one_clear_line(tmp_path, make):
    path = tmp_path / "drives.toml"
    name = str(path)
    if make == "folder":
        path.mkdir()
    elif make == "fifo":
        os.mkfifo(path)
    elif make == "binary":
        path.write_bytes(b"\xff\xfe")
    elif make == "long":
        path.write_bytes(b"#" * (FILE_BYTES_MAX + 1))
    elif make == "nul":
        name = "a\0b"
    with pytest.raises(DriveFileError) as caught:
        load_drive_file(name)
    assert "\n" not in caught.value.line()


def test_a_python_without_a_toml_reader_says_what_to_install():
    with pytest.raises(DriveFileError) as caught:
        parse_toml(MINIMAL, "f.toml", readers=("no_such_toml_reader",))
    assert "install python3-tomli" in caught.value.line()


LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
    | st.sampled_from(["write back", "db", "nvme", 1, 0.5, 12000])
)
KNOWN = (
    "name model count serial wwn transport cache latency noise device carryover truth "
    "placement hosts role fua_write dirty_flush median_us spread stall_us saved toggle "
    "osd_traffic verdict ratio flushes_per_commit"
)
KEYS = st.sampled_from(KNOWN.split()) | st.text(min_size=1, max_size=8)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=20,
)


def toml(value):
    """`value` as TOML text, with strings and keys escaped as basic strings."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml(str(k))} = {toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    if isinstance(value, str):
        return '"' + "".join(
            c if c.isalnum() and c.isascii() else f"\\U{ord(c):08x}" for c in value
        ) + '"'
    return "1979-05-27" if value is None else repr(value)


@pytest.mark.slow  # that of hostile text is not
@examples(150)
@given(drive=st.dictionaries(KEYS, TREES, max_size=8), osd=TREES)
def test_hostile_values_raise_nothing_but_the_one_error(drive, osd):
    base = {"name": "one", "model": "M1", "latency": {"fua_write": {"median_us": 1}}}
    text = f"schema = 1\nosd = {toml(osd)}\ndrive = [{toml({**base, **drive})}]\n"
    try:
        parse_drive_file(text)
    except DriveFileError as error:
        assert error.line().isprintable()  # noqa: PT017  either outcome is right
        assert len(error.line()) < 500  # noqa: PT017


@examples(300)
@given(st.text(max_size=200), st.integers(0, len(MINIMAL)))
def test_hostile_text_raises_nothing_but_the_one_error(junk, at):
    try:
        parse_drive_file(MINIMAL[:at] + junk + MINIMAL[at:])
    except DriveFileError as error:
        assert error.line().isprintable()  # noqa: PT017


def test_drives_are_dealt_to_hosts_and_osds():
    text = MINIMAL.replace('model = "M1"', 'model = "M1"\ncount = 4') + """
[drive.placement]
hosts = ["a", "b"]
[[drive]]
name = "fast"
model = "N1"
transport = "nvme"
latency = {fua_write = {median_us = 20}, dirty_flush = {median_us = 100}}
[drive.placement]
hosts = ["b"]
role = "db"
osds_per_drive = 8
"""
    placed = place(parse_drive_file(text))
    assert [drive.name for drive in placed] == ["one-0", "one-1", "one-2", "one-3", "fast"]
    assert [drive.host for drive in placed] == ["a", "b", "a", "b", "b"]
    assert placed[4].uses == ((1, Role.DB), (3, Role.DB))
    assert placed[4].device_class == "nvme"
    assert len({drive.serial for drive in placed} | {drive.wwn for drive in placed}) == 10
    assert set(osd_roles(placed)[3]) == {Role.BLOCK, Role.DB}
    assert set(osd_roles(placed)[0]) == {Role.BLOCK}
