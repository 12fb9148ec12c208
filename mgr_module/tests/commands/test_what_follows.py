"""What an answer ends with: `next:` leads on, `undo:` takes back, and each is typed as printed."""

import errno
import json
import re
import shlex
from dataclasses import replace

import pytest
import test_goldens
from mgr_fakes.module import FakeMgr
from module_world import WT, a_mgr, all_modes, fine, measured, ok, said, settled
from test_foreign_evidence import FILE
from wcache.commands.commands import COMMANDS
from wcache.commands.tables import DONE
from wcache.core import codec
from wcache.core.record import Precondition
from wcache.services.leaving import BY_HAND
from wcache.services.outlook import STATES

BY_PREFIX = {command.prefix: command for command in COMMANDS}
# What changes something and says no sentence: probes' calls, and the word for the page.
SILENT = {"wcache agent poll", "wcache agent post", "wcache web token"}
ENDS = re.compile(r"^(?:# )?(next|undo): (.*)$", re.MULTILINE)
STEPS_MAX = 40
# States that no golden is in: see below, the tests of `try`, and those of a gate that says worse.
ELSEWHERE = {"no probe responds", "unfit", "not measured again", "went back"}


def typed(line):
    """The prefix and arguments of a printed command, as the `ceph` tool would send them."""
    tool, *words = shlex.split(line, comments=True)
    assert tool == "ceph", line
    length = max(n for n in range(1, len(words) + 1) if " ".join(words[:n]) in BY_PREFIX)
    command = BY_PREFIX[" ".join(words[:length])]
    kinds = {}
    for item in command.arguments:
        declared = dict(part.split("=", 1) for part in item.split(","))
        kinds[declared["name"]] = declared["type"]
    given, places = {}, [name for name, kind in kinds.items() if kind != "CephBool"]
    for word in words[length:]:
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            name = name.replace("-", "_")
            given[name] = True if kinds[name] == "CephBool" else value
        else:
            given[next(name for name in places if name not in given)] = word
    return command, {
        name: int(value) if kinds[name] == "CephInt" else value for name, value in given.items()
    }


def commands_in(line):
    """The commands of a `next:` or an `undo:`; none where it is nothing."""
    return [] if line == "nothing" else line.split("; ")


def run(mgr, line):
    """Type what was printed, for good."""
    for one in commands_in(line or "nothing"):
        command, given = typed(one)
        ok(mgr.command(command.prefix.partition(" ")[2], **given))


class Looks:
    """Types what an answer of a story ends with, so that nothing is changed by it."""

    def __init__(self):
        self.lines, self.states, self.failed = set(), set(), []

    def __call__(self, mgr, out):
        now = mgr.views.situation(mgr.views.world())
        self.states.add(next((name for name, holds, _ in STATES if holds(now)), "nothing"))
        for _, line in ENDS.findall(out):
            self.lines.add(test_goldens.masked(line))
            for one in commands_in(line):
                self.type(mgr, one)

    def type(self, mgr, line):
        if line == BY_HAND:
            return  # the last there is
        if not line.startswith("ceph wcache"):
            self.failed.append((line, "is no command of wcache"))
            return
        command, given = typed(line)
        if command.perm == "rw":
            given["dry_run"] = True
        code, _, error = mgr.command(command.prefix.partition(" ")[2], **given)
        if code:
            self.failed.append((line, error))


@pytest.mark.slow
def test_each_next_and_undo_of_the_goldens_can_be_typed_as_it_stands(monkeypatch):
    looks = Looks()
    monkeypatch.setattr(test_goldens, "FORMS", ("plain",))
    monkeypatch.setattr(test_goldens, "LOOK", looks)
    for _ in (*test_goldens.chapters(), test_goldens.at_300_osds()):
        pass
    assert looks.failed == [], looks.failed
    told = {
        line for path in test_goldens.FOLDER.glob("*.txt")
        for _, line in ENDS.findall(path.read_text())
    }
    assert told
    assert told - looks.lines == set()
    assert {name for name, _, _ in STATES} - looks.states == ELSEWHERE


def with_no_probe_responding():
    mgr = a_mgr()
    mgr.now_s += 600.0
    return mgr


def unfit():
    mgr = a_mgr()
    blocked = replace(mgr.view.state, missed=frozenset({Precondition.NO_UPGRADE}))
    mgr.view.state = blocked
    return mgr


