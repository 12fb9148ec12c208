"""What counts as a change of a drive's option that is there, and as one that is taken back."""

from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from rollout_world import plan_of
from wcache.core.change.cache_mode_change import CacheModeChange
from wcache.core.change.option_change import OptionChange
from wcache.core.drive.prior import prior_from
from wcache.core.hardware.readings import OptionValue
from wcache.core.model import CacheMode, LoadPoint, Transport
from wcache.core.options.entries import names_of
from wcache.core.protocol import DrivesOutcome, FailureOutcome, StateOutcome

FOUND = {"scheduler": "none", "nr_requests": "128", "wbt_lat_usec": "0"}
MADE = {**FOUND, "scheduler": "mq-deadline", "nr_requests": "256"}


def with_options(name, values):
    drive = make.drive(name, 0)
    options = tuple(OptionValue(*item) for item in values.items())
    return replace(drive, domain_id="domain", state=replace(drive.state, options=options))


def two(first, second):
    return with_options("sda", first), with_options("sdb", second)


PRIOR = prior_from("", "domain", two(FOUND, FOUND), names_of("scheduler"))
CHANGE = OptionChange(
    "p1.0.x", "h0", "domain", ("sda", "sdb"), 0, "hdd", Transport.SCSI, "scheduler", "none",
    "mq-deadline", "", (), LoadPoint.OSD_BENCH_DEPTH1, prior=PRIOR, osd_ids=(0,),
    drive_ids=("wwn-sda", "wwn-sdb"), drive_model=make.MODEL,
)
ROLLOUT = plan_of(CHANGE)


@pytest.mark.parametrize(("drives", "there"), [
    (two(MADE, MADE), True), (two(MADE, FOUND), False), (two(FOUND, FOUND), False),
    (two(MADE, {}), False), ((), False),
])
def test_what_was_judged_counts_where_each_drive_was_read_to_have_it_still(drives, there):
    why = CHANGE.is_still(DrivesOutcome(drives))
    assert (why == "") is there
    assert there or "no longer has scheduler mq-deadline, which was judged: a reboot" in why


def test_what_could_not_be_read_does_not_count():
    assert "no answer" in CHANGE.is_still(FailureOutcome("no answer"))


def went_back(drives, ids=("wwn-sda", "wwn-sdb")):
    states = tuple(drive.state for drive in drives)
    return CHANGE.went_back(ROLLOUT, StateOutcome(states, states, (), True, ids))


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


@pytest.mark.parametrize("others", OTHERS)
def test_a_plan_is_one_for_the_drives_and_osds_that_it_names_and_for_no_others(others):
    change = replace(CHANGE, prior=type(PRIOR)())
    _, why = change.looked(ROLLOUT, DrivesOutcome(two(FOUND, FOUND)))
    assert why == ""
    seen, why = change.looked(ROLLOUT, DrivesOutcome(OTHERS[others]))
    assert why.endswith("; make a new plan")
    assert not seen.prior.known, "nothing is asked for"


@pytest.mark.parametrize("others", OTHERS)
def test_so_is_a_plan_about_the_cache_mode(others):
    change = CacheModeChange(
        "p1.0.x", "h0", "domain", ("sda", "sdb"), 0, "hdd", Transport.SCSI, CacheMode.WRITE_BACK,
        CacheMode.WRITE_THROUGH, "", (), LoadPoint.OSD_BENCH_DEPTH1, osd_ids=(0,),
        drive_ids=("wwn-sda", "wwn-sdb"), drive_model=make.MODEL,
    )
    rollout = plan_of(change, consent_turn_on=True)
    seen, why = change.looked(rollout, DrivesOutcome((A, B)))
    assert (why, seen.prior.known) == ("", True)
    seen, why = change.looked(rollout, DrivesOutcome(OTHERS[others]))
    assert why.endswith("; make a new plan")
    assert not seen.prior.known
