"""Controllers by their vendors' tools: what they tell, and whatever else they may print."""

import json
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from wcache.core import codec
from wcache.core.errors import MalformedError, NotReadyError, WcacheError
from wcache.core.hardware import Controller, advice
from wcache_probe.linux.vendor.controllers import (
    ControllerReader,
    arcconf,
    arcconf_numbers,
    drives_told,
    merged,
    ssacli,
    storcli,
    volumes_told,
)
from wcache_probe.linux.vendor.tool import PLACES

STORCLI = {"Controllers": [{"Command Status": {"Status": "Success"}, "Response Data": {
    "Basics": {"Controller": 0, "Model": "MegaRAID 9361-8i"},
    "Version": {"Firmware Version": "4.680.00-8555"},
    "Capabilities": {"Current Personality": "RAID-Mode"},
    "VD LIST": [{"DG/VD": "0/0", "Cache": "NRWBD"}, {"DG/VD": "1/1", "Cache": "RWTD"}],
    "Cachevault_Info": [{"Model": "CVPM02", "State": "Failed"}],
}}]}
FAILED = {"Controllers": [{"Command Status": {
    "Controller": 0, "Status": "Failure", "Description": "No enclosure found.",
}}]}


def storcli_answer(**data):
    return json.dumps({"Controllers": [
        {"Command Status": {"Controller": 0, "Status": "Success"}, "Response Data": data}
    ]})


