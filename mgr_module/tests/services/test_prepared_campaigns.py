"""Campaigns are chosen while others have the lock; what moves meanwhile is seen.

Drives of OSDs that move data come last, and those of OSDs that are not well are passed over.
"""

from dataclasses import replace

import pytest
import wcache.services.campaigns as campaigns
from module_world import a_mgr, measured, of_one_model, ok, refused, said, start
from wcache.core.errors import Refusal, RefusalKind
from wcache.core.host_report import JournalNote, KeptPrior, PowerCut
from wcache.core.model import CacheMode
from wcache.core.record import Precondition
from wcache.core.scope import Scope
from wcache.services.campaigns import PREPARED_MAX


def meanwhile(monkeypatch, mgr, happens, times=1):
    """What happens right after drives are chosen, the first times; returns who had the lock."""
    select, free = campaigns.select, []

    def chosen(*about, **how):
        found = select(*about, **how)
        free.append(mgr.engine.free)
        if len(free) <= times:
            happens(found.chosen)
        return found

    monkeypatch.setattr(campaigns, "select", chosen)
    return free


@pytest.mark.parametrize(("prefix", "arguments"), [
    ("campaign start", {"loads": "depth1"}), ("try", {}),
])
def test_others_have_the_lock_while_drives_are_chosen(monkeypatch, prefix, arguments):
    mgr = a_mgr()
    free = meanwhile(monkeypatch, mgr, lambda chosen: said(mgr, "status"))
    code, _, error = mgr.command(prefix, accept_cost=True, **arguments)
    assert code == 0, error
    assert free
    assert all(free)


def test_auto_chooses_its_drives_while_others_have_the_lock(monkeypatch):
    mgr = a_mgr()
    free = meanwhile(monkeypatch, mgr, lambda chosen: said(mgr, "status"))
    ok(mgr.command("auto", mode="apply"))
    for _ in range(40):
        if mgr.inside.campaigns:
            break
        mgr.step()
    assert mgr.inside.campaigns
    assert all(free)


def told_anew(mgr, one, **fields):
    """The host of a chosen drive reports something else."""
    report = mgr.inside.hosts.reports[one.hostname]
    mgr.inside.hosts.reports[one.hostname] = replace(report, **fields)


def unprepared(mgr, one):
    drives = mgr.inside.hosts.reports[one.hostname].drives
    told_anew(mgr, one, drives=tuple(
        replace(drive, refusals=(Refusal(RefusalKind.NOT_PREPARED, "why"),))
        if drive.domain_id == one.domain_id else drive for drive in drives
    ))


def owed(mgr, one):
    told_anew(mgr, one, journal=(JournalNote(
        "lease/x", one.domain_id, "", (KeptPrior(one.drives[0].drive_id, CacheMode.WRITE_BACK),)
    ),))


@pytest.mark.parametrize("moves", [unprepared, owed])
def test_a_drive_of_which_its_host_tells_something_else_meanwhile_is_not_begun(
    monkeypatch, moves
):
    mgr, gone = a_mgr(), []

    def happens(chosen):
        gone.append(chosen[0].domain_id)
        moves(mgr, chosen[0])

    meanwhile(monkeypatch, mgr, happens)
    start(mgr, drives_per_model=1)
    begun = [run.spec.domain_id for run in mgr.inside.runs.values()]
    assert len(begun) == 1
    assert gone[0] not in begun


def other_host(mgr, chosen):
    mgr.inside.hosts.reports["h9"] = replace(
        mgr.inside.hosts.reports["h1"], hostname="h9", drives=()
    )


def lost_writes(mgr, chosen):
    drive = chosen[0].drives[0]
    report = mgr.inside.hosts.reports["h2"]
    mgr.inside.hosts.reports["h2"] = replace(report, power_cuts=(PowerCut(
        "w1", drive.drive_id, drive.drive_model, CacheMode.WRITE_BACK, 9, 9, 1, 5.0
    ),))


def other_options(mgr, chosen):
    mgr.options = replace(mgr.options, settle_s=mgr.options.settle_s + 1.0)


def fewer_results(mgr, chosen):
    mgr.inside.analyses.results.clear()


@pytest.mark.slow
@pytest.mark.parametrize("moves", [other_host, lost_writes, other_options, fewer_results])
def test_where_anything_moves_that_it_goes_by_it_is_chosen_anew(monkeypatch, moves):
    mgr = measured()
    free = meanwhile(monkeypatch, mgr, lambda chosen: moves(mgr, chosen))
    start(mgr)
    assert len(free) == 2


