"""What is asked of OSDs to give them options at run time, and what is made of their answers."""

import json
import threading

import pytest
from mgr_fakes import builders as make
from wcache.ceph.command import Osds
from wcache.ceph.osd_options import CephOsdOptions
from wcache.core.experiment.osd_option import NONE, perform
from wcache.core.options.entries import parse_trial
from wcache.core.protocol import FailureOutcome, LookRequest, OptionsRequest

NAME = "bluefs_buffered_io"
TRIAL = parse_trial(f"{NAME}=true,false")
DRIVE = make.drive("sda", 3)


class Mgr:
    """OSDs that answer at once what `says` has for a prefix; keeps what they were asked."""

    def __init__(self, **says):
        self.says = {"config diff get": {"diff": {}}, **says}
        self.asked = []

    def send_command(self, result, _kind, who, command, _tag):
        asked = json.loads(command)
        self.asked.append((who, asked))
        said = self.says.get(asked["prefix"])
        result.complete(0, "" if said is None else json.dumps(said), "")


def outcome(mgr, request, up=True, program=None):
    """What the port tells of one program, at most once."""
    told, over = [], threading.Event()

    def done(found):
        told.append(found)
        over.set()

    osds = CephOsdOptions(Osds(mgr, lambda osd_id: up))
    osds.start(3, program or (lambda: perform(request, TRIAL, 3, [DRIVE])), done)
    assert over.wait(20)
    return told[0]


def value_in(found):
    (state,) = found.after
    return state.option(NAME)


@pytest.mark.parametrize(
    ("diff", "value"),
    [
        ({}, NONE), ({NAME: {"default": True, "mon": False, "final": False}}, NONE),
        ({NAME: {"default": True, "override": False, "final": False}}, "false"),
        ({NAME: {"default": True, "override": True, "final": True}}, "true"),
    ],
)
def test_what_an_osd_has_at_run_time_is_told_from_what_is_configured(diff, value):
    mgr = Mgr(**{"config diff get": {"diff": diff}})
    found = outcome(mgr, OptionsRequest("domain-sda"))
    assert value_in(found) == value
    assert mgr.asked == [("3", {"prefix": "config diff get", "var": NAME, "format": "json"})]


@pytest.mark.parametrize("said", [None, [], {}, {"nodiff": {}}])
def test_an_answer_that_is_none_proves_nothing(said):
    found = outcome(Mgr(**{"config diff get": said}), OptionsRequest("domain-sda"))
    assert isinstance(found, FailureOutcome)


def test_a_program_that_fails_by_itself_is_told_too():
    def broken():
        raise KeyError("x")

    found = outcome(Mgr(), None, program=broken)
    assert "could not be set or read" in found.message
    assert found.restored is False


def test_what_is_begun_for_an_osd_ends_before_the_next_begins():
    order, over, hold = [], threading.Event(), threading.Event()
    osds = CephOsdOptions(Osds(Mgr()))

    def program(name, wait=False):
        def make_it():
            order.append(f"{name} begins")
            if wait:
                assert hold.wait(20)
            order.append(f"{name} ends")
            return perform(LookRequest("domain-sda"), TRIAL, 3, [DRIVE])
        return make_it

    osds.start(3, program("first", wait=True), lambda found: None)
    osds.start(3, program("second"), lambda found: over.set())
    hold.set()
    assert over.wait(20)
    assert order == ["first begins", "first ends", "second begins", "second ends"]


class SomeAnswer(Mgr):
    """OSD 4 gives no answer, OSD 5 one that is none, the others that of a release."""

    def send_command(self, result, _kind, who, command, _tag):
        self.asked.append(who)
        says = {"4": None, "5": "no JSON"}.get(who, json.dumps({NAME: True}))
        if says is not None:
            result.complete(0, says, "")


def test_values_are_told_of_those_osds_alone_that_answer_in_time():
    mgr = SomeAnswer()
    osds = CephOsdOptions(Osds(mgr, lambda osd_id: osd_id != 6))
    assert osds.values([3, 4, 5, 6], [NAME], 0.2) == {3: {NAME: "true"}}
    assert mgr.asked == ["3", "4", "5"]