VOLUMES = storcli_answer(**{
    "/c0/v0": [{"DG/VD": "0/0", "Cache": "NRWBD"}],
    "VD0 Properties": {"Disk Cache Policy": "Disk's Default"},
    "VD1 Properties": {"Disk Cache Policy": "Disabled"},
})
DRIVES = storcli_answer(**{
    name: value
    for slot, cache in enumerate(({"Write Cache": "Enabled"}, {"Write cache": "Enabled"}, {}))
    for name, value in (
        (f"Drive /c0/e8/s{slot}", [{"Med": "HDD"}]),
        (f"Drive /c0/e8/s{slot} - Detailed Information", {
            f"Drive /c0/e8/s{slot} State": {"Drive Temperature": "30C"},
            f"Drive /c0/e8/s{slot} Device attributes": {"Link Speed": "6.0Gb/s", **cache},
        }),
    )
})
SSACLI = """
Smart Array P408i-a SR Gen10 in Slot 0 (Embedded)
   Controller Mode: Mixed
   Firmware Version: 1.34
   Cache Status: OK
   Drive Write Cache: Enabled
   No-Battery Write Cache: Enabled
   Battery/Capacitor Status: Failed
"""
SSACLI_BY_USE = """
HPE Smart Array P816i-a SR Gen10 in Slot 0 (Embedded)
   Controller Mode: Mixed
   Cache Status: OK
   Configured Drive Write Cache Policy: Default
   Unconfigured Drive Write Cache Policy: Disabled
   HBA Drive Write Cache Policy: Enabled
   Battery/Capacitor Status: OK
"""
ARCCONF = """
Controller Status                        : Optimal
Controller Model                         : Adaptec ASR8805
Firmware                                 : 7.11-0 (33173)
Controller Mode                          : RAID (Expose RAW)
Write-cache mode                         : Enabled (write-back)
Overall Backup Unit Status               : Not Ready
"""
ARCCONF_DRIVES = """
Physical Device information
      Device #0
         Model                              : WD30EFRX
         Write Cache                        : Enabled (write-back)
      Device #1
         Write Cache                        : Disabled (write-through)
"""
ARCCONF_BY_USE = """
   Controller Model                         : SmartRAID 3154-8i
   Backup Power Status                      : Ready
   Physical Drive Write Cache Policy Information
   Configured Drives                        : Default
   Unconfigured Drives                      : Default
   HBA Drives                               : Enabled
"""
ARCCONF_LIST = """
Controllers found: 2
Controller information
   Controller 1:             : Optimal, Slot 1, RAID (Expose RAW), Adaptec ASR8805, 5D, 50000
   Controller 3:             : Optimal, Slot 2, HBA, Adaptec ASR8885, 5D, 50000
Command completed successfully.
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
    assert "arcconf setcache 1 logicaldrive N wt" in advice(one)[0]
    assert arcconf("arcconf", "1", "Controllers found: 0") == []


def test_storcli_tells_what_volumes_set_and_what_each_drive_says():
    (one,) = storcli("storcli64", json.dumps(STORCLI))
    empty = json.dumps(FAILED)
    found = merged(
        one, volumes_told("storcli64", VOLUMES),
        [drives_told("storcli64", DRIVES), drives_told("storcli64", empty)],
    )
    assert found.drive_cache == "Disk's Default, Disabled"
    assert found.drives_own == "2 Enabled, 1 not told"
    assert "`storcli64 /c0/vall set pdcache=off`" in advice(found)[1]


def test_ssacli_that_has_a_setting_for_each_use_of_a_drive():
    (one,) = ssacli("ssacli", SSACLI_BY_USE)
    assert one.drive_cache == "configured: Default; unconfigured: Disabled; hba: Enabled"
    assert [line.split("`")[1] for line in advice(one)] == [
        "ssacli ctrl slot=0 modify dwc=disable usage=configured forced"
    ]
    assert advice(replace(one, drive_cache="configured: Disabled; hba: Enabled")) == ()


def test_arcconf_tells_of_every_controller_and_of_every_drive():
    assert arcconf_numbers(ARCCONF_LIST) == ["1", "3"]
    (one,) = arcconf("arcconf", "3", ARCCONF + ARCCONF_DRIVES)
    assert one.drives_own == "1 Disabled (write-through), 1 Enabled (write-back)"
    assert "`arcconf setcache 3 deviceall disable`" in advice(one)[1]
    (newer,) = arcconf("arcconf", "1", ARCCONF_BY_USE)
    assert (newer.battery, newer.drive_cache) == (
        "Ready", "configured: Default; unconfigured: Default; hba: Enabled"
    )
    assert "`arcconf setcache 1 drivewritecachepolicy configured 2`" in advice(newer)[0]


@pytest.mark.parametrize(("own", "setting", "policy", "advised"), [
    ("", "", "WB", False), ("2 Enabled", "", "WB", True), ("2 Enabled", "", "", False),
    ("2 Disabled", "Disk's Default", "WB", False), ("2 Enabled", "Disabled", "WB", False),
    ("1 Disabled, 1 not told", "", "WB", True), ("", "Disabled, Enabled", "WB", True),
])
def test_caches_of_drives_in_volumes_are_a_matter_until_they_are_known_to_be_off(
    own, setting, policy, advised
):
    one = Controller(
        "storcli", "0", cache_policy=policy, battery="Optimal", drive_cache=setting, drives_own=own
    )
    assert bool(advice(one)) is advised


@pytest.mark.parametrize("tool", ["ssacli", "arcconf", "perccli64", "storcli2"])
@pytest.mark.parametrize(("word", "advised"), [
    ("Disable", False), ("Disabled", False), ("disable", False), ("Off", False), ("OFF", False),
    ("Disabled (write-through)", False), ("Default", True), ("Enable", True), ("Unknown", True),
])
def test_each_word_for_a_cache_that_is_off_is_known_wherever_it_stands(tool, word, advised):
    for setting in (word, f"configured: {word}; unconfigured: Default; hba: Enabled"):
        assert bool(advice(Controller(tool, "1", drive_cache=setting))) is advised
    own = Controller(tool, "1", cache_policy="WB", battery="OK", drives_own=f"2 {word}")
    assert bool(advice(own)) is advised


STORCLI2 = storcli_answer(**{
    "Basics": {"Product Name": "MegaRAID 9660-16i", "Chip Name": "SAS4116"},
    "Version": {"Firmware Version": "8.12.1.0"},
    "Status": {"Controller Personality": "RAID"},
    "VD LIST": [{"CurrentCache": "NR,WB"}, {"CurrentCache": "R,WT"}],
    "Energy Pack Info": [{"Type": "Supercap", "Status": "Optimal"}],
})
STORCLI2_VOLUMES = storcli_answer(**{"Virtual Drives": [
    {"VD Info": {}, "VD Properties": {"Drive Write Cache Policy": "Default"}}, "odd",
]})
STORCLI2_DRIVES = storcli_answer(**{"Drives List": [
    {"Drive Detailed Information": {"LU/NS Properties": {"Current Write Cache": "On"}}},
    {"Drive Detailed Information": {}}, 7,
]})


@pytest.mark.parametrize("tool", ["storcli2", "perccli2"])
def test_the_tools_of_newer_adapters_are_read_and_no_words_are_put_into_their_mouth(tool):
    answers = [STORCLI2, STORCLI2_VOLUMES, STORCLI2_DRIVES, json.dumps(FAILED)]
    (one,) = reader(answers, [], present=(tool,)).read()
    assert one == Controller(
        tool, "0", "MegaRAID 9660-16i", "8.12.1.0", "RAID", "WB, WT", "Optimal", "Default", "",
        "1 On, 1 not told",
    )
    (line,) = advice(one)
    assert f"turn them off with {tool}" in line
    assert "`" not in line, "which words set a cache there is not known"


def test_tools_are_looked_for_where_their_vendors_put_them():
    assert {"/opt/MegaRAID/storcli2", "/opt/MegaRAID/perccli2"} <= set(PLACES)


def test_no_word_of_a_controller_stands_in_a_command():
    assert advice(Controller("storcli", "0; reboot", cache_policy="WB", drive_cache="`id`")) == ()
    loud = Controller("ssacli", "1", drive_cache="`id`")
    assert all("`id`" not in line for line in advice(loud))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([
        "Controllers", "Response Data", "Basics", "Version", "Capabilities", "VD LIST", "Cache",
        "Cachevault_Info", "State", "Controller", "Model", "Current Personality", "VD0 Properties",
        "Disk Cache Policy", "Command Status", "Drive /c0/s1 - Detailed Information",
        "Drive /c0/s1 Device attributes", "Write Cache",
    ]), inner, max_size=4), max_leaves=20,
)


@given(JSON)
def test_whatever_json_comes_is_controllers_or_one_clear_line(found):
    with suppress(MalformedError):
        text = json.dumps(found)
        told = volumes_told("storcli", text), [drives_told("storcli", text)] * 2
        for one in (merged(each, *told) for each in storcli("storcli", text)):
            codec.loads(Controller, codec.dumps(one), bytes_max=10_000, what="it")
            advice(one)


@given(st.text(max_size=400) | st.lists(st.sampled_from(
    ["x in Slot 1", "Controller Model : \x1b[2J", "a:b:c", ":", "Drive Write Cache: \u202e" * 9,
     "Write Cache: \x00" + "x" * 500, "Configured Drives:" + "y" * 500, "Controller 9999: z"]
)).map("\n".join))
def test_whatever_text_comes_is_storable(text):
    assert all(number.isdigit() for number in arcconf_numbers(text))
    for one in (*ssacli("ssacli", text), *arcconf("arcconf", "1", text)):
        advice(one)
        codec.loads(Controller, codec.dumps(one), bytes_max=10_000, what="it")
    with suppress(WcacheError):
        storcli("storcli", text)


def reader(answers, calls, present=("storcli64",), clock=lambda: 5.0):
    """One whose tool gives these answers in turn, the last one from then on."""
    left = list(answers)

    def run(command, seconds):
        calls.append((*command, seconds))
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    return ControllerReader(
        lambda name: f"/opt/x/{name}" if name in present else None, run, clock
    )


def test_tools_are_asked_once_an_hour_and_only_to_show():
    calls = []
    found = reader([json.dumps(STORCLI), VOLUMES, DRIVES, json.dumps(FAILED)], calls)
    (one,) = found.read()
    assert found.read() == (one,)
    assert (one.drive_cache, one.drives_own) == (
        "Disk's Default, Disabled", "2 Enabled, 1 not told"
    )
    assert [call[1:-1] for call in calls] == [
        (what, "show", "all", "J")
        for what in ("/call", "/call/vall", "/call/eall/sall", "/call/sall")
    ]
    assert reader([""], calls, present=()).read() == ()


def test_every_controller_that_arcconf_lists_is_asked():
    calls = []
    found = reader([ARCCONF_LIST, ARCCONF, ARCCONF_BY_USE], calls, present=("arcconf",)).read()
    assert [one.name for one in found] == ["1", "3"]
    assert [call[1:-1] for call in calls] == [("list",), ("getconfig", "1"), ("getconfig", "3")]


def test_all_questions_to_a_tool_together_have_one_bound():
    now = iter(range(0, 1000, 7))
    calls = []
    (one,) = reader([json.dumps(STORCLI)], calls, clock=lambda: next(now)).read()
    assert len(calls) == 2, "the third would begin after 20 s"
    assert all(0 < call[-1] < 20 for call in calls)
    assert "took more than 20 s" in one.trouble


@pytest.mark.parametrize("answer", [NotReadyError("storcli64 took more than 20 s"), "{", "[]"])
def test_what_drives_say_may_be_missing_and_hides_no_controller(answer):
    (one,) = reader([json.dumps(STORCLI), VOLUMES, answer], []).read()
    assert one.model == "MegaRAID 9361-8i"
    assert "the caches of its drives could not be read" in one.trouble
    assert advice(one)[0] == one.trouble
    assert "wrcache=wt" in advice(one)[1]


@pytest.mark.parametrize("answer", [NotReadyError("storcli64 took more than 20 s"), "{", "[]"])
def test_a_tool_in_trouble_is_told_and_hides_nothing(answer):
    (one,) = reader([answer], []).read()
    assert one.trouble
    assert advice(one) == (one.trouble,)


def test_an_admin_sees_controllers_with_the_commands_to_type():
    mgr = FakeMgr(("h1", (make.drive("sda", 0),)))
    mgr.report_all()
    assert "no probe reported a controller" in mgr.command("controller ls")[1]
    report = mgr.inside.hosts.reports["h1"]
    told = make.report("h1", *report.drives, controllers=tuple(ssacli("ssacli", SSACLI)))
    mgr.inside.hosts.reports["h1"] = told
    text = mgr.command("controller ls")[1]
    assert {"Smart", "Array", "P408i-a", "SR", "Gen10"} <= set(text.split())
    assert "h1 ssacli 0: " in text
    assert "ssacli ctrl slot=0 modify dwc=disable" in text