def test_what_other_drives_do_meanwhile_is_nothing_to_it(monkeypatch):
    mgr = a_mgr()
    free = meanwhile(monkeypatch, mgr, lambda chosen: unprepared(mgr, next(
        one for one in campaigns.candidates(
            mgr.inside.hosts.reports.values(), mgr.view.state, Scope()
        ) if one.key not in {each.key for each in chosen}
    )))
    start(mgr, drives_per_model=1)
    assert len(free) == 1


def test_of_two_that_are_prepared_at_once_one_is_begun(monkeypatch):
    mgr = a_mgr()
    meanwhile(monkeypatch, mgr, lambda chosen: start(mgr))
    code, _, error = mgr.command("campaign start", loads="depth1", accept_cost=True)
    assert code != 0
    assert "c1 is not over yet" in error
    assert {*mgr.inside.campaigns} == {"c1"}


def test_a_freeze_meanwhile_holds(monkeypatch):
    mgr = a_mgr()
    meanwhile(monkeypatch, mgr, lambda chosen: ok(mgr.command("freeze")))
    assert "frozen" in refused(mgr, "campaign start", loads="depth1", accept_cost=True)


def test_where_it_moves_again_and_again_it_is_asked_for_anew(monkeypatch):
    mgr = a_mgr()
    free = meanwhile(monkeypatch, mgr, lambda chosen: other_options(mgr, chosen), times=99)
    error = refused(mgr, "campaign start", loads="depth1", accept_cost=True)
    assert "changes while it is chosen" in error
    assert len(free) == PREPARED_MAX
    assert mgr.inside.campaigns == {}


# ---- which drives are chosen where OSDs are not well, or move data


def chosen_osds(mgr):
    return {osd_id for run in mgr.inside.runs.values() for osd_id in run.spec.osd_ids}


def test_many_that_are_not_well_are_one_line_with_their_number():
    mgr = of_one_model(hosts=3, each=10)
    mgr.view.state = replace(mgr.view.state, ill=dict.fromkeys(range(12), "is near full"))
    told = said(mgr, "campaign start", dry_run=True, loads="depth1")["forecast"]["skipped"]
    lines = [line for line in told if "passed over" in line]
    assert len(lines) == 1
    assert lines[0].startswith("12 drives passed over, of which an OSD is near full")
    assert "and 4 more" in lines[0]
    told = said(mgr, "try", dry_run=True)["forecast"]["skipped"]
    assert any("12 drives passed over" in line for line in told)


def test_those_that_move_data_come_last_and_are_counted():
    mgr = of_one_model(hosts=1, each=6)
    mgr.view.state = replace(mgr.view.state, busy=frozenset([0, 1, 2]))
    start(mgr, loads="depth1", drives_per_model=4)
    assert {3, 4, 5} < chosen_osds(mgr)
    told = said(mgr, "campaign show", campaign_id="c1")["skipped"]
    assert any("2 more drives of this model are not sampled (those that come last: 2 move data)"
               in line for line in told)


def test_those_that_may_get_data_come_last_too_and_are_measured_where_no_others_are():
    mgr, asked = of_one_model(hosts=1, each=6), []
    mgr.view.state = replace(
        mgr.view.state, missed=(Precondition.NO_RECOVERY,), busy=frozenset([0]),
        gets_data=lambda osd_id: asked.append(osd_id) or osd_id in (1, 2),
    )
    forecast = said(
        mgr, "campaign start", dry_run=True, loads="depth1", drives_per_model=3
    )["forecast"]
    assert any("3 more drives of this model are not sampled (those that come last: 2 may get data, "
               "1 move data)" in line for line in forecast["skipped"]), forecast["skipped"]
    asked.clear()
    said(mgr, "campaign start", dry_run=True, loads="depth1", drives_per_model=1)
    assert asked == [1, 2, 3], "nobody is asked once enough are found"
    start(mgr, loads="depth1", drives_per_model=4)
    assert {3, 4, 5} < chosen_osds(mgr)
    mgr.settle()


def test_pools_that_a_drive_that_hangs_stops_are_told_before_it_is_toggled():
    mgr = of_one_model()
    assert "min_size" not in ok(mgr.command("campaign start", dry_run=True, loads="depth1"))
    mgr.view.state = replace(mgr.view.state, strict_pools=("rbd",))
    words = "pools with min_size = size: rbd; a drive that hangs stops the writes"
    assert words in ok(mgr.command("campaign start", dry_run=True, loads="depth1"))
    assert words in ok(mgr.command("try", dry_run=True))
    assert words not in ok(mgr.command("campaign start", dry_run=True, observe=True))
