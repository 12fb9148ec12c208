"""Controllers by their vendors' tools: what they tell, and whatever else they may print."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from wcache.core import codec
from wcache.core.errors import MalformedError, NotReadyError, WcacheError
from wcache.core.hardware.controller import Controller, advice
from wcache_probe.linux.vendor.controllers import ControllerReader, arcconf, ssacli, storcli

STORCLI = {"Controllers": [{"Command Status": {"Status": "Success"}, "Response Data": {
    "Basics": {"Controller": 0, "Model": "MegaRAID 9361-8i"},
    "Version": {"Firmware Version": "4.680.00-8555"},
    "Capabilities": {"Current Personality": "RAID-Mode"},
    "VD LIST": [{"DG/VD": "0/0", "Cache": "NRWBD"}, {"DG/VD": "1/1", "Cache": "RWTD"}],
    "Cachevault_Info": [{"Model": "CVPM02", "State": "Failed"}],
}}]}
SSACLI = """
Smart Array P408i-a SR Gen10 in Slot 0 (Embedded)
   Controller Mode: Mixed
   Firmware Version: 1.34
   Cache Status: OK
   Drive Write Cache: Enabled
   No-Battery Write Cache: Enabled
   Battery/Capacitor Status: Failed
"""
ARCCONF = """
Controller Status                        : Optimal
Controller Model                         : Adaptec ASR8805
Firmware                                 : 7.11-0 (33173)
Controller Mode                          : RAID (Expose RAW)
Write-cache mode                         : Enabled (write-back)
Overall Backup Unit Status               : Not Ready
"""


def test_what_storcli_tells():
    (one,) = storcli("storcli64", json.dumps(STORCLI))
    assert one == Controller(
        "storcli64", "0", "MegaRAID 9361-8i", "4.680.00-8555", "RAID-Mode", "WB, WT", "Failed"
    )
    assert "`storcli64 /c0/vall set wrcache=wt`" in advice(one)[0]


def test_what_ssacli_tells():
    (one,) = ssacli("ssacli", SSACLI)
    assert (one.name, one.mode, one.battery, one.drive_cache) == ("0", "Mixed", "Failed", "Enabled")
    assert [line.split("`")[1] for line in advice(one)] == [
        "ssacli ctrl slot=0 modify nbwc=disable", "ssacli ctrl slot=0 modify dwc=disable"
    ]


def test_what_arcconf_tells():
    (one,) = arcconf("arcconf", "1", ARCCONF)
    assert (one.model, one.mode) == ("Adaptec ASR8805", "RAID (Expose RAW)")
    assert "arcconf setcache 1 logicaldrive all wt" in advice(one)[0]
    assert arcconf("arcconf", "1", "Controllers found: 0") == []


def test_a_good_battery_is_no_reason_for_advice():
    assert advice(Controller("storcli", "0", cache_policy="WB", battery="Optimal")) == ()


def test_no_word_of_a_controller_stands_in_a_command():
    assert advice(Controller("storcli", "0; reboot", cache_policy="WB", drive_cache="`id`")) == ()
    loud = Controller("ssacli", "1", drive_cache="`id`")
    assert all("`id`" not in line for line in advice(loud))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([
        "Controllers", "Response Data", "Basics", "Version", "Capabilities", "VD LIST", "Cache",
        "Cachevault_Info", "State", "Controller", "Model", "Current Personality",
    ]), inner, max_size=4), max_leaves=20,
)


@given(JSON)
def test_whatever_json_comes_is_controllers_or_one_clear_line(found):
    with suppress(MalformedError):
        for one in storcli("storcli", json.dumps(found)):
            codec.loads(Controller, codec.dumps(one), bytes_max=10_000, what="it")
            advice(one)


@given(st.text(max_size=400) | st.lists(st.sampled_from(
    ["x in Slot 1", "Controller Model : \x1b[2J", "a:b:c", ":", "Drive Write Cache: \u202e" * 9]
)).map("\n".join))
def test_whatever_text_comes_is_storable(text):
    for one in (*ssacli("ssacli", text), *arcconf("arcconf", "1", text)):
        codec.loads(Controller, codec.dumps(one), bytes_max=10_000, what="it")
    with suppress(WcacheError):
        storcli("storcli", text)


def reader(answer, calls, present=("storcli64",)):
    def run(command, seconds):
        calls.append(command)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return ControllerReader(
        lambda name: f"/opt/x/{name}" if name in present else None, run, lambda: 5.0
    )


def test_tools_are_asked_once_an_hour_and_only_to_show():
    calls = []
    found = reader(json.dumps(STORCLI), calls)
    assert found.read() == found.read()
    assert calls == [("/opt/x/storcli64", "/call", "show", "all", "J")]
    assert reader("", calls, present=()).read() == ()


@pytest.mark.parametrize("answer", [NotReadyError("storcli64 took more than 20 s"), "{", "[]"])
def test_a_tool_in_trouble_is_told_and_hides_nothing(answer):
    (one,) = reader(answer, []).read()
    assert one.trouble
    assert advice(one) == (one.trouble,)


def test_an_admin_sees_controllers_with_the_commands_to_type():
    mgr = FakeMgr(("h1", (make.drive("sda", 0),)))
    mgr.report_all()
    assert "no probe reported a controller" in mgr.command("controller ls")[1]
    report = mgr.engine.hosts.reports["h1"]
    told = make.report("h1", *report.drives, controllers=tuple(ssacli("ssacli", SSACLI)))
    mgr.engine.hosts.reports["h1"] = told
    text = mgr.command("controller ls")[1]
    assert "Smart Array P408i-a SR Gen10" in text
    assert "h1 ssacli 0: " in text
    assert "ssacli ctrl slot=0 modify dwc=disable" in text
