"""`--dry-run`, wherever something would change: it says what, and changes nothing."""

import pytest
from gate_world import begun
from module_world import applied, ok, said, unconsented
from test_auto import a_mgr
from test_foreign_evidence import FILE
from wcache.commands.commands import COMMANDS
from wcache.core import codec
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


def dry(mgr, prefix, **arguments):
    """A dry run: what it would do, after a look that the store and the drives are as before."""
    before = stored(mgr), {name: probe.modes() for name, probe in mgr.probes.items()}
    data = said(mgr, prefix, dry_run=True, **arguments)
    assert data["dry_run"] is True
    assert data["changed"] is False
    text = ok(mgr.command(prefix, dry_run=True, **arguments))
    assert text.startswith("dry run: nothing is changed")
    assert (stored(mgr), {name: probe.modes() for name, probe in mgr.probes.items()}) == before
    return data["would"]


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
    mgr = a_mgr()
    allow, first = dry(mgr, "auto", mode="apply")
    assert allow == "allow: all classes apply"
    assert first.startswith("measure drive model ACME HD1 1.0 of class hdd first, on drives of: h")
    mgr = a_mgr(auto_windows="00:00-00:01")
    assert "wait: outside the maintenance windows" in dry(mgr, "auto", mode="apply")[1]


@pytest.mark.slow
def test_freeze_and_thaw_name_what_would_end():
    mgr = begun()
    mgr.go(lambda: mgr.plan.changes[0].status is ChangeStatus.MADE)
    assert dry(mgr, "freeze") == [
        "toggle nothing until it is thawed", "end plan p1 and take back what is not judged"]
    assert dry(mgr, "freeze", thaw=True) == []
    ok(mgr.command("freeze"))
    mgr.end()
    assert dry(mgr, "freeze", thaw=True) == ["allow drives to be toggled again"]


def test_campaign_stop_and_agent_rm_name_the_runs_that_would_end():
    mgr = a_mgr()
    ok(mgr.command("campaign start", accept_cost=True, loads="depth1"))
    mgr.steps(4)
    lines = dry(mgr, "campaign stop", campaign_id="c1")
    assert lines
    assert all(line.startswith("end run c1.") for line in lines)
    lines = dry(mgr, "agent rm", hostname="h1", host_is_gone=True)
    assert "forget h1, its reports and how it was added" in lines
    assert any(line.startswith("end run c1.") for line in lines)


@pytest.mark.slow
def test_a_pause_says_whether_a_change_is_finished_first():
    mgr = begun()
    mgr.go(lambda: mgr.plan.changes[0].status is ChangeStatus.APPLYING, seconds=0.05)
    assert dry(mgr, "rollout pause", plan_id="p1") == [
        "change nothing further once the change under way is made"]
    ok(mgr.command("rollout pause", plan_id="p1"))
    mgr.end()
    assert dry(mgr, "rollout pause", plan_id="p1") == []


def test_evidence_is_looked_at_before_it_is_taken():
    mgr = a_mgr()
    text = codec.dumps(FILE)
    (line,) = dry(mgr, "evidence import", inbuf=text)
    assert line.startswith("keep ")
    ok(mgr.command("evidence import", inbuf=text))
    assert dry(mgr, "evidence import", inbuf=text) == []
    cluster = said(mgr, "evidence ls")["imported"][0]["cluster"]
    (line,) = dry(mgr, "evidence rm", cluster=cluster)
    assert line.startswith("forget ")


def test_a_word_for_a_drive_model_is_not_given_in_a_dry_run():
    mgr = a_mgr()
    model = said(mgr, "drive-model ls")["drive_models"][0]["drive_model"]
    lines = dry(mgr, "drive-model trust", drive_model=model, reason="data sheet")
    assert lines == [f"trust the power-loss protection of {model}"]
    assert dry(mgr, "drive-model trust", take_back=True, drive_model=model) == []


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
    assert "in the way: campaign c2" in ok(mgr.command("apply", plan_id="p1", dry_run=True))
