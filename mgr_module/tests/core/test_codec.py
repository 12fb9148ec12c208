"""The codec believes nothing: what it takes is what the dataclass says, or one clear line."""

import json
from dataclasses import fields

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from mgr_fakes import builders as make
from rollout_world import change
from wcache.core import codec
from wcache.core.change.change import Change
from wcache.core.errors import MalformedError
from wcache.core.model import (
    CacheMode,
    DeviceCache,
    DriveModel,
    DriveReport,
    DriveState,
    KernelView,
    LoadPoint,
)
from wcache.core.protocol import (
    FailureOutcome,
    Lease,
    MeasureRequest,
    PollReply,
    Post,
    SamplesOutcome,
    SetModeRequest,
    StateOutcome,
    Task,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from([f.name for f in fields(Post)] + ["kind", "x"]), inner, max_size=5
    ),
    max_leaves=12,
)


def a_post(**changes):
    values = {
        "version": 2,
        "hostname": "h1",
        "probe_id": "p",
        "instance_id": "i",
        "task_id": "t1",
        "outcome": SamplesOutcome((1, 2, 3), 0.5, 4096),
    }
    values.update(changes)
    return Post(**values)


@examples()
@given(samples=st.lists(st.integers(0, 2**40), max_size=50), seconds=st.floats(0, 1e6))
def test_what_is_encoded_decodes_to_the_same_value(samples, seconds):
    post = a_post(outcome=SamplesOutcome(tuple(samples), seconds, 0))
    assert codec.loads(Post, codec.dumps(post), bytes_max=10**6, what="post") == post


def test_each_member_of_a_union_comes_back_as_itself():
    state = DriveState(DeviceCache.WRITE_BACK, KernelView.WRITE_BACK, pinned=True)
    for outcome in (
        StateOutcome((state,), (state,), (), True),
        FailureOutcome("no", refused=True),
        None,
    ):
        post = a_post(outcome=outcome)
        assert codec.loads(Post, codec.dumps(post), bytes_max=10**6, what="post") == post
    for request in (
        SetModeRequest("d", CacheMode.WRITE_BACK),
        MeasureRequest("d", 3, LoadPoint.OSD_BENCH_4M, 5),
    ):
        task = Task("t", request)
        assert codec.loads(Task, codec.dumps(task), bytes_max=10**6, what="task") == task


@pytest.mark.slow
@given(JSON)
@examples(300)
def test_any_other_json_is_refused_with_one_line(plain):
    line = ""
    try:
        codec.decode(Post, plain, "post")
    except MalformedError as error:
        line = error.line()
    assert line
    assert "\n" not in line


@examples()
@given(st.text(max_size=200))
def test_any_text_is_refused_with_one_line(text):
    with pytest.raises(MalformedError):
        codec.loads(Post, text, bytes_max=1000, what="post")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"surprise": 1}, "unknown field 'surprise'"),
        ({"hostname": "a\nb"}, "cannot be printed"),
        ({"hostname": "x" * 2000}, "longer than"),
        ({"version": "1"}, "whole number"),
        ({"version": True}, "whole number"),
        ({"outcome": {"kind": "magic"}}, "kind must be one of"),
        ({"outcome": {"kind": "samples", "samples_ns": [-1], "seconds": 1, "bytes_written": 0}},
         "must be from 0"),
        ({"outcome": {"kind": "samples", "samples_ns": [0] * 10_001, "seconds": 1,
                      "bytes_written": 0}}, "at most 10000"),
    ],
)
def test_what_does_not_fit_is_named(change, said):
    plain = codec.to_plain(a_post())
    plain.update(change)
    with pytest.raises(MalformedError, match=said):
        codec.decode(Post, plain, "post")


def test_a_list_that_must_not_be_empty_is_refused_where_it_is():
    plain = codec.to_plain(change(0))
    assert codec.decode(Change, plain, "change") == change(0)
    plain["setting"]["domain"]["drive_ids"] = []
    said = r"change\.setting\.domain\.drive_ids has 0 entries; at least 1"
    with pytest.raises(MalformedError, match=said):
        codec.decode(Change, plain, "change")


def test_a_missing_field_is_named():
    plain = codec.to_plain(a_post())
    del plain["probe_id"]
    with pytest.raises(MalformedError, match=r"post\.probe_id is missing"):
        codec.decode(Post, plain, "post")


@pytest.mark.parametrize("text", [
    # brackets in strings hide none
    "[" * 5000, '["]",' * 400 + "1" + "]" * 400, '["\\"]",' * 400 + "1" + "]" * 400,
    '{"a":NaN}', "", "{", "\ud800",
])
def test_deep_or_broken_text_is_refused(text):
    with pytest.raises(MalformedError):
        codec.parse_json(text, bytes_max=10_000, what="post")


def test_an_oversized_text_is_refused_before_it_is_parsed():
    with pytest.raises(MalformedError, match="longer than 10 bytes"):
        codec.parse_json(json.dumps("x" * 11), bytes_max=10, what="post")


def test_equal_states_of_drives_are_one_object_and_no_more_are_kept_than_a_bound():
    drives = [make.drive("sda", 0), make.drive("sda", 1)]
    one, other = (codec.decode(DriveReport, codec.to_plain(item), "drive") for item in drives)
    assert [one, other] == drives
    assert one.state is other.state
    assert one.drive_model is other.drive_model
    for number in range(codec.SHARED_MAX + 2):
        plain = {"vendor": "a", "model": f"{number}", "firmware": ""}
        assert codec.decode(DriveModel, plain, "it").model == f"{number}"
    (shared,) = [
        cell.cell_contents for cell in codec._object(DriveModel).__closure__
        if isinstance(cell.cell_contents, dict)
    ]
    assert 0 < len(shared) <= codec.SHARED_MAX


def test_an_answer_has_no_key_for_what_is_none_and_one_for_what_is_empty():
    reply = PollReply(6, 1.0, None, Lease("l", "d", 30.0), throwaway=False)
    told = codec.told(reply)
    assert told == {name: item for name, item in codec.to_plain(reply).items() if name != "task"}
    assert (told["throwaway"], told["lease"]["other_domain_id"]) == (False, "")
