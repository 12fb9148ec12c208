"""Campaigns are chosen while others have the lock; what moves meanwhile is seen."""

from dataclasses import replace

import pytest
import wcache.services.campaigns as campaigns
from module_world import a_mgr, measured, ok, refused, said, start
from wcache.core.errors import Refusal, RefusalKind
from wcache.core.host_report import JournalNote, KeptPrior, PowerCut
from wcache.core.model import CacheMode
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