@pytest.mark.parametrize(("make", "line"), [
    (FakeMgr, "ceph wcache agent add --all"), (with_no_probe_responding, "ceph wcache agent ls"),
    (unfit, "ceph wcache status  # says what of the cluster is waited for"),
])
def test_one_state_has_one_command_whatever_tells_of_it(make, line):
    mgr = make()
    for prefix in ("", "status", "recommend", "drive ls", "history"):
        assert said(mgr, prefix)["next"] == line
        assert ok(mgr.command(prefix)).splitlines()[-1] == f"next: {line}"
    assert said(mgr, "status")["summary"]["next"] == line


@pytest.mark.slow
def test_next_leads_from_nothing_to_drives_that_are_in_the_better_mode():
    mgr = a_mgr()
    lines = [said(mgr, "")["next"]]
    while lines[-1] and len(lines) < STEPS_MAX:
        command, given = typed(lines[-1])
        code, out, _ = mgr.command(command.prefix.partition(" ")[2], format="json", **given)
        assert code in (0, -errno.EPERM)  # without its consent it says what it would cost
        lines.append(json.loads(out)["next"])
        settled(mgr)
    assert list(dict.fromkeys(lines)) == [
        "ceph wcache try", "ceph wcache try --accept-cost",
        "ceph wcache plan", "ceph wcache apply p1", "ceph wcache rollout show p1", "",
    ]
    assert all_modes(mgr) == {WT}
    fine(mgr)


def test_what_changes_something_says_a_sentence_what_follows_and_what_undoes_it():
    changing = {command.prefix for command in COMMANDS if command.perm == "rw"}
    assert changing - SILENT == set(DONE)


MODEL = "ACME HD1 1.0"
FILED = codec.dumps(FILE)


def of_itself(mgr, shown):
    """What a command shows, without what follows from it and the modes of `auto` that are off."""
    plain = said(mgr, shown)
    modes = {name: mode for name, mode in plain.get("modes", {}).items() if mode != "off"}
    return {**plain, "modes": modes, "next": None}


@pytest.mark.parametrize(("make", "prefix", "given", "shown"), [
    (a_mgr, "freeze", {}, "status"),
    (a_mgr, "auto", {"mode": "recommend"}, "auto status"),
    (a_mgr, "auto", {"mode": "apply", "scope": "class:hdd"}, "auto status"),
    (a_mgr, "drive-model trust", {"drive_model": MODEL, "reason": "its data sheet"},
     "drive-model ls"),
    (a_mgr, "evidence import", {"inbuf": FILED}, "evidence ls"),
    (measured, "plan", {}, "plan ls"),
])
def test_undo_brings_back_what_was_shown_before(make, prefix, given, shown):
    mgr = make()
    before = of_itself(mgr, shown)
    undo = said(mgr, prefix, **given)["undo"]
    assert of_itself(mgr, shown) != before
    run(mgr, undo)
    assert of_itself(mgr, shown) == before


@pytest.mark.slow
def test_undo_of_an_apply_brings_the_modes_back_and_that_of_a_campaign_ends_it():
    mgr = measured()
    before = all_modes(mgr)
    ok(mgr.command("plan"))
    begun = said(mgr, "apply", plan_id="p1")
    assert re.fullmatch(r"p1 begins: 3 changes, \d+ s to \d+ s", begun["text"])
    mgr.settle()
    assert all_modes(mgr) == {WT}
    run(mgr, begun["undo"])
    mgr.settle()
    assert all_modes(mgr) == before
    mgr.report_all()
    begun = said(mgr, "campaign start", loads="depth1", accept_cost=True)
    assert begun["text"] == "campaign c2 begins"
    mgr.step()
    run(mgr, begun["undo"])
    mgr.settle()
    assert said(mgr, "campaign show", campaign_id="c2")["status"] == "aborted"
    fine(mgr)


def test_auto_says_while_all_is_frozen_that_nothing_is_begun():
    mgr = a_mgr()
    assert "frozen" not in said(mgr, "auto", mode="recommend")["text"]
    ok(mgr.command("freeze"))
    answer = said(mgr, "auto", mode="recommend")
    assert answer["frozen"] is True
    told = ok(mgr.command("auto", mode="apply")).splitlines()
    said_first = " ".join(" ".join(told[:-2]).split())
    assert "the cluster is frozen: nothing is begun before it is thawed" in said_first
    assert told[-2:] == [
        "next: ceph wcache freeze --thaw", "undo: ceph wcache auto recommend cluster"
    ]
