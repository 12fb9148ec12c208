"""What is said across protocols: the same bytes for ever."""

import json

import pytest
from wcache.core import across
from wcache.core.errors import MalformedError
from wcache.core.protocol import PROTOCOL_VERSION, Hello, Lease, PollReply, Post
from wcache.core.versions import dumps

# Every version ever made reads and writes these.  They are never changed, nor are others added.
HELLO = '{"version":7,"probe_id":"0f","instance_id":"i1"}'
NOTHING = '{"version":7,"across":"nothing","next_poll_s":30.0}'
RESTORE = '{"version":7,"across":"restore","next_poll_s":1.0,"keys":["action/p1.0","lease/0x5"]}'
REPORT = (
    '{"version":7,"across":"report","hostname":"h1","probe_id":"0f","instance_id":"i1",'
    '"keys":["action/p2.0"],"restored":["action/p1.0"],"failed":{"action/p2.0":"it hangs"}}'
)


def test_a_probe_and_a_module_of_all_versions_say_it_in_these_bytes():
    assert across.hello_in(json.loads(HELLO)) == across.Caller(7, "0f", "i1")
    nothing, restore = across.Order(7, 30.0), across.Order(7, 1.0, ("action/p1.0", "lease/0x5"))
    report = across.Report(
        7, "h1", "0f", "i1", ("action/p2.0",), ("action/p1.0",), (("action/p2.0", "it hangs"),)
    )
    assert [across.encode(one) for one in (nothing, restore, report)] == [NOTHING, RESTORE, REPORT]
    assert across.order_in(json.loads(NOTHING)) == nothing
    assert across.order_in(json.loads(RESTORE)) == restore
    assert across.report_in(json.loads(REPORT)) == report


def test_a_message_of_this_protocol_begins_as_a_hello_that_all_versions_read():
    for text in (
        dumps(Hello(PROTOCOL_VERSION, "0f", "i1")), dumps(Post(PROTOCOL_VERSION, "0f", "i1"))
    ):
        plain = json.loads(text)
        assert across.hello_in(plain) == across.Caller(PROTOCOL_VERSION, "0f", "i1")
        assert not across.is_across(plain)
    assert not across.is_across(json.loads(dumps(
        PollReply(PROTOCOL_VERSION, 1.0, None, Lease("l", "d", 30.0))
    )))


@pytest.mark.parametrize("change", [
    {"version": "7"}, {"version": True}, {"next_poll_s": 1e9}, {"next_poll_s": "1"},
    {"next_poll_s": 0}, {"keys": "all"}, {"keys": [1]}, {"keys": ["a\nb"]}, {"keys": ["x"] * 2000},
    {"keys": ["x" * 1000]},
])
def test_an_order_that_makes_no_sense_is_refused(change):
    with pytest.raises(MalformedError):
        across.order_in({**json.loads(RESTORE), **change})


@pytest.mark.parametrize("change", [
    {"version": None}, {"probe_id": 7}, {"keys": None}, {"restored": [None]}, {"failed": []},
    {"failed": {"k": 1}}, {"failed": {"k": "a\nb"}}, {"hostname": "x" * 1000}, {"across": "order"},
])
def test_a_report_that_makes_no_sense_is_refused(change):
    with pytest.raises(MalformedError):
        across.report_in({**json.loads(REPORT), **change})
