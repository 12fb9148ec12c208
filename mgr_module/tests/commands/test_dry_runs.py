"""`--dry-run`, wherever something would change: it says what, and changes nothing."""

import errno

import pytest
from gate_world import begun
from module_world import applied, measured, ok, said, settled, unconsented
from test_auto import a_mgr
from wcache.commands.commands import COMMANDS
from wcache.core.change.change import ChangeStatus
from wcache.core.record import Precondition

OTHERS = {
    "wcache agent poll", "wcache agent post",  # for probes
    "wcache web token",  # lets somebody read
}


def test_every_command_that_changes_something_has_a_dry_run():
    without = {
        command.prefix for command in COMMANDS
        if command.perm == "rw" and not any("dry_run" in item for item in command.arguments)
    }
    assert without <= OTHERS


CONSENTS = {
    "accept_cost", "consent_turn_on", "host_is_gone", "hosts_read", "override", "persist",
}


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.prefix)
def test_the_help_names_each_word_of_consent(command):
    declared = {item.split(",")[0][len("name="):] for item in command.arguments}
    told = command.help
    if command.prefix == "wcache ab":
        assert "arguments as for `campaign start`" in told
        told = next(one.help for one in COMMANDS if one.prefix == "wcache campaign start")
    for word in declared & CONSENTS:
        assert f"--{word.replace('_', '-')}" in told
    assert not declared & {"yes", "force", "confirm", "take_over", "consent_writeback"}


def stored(mgr):
    return dict(mgr.store.kept)


@pytest.mark.parametrize(("prefix", "arguments", "begins"), [
    ("try", {"scope": "class:hdd"}, "ceph wcache try class:hdd --accept-cost"),
    ("campaign start", {"scope": "host:h1", "loads": "depth1", "pairs": 4, "observe": False},
     "ceph wcache campaign start --scope=host:h1 --loads=depth1 --pairs=4 --accept-cost"),
])
def test_without_its_consent_a_command_tells_its_dry_run_and_the_line_that_begins_it(
    prefix, arguments, begins
):
    mgr = a_mgr()
    before = stored(mgr)
    error, following = unconsented(mgr, prefix, **arguments)
    assert error.endswith("add --accept-cost")
    assert following == begins
    assert stored(mgr) == before
    assert mgr.command(prefix, dry_run=True, accept_cost=True, **arguments)[0] == 0
    assert stored(mgr) == before
    ok(mgr.command(prefix, accept_cost=True, **arguments))
    assert mgr.inside.runs


def test_auto_says_what_it_would_begin_first_and_why_it_would_wait():
    first = said(a_mgr(), "auto", mode="apply", dry_run=True)["would"][1]
    assert first.startswith("measure drive model ACME HD1 1.0 of class hdd first, on drives of: h")
    waits = said(a_mgr(auto_windows="00:00-00:01"), "auto", mode="apply", dry_run=True)["would"][1]
    assert "wait: outside the maintenance windows" in waits


@pytest.mark.slow
def test_freeze_names_the_plan_that_would_end():
    mgr = begun()
    mgr.go(lambda: mgr.plan.changes[0].status is ChangeStatus.MADE)
    assert "end plan p1 and take back what is not judged" in said(mgr, "freeze", dry_run=True)[
        "would"]


@pytest.mark.slow
def test_a_dry_run_says_how_it_will_be_judged_and_that_clients_write_too_little_for_that():
    mgr = begun(apply={"dry_run": True})
    would = said(mgr, "apply", plan_id="p1", dry_run=True)
    assert would["judged_by"].startswith("clients' writes in blocks of")
    assert would["missed"] == []
    mgr.clients.others = 0.0
    would = said(mgr, "apply", plan_id="p1", dry_run=True)
    assert would["missed"] == [Precondition.CLIENT_LOAD.value]
    assert would["next"] == "ceph wcache apply p1 --override=client_load"
    text = ok(mgr.command("apply", plan_id="p1", dry_run=True, override="client_load"))
    assert "judged by: a bench before and after each change; client_load is overridden" in text
    assert "not met now" not in text


