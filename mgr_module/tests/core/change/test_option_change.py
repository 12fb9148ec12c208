"""What counts as a change of a drive's option that is there, and as one that is taken back."""

from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from rollout_world import mode_change, plan_of
from wcache.core.change.change import Change
from wcache.core.config_database import ConfigEdit, ConfigState
from wcache.core.drive.prior import prior_from
from wcache.core.hardware import OptionValue
from wcache.core.model import LoadPoint, Transport
from wcache.core.options.entries import names_of
from wcache.core.options.option import SharedCache
from wcache.core.protocol import DrivesOutcome, FailureOutcome, StateOutcome
from wcache.core.setting.config_setting import ConfigSetting
from wcache.core.setting.domain_settings import OptionSetting
from wcache.core.setting.setting import CacheDomain, Made, Warrant

FOUND = {"scheduler": "none", "nr_requests": "128", "wbt_lat_usec": "0"}
MADE = {**FOUND, "scheduler": "mq-deadline", "nr_requests": "256"}


def with_options(name, values):
    drive = make.drive(name, 0)
    options = tuple(OptionValue(*item) for item in values.items())
    return replace(drive, domain_id="domain", state=replace(drive.state, options=options))


def two(first, second):
    return with_options("sda", first), with_options("sdb", second)


PRIOR = prior_from("", "domain", two(FOUND, FOUND), names_of("scheduler"))
DOMAIN = CacheDomain(
    "h0", "domain", ("sda", "sdb"), Transport.SCSI, (0,), ("wwn-sda", "wwn-sdb"),
    drive_model=make.MODEL,
)
CHANGE = Change(
    "p1.0.x", OptionSetting(DOMAIN, "scheduler", "none", "mq-deadline"), "hdd", "",
    load_point=LoadPoint.OSD_BENCH_DEPTH1, prior=PRIOR,
)


@pytest.mark.parametrize(("drives", "there"), [
    (two(MADE, MADE), True), (two(MADE, FOUND), False), (two(FOUND, FOUND), False),
    (two(MADE, {}), False), ((), False),
])
def test_what_was_judged_counts_where_each_drive_was_read_to_have_it_still(drives, there):
    why = CHANGE.setting.is_still(DrivesOutcome(drives))
    assert (why == "") is there
    assert there or "no longer has scheduler mq-deadline, which was judged: a reboot" in why


def test_what_could_not_be_read_does_not_count():
    assert "no answer" in CHANGE.setting.is_still(FailureOutcome("no answer"))


def went_back(drives, ids=("wwn-sda", "wwn-sdb")):
    states = tuple(drive.state for drive in drives)
    return CHANGE.went_back(StateOutcome(states, states, (), True, ids))[1]


@pytest.mark.parametrize("name", FOUND)
def test_it_is_back_where_each_option_of_each_drive_was_read_as_it_was(name):
    assert went_back(two(FOUND, FOUND)).not_back == ""
    other = went_back(two(FOUND, {**FOUND, name: "1"}))
    assert other.not_back == f"{name} of sdb is 1 and was {FOUND[name]}"


@pytest.mark.parametrize(("drives", "ids", "said"), [
    (two(FOUND, {}), ("wwn-sda", "wwn-sdb"), "scheduler of sdb is unknown and was none"),
    (two(FOUND, FOUND)[:1], ("wwn-sda",), "sdb was not read"),
    (two(FOUND, FOUND), (), "sda was not read"),
])
def test_what_was_not_read_is_not_back(drives, ids, said):
    assert went_back(drives, ids).not_back == said


A, B = two(FOUND, FOUND)
OTHERS = {
    "replaced": (A, replace(B, drive_id="new")),
    "one more": (A, B, with_options("sdc", FOUND)),
    "gone": (A,),
    "another OSD on it": (A, replace(B, uses=make.drive("sdb", 7).uses)),
}


@pytest.mark.parametrize("change", [
    replace(CHANGE, prior=type(PRIOR)()), mode_change("p1.0.x", DOMAIN),
], ids=["an option", "the cache mode"])
@pytest.mark.parametrize("others", OTHERS)
def test_a_plan_is_one_for_the_drives_and_osds_that_it_names_and_for_no_others(change, others):
    warrant = plan_of(change, consent_turn_on=True).warrant(change)
    seen, why = change.looked(DrivesOutcome((A, B)), warrant)
    assert (why, seen.prior.known) == ("", True)
    seen, why = change.looked(DrivesOutcome(OTHERS[others]), warrant)
    assert why.endswith("; make a new plan")
    assert not seen.prior.known, "nothing is asked for"


def test_what_a_look_has_found_is_no_answer_to_a_change_and_the_other_way_round():
    edit = ConfigEdit("osd.0", "osd_memory_target", "2", "1")
    setting, warrant = ConfigSetting("memory", (edit,)), Warrant("p1.0.x")
    set_now = setting.apply(warrant)
    made, _ = setting.made(ConfigState(set_now, ("2",), written=1), warrant, again=False)
    assert made is Made.YES
    seen = ConfigState(setting.look(()), ("2",), written=1)
    made, why = setting.made(seen, warrant, again=False)
    assert (made, why) == (Made.UNSURE, "the config database gave an unexpected answer")
    assert setting.went_back(ConfigState(setting.look(()), ("1",)), warrant.prior).not_back
    assert setting.looked(ConfigState(setting.look(()), ("1",)), warrant).why == ""
    assert setting.looked(ConfigState(set_now, ("1",)), warrant).why


def test_writeback_is_agreed_to_also_where_nothing_is_told_of_the_cache_device(monkeypatch):
    monkeypatch.setattr(SharedCache, "words", "")
    asked = OptionSetting(DOMAIN, "cache_mode", "writethrough", "writeback")
    assert asked.needs_consent
    assert not replace(asked, before="writeback", after="writethrough").needs_consent
