"""The config database as mClock's options stand in it, and which value an OSD takes."""

from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from wcache.core.config_database import Config, ConfigEdit, Entry, parse_dump
from wcache.knobs.mclock.capacity import NAMES, Known, see

HDD = "osd_mclock_max_capacity_iops_hdd"


def test_a_dump_is_read_row_by_row_and_odd_rows_are_left_out():
    good = {"section": "osd", "name": HDD, "value": "310.000000", "mask": "class:hdd"}
    odd = [{**good, "value": 3}, {**good, "section": "x" * 500}, {"name": HDD}, 7, None]
    others = [{"section": "osd", "name": "osd_memory_target", "value": "1", "mask": ""}]
    assert parse_dump([good, *odd, *others], NAMES) == (
        Entry("osd/class:hdd", HDD, "310.000000"),
        Entry("osd", "osd_memory_target", "", other=True),  # may be a secret: no value is kept
    )
    assert parse_dump({"section": "osd"}, NAMES) == ()


PLACE = (("host", "h1"), ("rack", "r1"), ("root", "default"))


@pytest.mark.parametrize(("sections", "taken"), [
    (("global", "osd"), "osd"),
    (("osd/class:hdd", "osd"), "osd/class:hdd"),
    (("osd.1", "osd/host:h1", "global"), "osd/host:h1"),  # nothing stands between the two
    (("osd.1", "osd", "global"), "osd.1"),
    (("osd.2", "osd/class:ssd", "osd/host:h2"), None),
    (("osd/rack:r1", "osd/class:hdd"), "osd/rack:r1"),
    (("osd/root:default", "osd/class:hdd", "osd"), "osd/root:default"),
    (("osd/host:h1", "osd/rack:r1", "osd/root:default"), "osd/host:h1"),
    (("osd/host:h1/class:hdd", "osd/host:h1"), "osd/host:h1"),  # as precise: the later one
    (("osd/rack:r1/class:ssd", "osd/class:hdd"), "osd/class:hdd"),
    (("osd/rack:r2", "osd/row:r1", "osd"), "osd"),
    (("global/host:h1", "osd"), "global/host:h1"),
    (("global", "global/rack:r1"), "global/rack:r1"),
    (("osd/rack:r1", "osd.1/host:h1"), "osd.1/host:h1"),
    (("osd/host:h1", "osd.1/rack:r1"), "osd/host:h1"),
    (("osd.1", "osd.1/rack:r2"), "osd.1"),
])
def test_the_most_specific_section_wins_and_any_crush_location_overrides_a_class(sections, taken):
    config = Config([Entry(who, HDD, "300") for who in sections])
    entry = config.of_osd(replace(make.osd(1, "h1"), location=PLACE), HDD)
    assert (entry.who if entry else None) == taken


@pytest.mark.parametrize(("between", "taken"), [
    (None, "osd/host:h1"),
    (("osd", "zzz"), "osd.1"),
    (("osd.1", "aaa"), "osd.1"),
    (("osd", "aaa"), "osd/host:h1"),  # it comes before both
    (("osd/class:ssd", "zzz"), "osd/host:h1"),  # of other OSDs
    (("osd.1", "zzz"), "osd/host:h1"),
])
def test_an_own_key_overrides_a_host_only_where_another_option_stands_between(between, taken):
    entries = [Entry("osd/host:h1", HDD, "300"), Entry("osd.1", HDD, "310")]
    if between:
        entries.append(Entry(*between, "", other=True))
    found = Config(entries).of_osd(make.osd(1, "h1"), HDD)
    assert getattr(found, "who", None) == taken


def test_what_edits_would_leave_is_asked_without_making_them():
    config = Config([Entry("osd", HDD, "1"), Entry("osd", "zzz", "", other=True)])
    edits = (ConfigEdit("osd/host:h1", HDD, "2", None), ConfigEdit("osd", HDD, None, "1"))
    after = config.after(edits)
    assert [entry.who for entry in after.entries] == ["osd/host:h1"]
    assert after.of_osd(make.osd(1, "h2"), HDD) is None
    assert config.of_osd(make.osd(1, "h2"), HDD).who == "osd"


def test_a_value_keeps_the_setting_in_which_it_was_first_seen():
    osds = {1: make.osd(1, "h1")}
    config = Config([Entry("osd.1", HDD, "300.5")])
    first = see({}, config, osds, {1: ""})
    second = see(first, config, osds, {1: "write back"})
    third = see(second, config, osds, {1: "write through"})
    assert [k.setting for f in (first, second, third) for k in f.values()] == [
        "", "write back", "write back"]
    new = see(third, Config([Entry("osd.1", HDD, "400")]), osds, {1: "write through"})
    assert new[("osd.1", HDD)] == Known("osd.1", HDD, "400", "write through")
    assert see(new, Config(()), osds, {}) == {}
