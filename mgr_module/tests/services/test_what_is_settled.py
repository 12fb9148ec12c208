"""What is owed or in dispute is settled by an admin's word or by a look, and by nothing else."""

import errno
from dataclasses import replace

import pytest
from module_world import WB, a_mgr, measured, ok, refused, start
from prior_world import accept, errors, held_and_lost, wiped
from wcache.core.protocol import Notice, ReleaseRequest, StateOutcome


def owed(mgr):
    """The run that owes a domain of h1, the domain, and what it was before."""
    probe, domain_id = held_and_lost(mgr)
    machine = next(
        one for one in mgr.inside.runs.values() if domain_id in one.spec.domain_ids
    )
    return probe, machine, domain_id


@pytest.mark.parametrize("disputed", [False, True])
def test_an_answer_that_all_is_back_settles_what_is_owed_and_nothing_that_is_disputed(disputed):
    mgr = a_mgr()
    _, machine, domain_id = owed(mgr)
    if disputed:
        machine.state = replace(machine.state, dispute="somebody changed it")
    drives = machine.state.prior_of(domain_id).drives
    states = tuple(item.state for item in drives)
    ids = tuple(item.drive_id for item in drives)
    learned = mgr.inside.unrestored.released(
        "h1", ReleaseRequest(domain_id, machine.spec.lease_id),
        StateOutcome(states, states, (), True, ids),
    )
    assert bool(learned) is not disputed
    assert bool(machine.state.dispute) is disputed


def test_a_probes_word_that_it_restored_is_followed_by_a_look_at_once():
    mgr = a_mgr()
    _, machine, domain_id = owed(mgr)
    mgr.inside.hosts.reported_at_s["h1"] = mgr.now_s  # the last report is of this moment
    notice = Notice("n", "it is back", domain_id, True, machine.spec.lease_id)
    mgr.inside.unrestored.told("h1", notice)
    assert "h1" not in mgr.inside.hosts.reported_at_s


def test_nothing_is_given_up_on_a_host_where_something_is_under_way():
    mgr = a_mgr()
    wiped(mgr)
    assert errors(mgr)
    domain_id = next(f["subject"].split()[-1] for f in errors(mgr))
    start(mgr, scope="osd.1")
    while not mgr.probes["h1"].leased:
        mgr.step()
    error = refused(
        mgr, "drive accept", errno.EBUSY, hostname="h1", domain_id=domain_id, accept_cost=True
    )
    assert "something is under way on h1" in error
    assert errors(mgr)
    ok(mgr.command("campaign stop", campaign_id="c1"))
    mgr.settle()
    accept(mgr, domain_id)
    mgr.report_all()
    assert errors(mgr) == []


@pytest.mark.slow
@pytest.mark.parametrize("made_throwaway", [False, True])
@pytest.mark.parametrize("is_throwaway", [False, True])
def test_a_plan_that_was_made_in_a_throwaway_cluster_is_not_applied_in_another(
    made_throwaway, is_throwaway
):
    """Its loop devices drop flushes, and its simulated drives are none."""
    mgr = measured()
    mgr.options = replace(mgr.options, throwaway_cluster=made_throwaway)
    ok(mgr.command("plan"))
    mgr.options = replace(mgr.options, throwaway_cluster=is_throwaway)
    if made_throwaway and not is_throwaway:
        error = refused(mgr, "apply", errno.EPERM, plan_id="p1")
        assert "was made while this was a throwaway cluster" in error
        assert all(mode is WB for probe in mgr.probes.values() for mode in probe.modes().values())
        return
    ok(mgr.command("apply", plan_id="p1"))