@pytest.mark.slow
def test_a_plan_that_would_be_refused_is_refused_in_a_dry_run_too():
    mgr = applied()
    ok(mgr.command("rollback"))
    mgr.settle()
    answers = [mgr.command("apply", plan_id="p1", dry_run=dry_run) for dry_run in (False, True)]
    assert answers[0][0] < 0
    assert answers[0] == answers[1]


@pytest.mark.parametrize("persist", [False, True])
def test_a_dry_run_of_a_plan_that_is_done_or_under_way_says_what_apply_says(persist):
    mgr = measured()
    ok(mgr.command("plan", persist=True))
    ok(mgr.command("apply", plan_id="p1", persist=persist))
    mgr.step()
    for status in ("running", "done"):
        would = said(mgr, "apply", plan_id="p1", persist=persist, dry_run=True)
        plain = ok(mgr.command("apply", plan_id="p1", persist=persist, dry_run=True))
        really = said(mgr, "apply", plan_id="p1", persist=persist)
        assert really["text"] == f"nothing changes: p1 is {status}"
        assert [would[name] for name in ("text", "changed", "status", "next")] == [
            really[name] for name in ("text", "changed", "status", "next")
        ]
        assert plain.splitlines()[:2] == [
            "dry run: nothing of plan p1 is changed", really["text"]
        ]
        settled(mgr)
    ok(mgr.command("freeze"))
    answers = [mgr.command("apply", plan_id="p1", dry_run=dry_run) for dry_run in (False, True)]
    assert answers[0][0] < 0
    assert answers[0] == answers[1]


def test_a_dry_run_with_an_override_of_a_plan_under_way_overrides_nothing():
    mgr = measured()
    ok(mgr.command("plan"))
    ok(mgr.command("apply", plan_id="p1"))
    mgr.step()
    given = {"plan_id": "p1", "override": "cluster_healthy"}
    would = said(mgr, "apply", dry_run=True, **given)
    assert would["text"] == "p1 would go on without what is overridden"
    assert would["next"] == "ceph wcache apply p1 --override=cluster_healthy"
    assert said(mgr, "rollout show", plan_id="p1")["overridden"] == []
    assert said(mgr, "apply", **given)["changed"] is True
    assert "nothing changes" in said(mgr, "apply", dry_run=True, **given)["text"]


def test_a_dry_run_of_apply_names_the_campaign_that_apply_would_be_refused_for():
    mgr = a_mgr()
    ok(mgr.command("campaign start", accept_cost=True, loads="depth1"))
    mgr.settle()
    ok(mgr.command("plan"))
    assert said(mgr, "apply", plan_id="p1", dry_run=True)["in_the_way"] == ""
    ok(mgr.command("campaign start", accept_cost=True, loads="depth1"))
    refused = mgr.command("apply", plan_id="p1")[2]
    assert "campaign c2 is under way" in refused
    assert said(mgr, "apply", plan_id="p1", dry_run=True)["in_the_way"] in refused
    told = ok(mgr.command("apply", plan_id="p1", dry_run=True))
    assert "in the way: campaign c2" in told
    assert told.endswith("\nnext: ceph wcache campaign show c2")


def test_what_follows_a_dry_run_of_apply_is_no_apply_that_would_be_refused():
    mgr = a_mgr()
    ok(mgr.command("campaign start", accept_cost=True, loads="depth1"))
    mgr.settle()
    ok(mgr.command("plan"))
    ok(mgr.command("plan"))
    ok(mgr.command("apply", plan_id="p1"))
    mgr.step()
    assert mgr.command("apply", plan_id="p2")[0] == -errno.EBUSY
    assert said(mgr, "apply", plan_id="p2", dry_run=True)["next"] == "ceph wcache rollout show p1"
    ok(mgr.command("rollout pause", plan_id="p1"))
    assert said(mgr, "apply", plan_id="p2", dry_run=True)["next"] == "ceph wcache rollout show p1"
