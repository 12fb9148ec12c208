"""Entries of options: what each kind allows, and that all else is refused by name."""

from dataclasses import replace

import pytest
from bcache_world import bcache_of
from hypothesis import given
from hypothesis import strategies as st
from mgr_fakes import builders as make
from wcache.core.errors import RefusedError
from wcache.core.hardware import (
    NAME_CHARS_MAX,
    VALUE_CHARS_MAX,
    Dirty,
    OptionValue,
    moves,
)
from wcache.core.model import CacheMode, LoadPoint
from wcache.core.options.entries import (
    BY_NAME,
    OPTIONS,
    REFUSED,
    comparable,
    left_dirty,
    option,
    parse_trial,
)
from wcache.core.options.option import UNDONE, Follow, Place


@pytest.mark.parametrize("name", ["write_cache", "fua", "cache_type"])
def test_what_changes_what_is_durable_is_refused_by_name(name):
    with pytest.raises(RefusedError) as refused:
        option(name)
    assert repr(name) in refused.value.message
    assert "durable" in refused.value.message


@given(st.text(max_size=80))
def test_whatever_has_no_entry_is_refused_and_named(name):
    if name in BY_NAME:
        return
    with pytest.raises(RefusedError) as refused:
        option(name)
    assert repr(name[:64]) in refused.value.message


@pytest.mark.parametrize(
    ("place", "name", "good", "bad"),
    [
        (Place.BCACHE, "writeback_percent", ("1", "10", "40"), ("0", "41", "10%", "-1", "010")),
        (Place.QUEUE, "scheduler", ("none", "mq-deadline"), ("", "cfq", "none\n", "[none]")),
        (Place.OSD, "bluestore_throttle_bytes", ("65536", "67108864"), ("0", "65535", "64M")),
        (Place.OSD, "bluestore_deferred_batch_ops_hdd", ("1", "64", "65535"), ("0", "65536")),
        (Place.OSD, "osd_mclock_profile", ("balanced",), ("custom", "1")),
    ],
)
def test_each_kind_of_entry_takes_its_values_and_no_others(place, name, good, bad):
    one = option(name)
    assert one.place is place
    for value in good:
        one.require(value)
    for value in bad:
        with pytest.raises(RefusedError) as refused:
            one.require(value)
        assert name in refused.value.message
        assert one.range in refused.value.advice


@given(st.sampled_from(OPTIONS), st.text(max_size=40))
def test_no_text_is_a_value_by_mistake(one, text):
    if one.allows(text):
        assert text in one.words or one.low <= int(text) <= one.high
        assert one.could_be(text)


def test_every_entry_is_whole():
    assert len(BY_NAME) == len(OPTIONS)
    assert not set(BY_NAME) & set(REFUSED)
    for one in OPTIONS:
        assert one.words or one.low < one.high, one.name
        assert one.settle_s > 0, one.name
        assert all((one.settles, one.title, one.hazards, UNDONE[one.place])), one.name
        assert set(one.loads) <= set(LoadPoint) - {LoadPoint.OSD_BENCH_CAPACITY}, one.name
        assert len(one.name) <= NAME_CHARS_MAX
        assert all(len(word) <= VALUE_CHARS_MAX and one.could_be(word) for word in one.words)
        assert len(str(one.high)) <= VALUE_CHARS_MAX
        # what it resets is put back with it, so it must be readable too
        for name in one.resets:
            assert option(name).place is one.place


def test_the_mode_of_bcache_is_an_admins_alone_and_is_never_tried():
    (name,) = (one.name for one in OPTIONS if one.follow is Follow.ADMIN)
    assert name == "cache_mode"
    assert option(name).words == ("writethrough", "writeback", "writearound")
    assert option(name).dirty_in == "writeback"
    for refuses in (comparable, lambda _: parse_trial("cache_mode=writeback,writethrough")):
        with pytest.raises(RefusedError) as refused:
            refuses(name)
        assert "cache_mode is changed by an admin's plan alone" in refused.value.message
        assert "plan --knob=options --option=cache_mode=" in refused.value.advice
    assert all(comparable(one.name) is one for one in OPTIONS if one.follow is not Follow.ADMIN)


@pytest.mark.parametrize(
    ("value", "dirty", "left"),
    [
        ("writeback", "4096", 0), ("writeback", None, 0), ("writethrough", "4096", 4096),
        ("writearound", "0", 0), ("writethrough", "512", 512), ("writethrough", None, None),
        ("writethrough", "-1", None), ("writethrough", "0k", None), ("none", "512", 512),
    ],
)
def test_another_mode_than_writeback_is_there_once_no_dirty_data_is(value, dirty, left):
    read = () if dirty is None else (OptionValue("dirty_data", dirty),)
    state = make.state(CacheMode.WRITE_BACK, options=read)
    assert left_dirty("cache_mode", value, state) == left
    assert left_dirty("nr_requests", value, state) == 0


def test_what_latencies_of_clients_cannot_judge_is_never_followed_by_itself():
    never = {one.name for one in OPTIONS if one.follow is Follow.NEVER}
    assert never == {"osd_mclock_profile", "bluefs_buffered_io"}


def test_where_dirty_data_is_to_its_target():
    shares = {0.0: "CLEAN", 0.05: "CLEAN", 0.06: "BELOW", 0.95: "TARGET", 1.05: "TARGET",
              1.2: "BEYOND"}
    assert {share: bcache_of(share).dirty.name for share in shares} == shares
    assert bcache_of(1.2, mode="writethrough").dirty is Dirty.ANY
    assert replace(bcache_of(1.2), target_bytes=0).dirty is Dirty.BEYOND
    assert replace(bcache_of(0.0), target_bytes=0).dirty is Dirty.CLEAN
    assert "the target is 0" in moves([replace(bcache_of(1.2), target_bytes=0)], Dirty.CLEAN)
    assert "no target" in moves([replace(bcache_of(1.2), target_bytes=0)] * 2, Dirty.BEYOND)


@pytest.mark.parametrize(
    ("seen", "wanted", "said_"),
    [
        ((1.0,), Dirty.ANY, "looked at once"), ((1.0, 1.01), Dirty.ANY, ""),
        ((0.9, 1.0), Dirty.ANY, "still moves"), ((0.5, 0.5), Dirty.TARGET, "is below (50%"),
        ((1.5, 1.5), Dirty.BEYOND, ""), ((0.0, 0.0), Dirty.CLEAN, ""),
    ],
)
def test_a_controller_has_settled_where_two_looks_agree_at_the_place_wanted(seen, wanted, said_):
    found = moves([bcache_of(share) for share in seen], wanted)
    assert said_ in found
    assert bool(found) == bool(said_)


def test_what_is_not_known_is_waited_for_only_where_it_is_to_be_somewhere():
    unknown = [bcache_of(1.0, mode="writethrough")]
    assert moves(unknown) == ""
    assert "is unknown and not target" in moves(unknown, Dirty.TARGET)
    assert moves([], Dirty.CLEAN) == "no bcache device tells its dirty data"
    assert moves([bcache_of(1.0, is_cache=True)]) == ""
