"""Bytes from drives: whatever they are, no crash and no certainty that is not there."""

import struct

from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from model_drives import ModelAta, ModelScsi, designator, vpd
from wcache_probe.linux.transports import nvme
from wcache_probe.linux.transports import sata as ata
from wcache_probe.linux.transports import sg_io as scsi
from wcache_probe.linux.transports.base import safe_id
from wcache_probe.linux.transports.sg_io import Sense, parse_sense

RAW = st.binary(max_size=600)


@given(RAW, st.booleans())
def test_mode_data_parses_to_a_whole_page_or_to_nothing(raw, ten):
    page = scsi.parse_mode_sense(raw, ten)
    if page is not None:
        assert page.raw[0] & 0x7F == 8
        assert len(page.raw) == 2 + page.raw[1] >= 12
        assert page.raw in raw
        changed = page.with_wce(not page.wce)
        assert [i for i in range(len(changed)) if i and changed[i] != page.raw[i]] == [2]
        assert changed[2] ^ page.raw[2] == 4


@given(st.integers(0, 60), st.booleans(), st.booleans())
def test_a_truncated_mode_page_is_no_page(cut, wce, ten):
    page = ModelScsi.page(wce)
    size = len(page) + (6 if ten else 3)
    header = size.to_bytes(2, "big") + bytes(6) if ten else bytes((size, 0, 0, 0))
    raw = (header + page)[:cut]
    found = scsi.parse_mode_sense(raw, ten)
    if cut >= len(header) + len(page):
        assert found is not None
        assert found.wce is wce
    else:
        assert found is None


def test_block_descriptors_that_were_forbidden_are_skipped():
    page = ModelScsi.page(True)
    raw = (14 + len(page)).to_bytes(2, "big") + bytes((0, 0, 0, 0, 0, 8)) + bytes(8) + page
    found = scsi.parse_mode_sense(raw, True)
    assert found is not None
    assert found.wce


@given(RAW)
def test_vital_product_data_never_raises_and_names_are_printable(raw):
    for name in (*scsi.designators(raw).values(), scsi.parse_serial(raw)):
        assert name.isprintable()
    scsi.nonvolatile_cache(raw)
    inquiry = scsi.parse_inquiry(raw)
    if inquiry:
        assert (inquiry.vendor + inquiry.model + inquiry.firmware).isprintable()


@given(st.binary(max_size=250))
def test_designators_of_any_body_end(body):
    scsi.designators(vpd(0x83, body))


def test_the_best_designator_of_each_association_wins():
    naa = bytes.fromhex("5000c50000000001")
    payload = (
        designator(b"VENDOR name", 1, 0, 2) + designator(naa)
        + designator(bytes.fromhex("5000c500000000ff"), association=2)
    )
    assert scsi.designators(vpd(0x83, payload)) == {
        0: "naa.5000c50000000001", 2: "naa.5000c500000000ff"
    }


@given(st.binary(max_size=80))
def test_sense_data_never_raises(raw):
    parse_sense(raw)


def test_sense_is_read_in_both_formats():
    fixed = bytes((0x70, 0, 6, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x2A, 1, 0, 0, 0, 0))
    assert parse_sense(fixed) == Sense(6, 0x2A, 1)
    assert parse_sense(bytes((0x72, 5, 0x24, 0, 0, 0, 0, 2, 9, 0))) == Sense(
        5, 0x24, 0, b"\x09\x00"
    )


@given(st.binary(min_size=512, max_size=512))
def test_identify_data_says_on_or_off_only_where_it_is_marked_valid(raw):
    known = ata.parse_identify(raw)
    if known is not None and known.cache_enabled is not None:
        assert raw[2 * 87 + 1] & 0xC0 == 0x40
    if known is not None:
        assert (known.model + known.serial + known.firmware).isprintable()


@examples(60)
@given(st.integers(0, 511), st.integers(1, 255))
def test_one_wrong_byte_under_the_integrity_word_is_seen(at, change):
    raw = bytearray(ModelAta().identify())
    raw[at] ^= change
    known = ata.parse_identify(bytes(raw))
    # byte 510 is the signature that announces the checksum, and bit 15 of word 0 is ATAPI
    assert known is None or at == 510


@given(st.binary(max_size=64))
def test_a_state_is_taken_only_from_an_ata_status_descriptor(raw):
    found = ata.returned_state(raw)
    assert found is None or (raw[0], raw[1]) == (9, 12)


@given(st.one_of(st.binary(max_size=100), st.binary(min_size=4096, max_size=4096)))
def test_identify_controller_never_raises(raw):
    known = nvme.parse_identify(raw)
    assert known is None or len(raw) == 4096


@given(st.text(max_size=300))
def test_an_id_is_safe_in_a_key_and_a_path_and_never_collides_by_cleaning(text):
    name = safe_id(text)
    assert all(c.isascii() and (c.isalnum() or c in ":._-") for c in name)
    assert len(name) <= 130
    assert (name == text) or name.rsplit("-", 1)[-1] != ""
    assert safe_id(text + " ") != safe_id(text) or text == ""


def test_what_the_kernel_is_handed_is_as_large_as_it_reads():
    for request in (nvme.IOCTL_ADMIN, nvme.IOCTL_IO):
        assert request >> 16 & 0x3FFF == nvme._COMMAND.size == nvme._RESULT.size
    assert struct.calcsize("P") != 8 or scsi._HEADER.size == 88  # sizeof(struct sg_io_hdr)
