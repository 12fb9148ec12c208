"""What an answer ends with: `next:` leads on, `undo:` takes back, and each is typed as printed."""

import errno
import json
import re
import shlex
from dataclasses import replace

import pytest
import test_goldens
from mgr_fakes.module import FakeMgr
from module_world import (
    WB,
    WT,
    a_mgr,
    all_modes,
    change_osd,
    fine,
    make,
    measured,
    ok,
    said,
    settled,
    start,
)
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
ELSEWHERE = {"no probe responds", "unfit", "to be turned on", "went back"}


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
        if line == BY_HAND or line.startswith("ceph health detail"):
            return  # the last there is, and what Ceph itself says
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


def followed(mgr):
    """What `next:` leads through, until it says nothing or shows what is waited for.

    No command is refused, and none comes twice.
    """
    lines = [said(mgr, "")["next"]]
    while lines[-1] and "#" not in lines[-1]:
        command, given = typed(lines[-1])
        code, out, error = mgr.command(command.prefix.partition(" ")[2], format="json", **given)
        assert code == 0 or out, error  # what needs a consent says what it would cost
        following = json.loads(out)["next"]
        assert following not in lines, [*lines, following]
        lines.append(following)
        settled(mgr)
    return lines


def of_two(*modes, down=()):
    """Two hosts with a drive each, in these modes; no cache is measured."""
    drives = (make.drive("sda", osd_id, mode=mode) for osd_id, mode in enumerate(modes))
    mgr = FakeMgr(*((f"host-{number}", (drive,)) for number, drive in enumerate(drives)))
    mgr.report_all()
    for osd_id in down:
        change_osd(mgr, osd_id, up=False)
    return mgr


LEFT_ALONE = "ceph wcache status  # says which OSDs are left alone, and why"
TURN_ON = "ceph wcache campaign start --consent-turn-on"


def test_where_all_caches_are_off_next_leads_to_the_consent_to_turn_them_on():
    mgr = of_two(WT, WT)
    assert said(mgr, "")["next"] == f"{TURN_ON} --dry-run"
    assert said(mgr, "campaign start", consent_turn_on=True, dry_run=True)["next"] == (
        f"{TURN_ON} --accept-cost"
    )
    for given, line in (
        ({}, f"{TURN_ON} --dry-run"),
        ({"scope": "class:hdd"}, f"ceph wcache campaign start --scope=class:hdd{TURN_ON[26:]} "
                                 "--dry-run"),
    ):
        code, _, error = mgr.command("try", **given)
        assert (code, line in error) == (-errno.ENOENT, True), error
        assert "its cache is off, and turning it on needs its own consent" in error
    assert all_modes(mgr) == {WT}


@pytest.mark.slow
def test_from_drives_that_are_off_next_comes_to_an_end():
    mgr = of_two(WT, WT)
    assert followed(mgr) == [
        f"{TURN_ON} --dry-run", f"{TURN_ON} --accept-cost", "ceph wcache campaign show c1", "",
    ]
    assert all_modes(mgr) == {WT}


@pytest.mark.parametrize(("modes", "down"), [((WB, WB), (0, 1)), ((WB, WT), (0,))])
def test_where_osds_are_left_alone_next_shows_that_and_try_offers_no_override(modes, down):
    mgr = of_two(*modes, down=down)
    assert followed(mgr) == [LEFT_ALONE]
    code, _, error = mgr.command("try")
    assert code == -errno.EPERM
    assert "of which an OSD is not up and in: osd.0" in error
    assert "wait until they are well" in error
    assert "override" not in error
    assert (f"{TURN_ON} --dry-run" in error) == (WT in modes)


def test_an_osd_that_is_down_and_off_keeps_no_other_from_being_turned_on():
    assert said(of_two(WT, WT, down=(0,)), "")["next"] == f"{TURN_ON} --dry-run"


def better_on_and_off():
    """Three drives that are better on, and were turned off by hand since."""
    mgr = FakeMgr(*(
        (f"host-{i}", (make.drive("sda", i, drive_id=f"wwn-{i}", domain_id=f"domain-{i}"),))
        for i in range(3)
    ))
    mgr.report_all()
    for probe in mgr.probes.values():
        probe.latency_ns = {WB: 4_000_000, WT: 20_000_000}
    start(mgr)
    settled(mgr)
    for probe in mgr.probes.values():
        for drive_id in probe.drives:
            probe.switch(drive_id, WT)
    mgr.now_s += 700.0
    mgr.step()
    mgr.report_all()
    return mgr


@pytest.mark.slow
def test_where_the_cache_is_better_on_next_leads_to_a_plan_that_turns_it_on():
    mgr, turn_on = better_on_and_off(), "ceph wcache plan --consent-turn-on"
    assert said(mgr, "plan")["next"] == turn_on
    assert said(mgr, "plan", scope="host:host-1", persist=True)["next"] == (
        "ceph wcache plan --scope=host:host-1 --consent-turn-on --persist"
    )
    assert f"to change these drives: `{turn_on}`" in ok(mgr.command("recommend"))
    assert followed(mgr) == [
        turn_on, "ceph wcache apply p1", "ceph wcache rollout show p1", "",
    ]
    assert all_modes(mgr) == {WB}
    fine(mgr)


@pytest.mark.slow
def test_a_plan_that_can_change_nothing_is_not_advised_by_itself():
    mgr = better_on_and_off()
    for osd_id in range(3):
        change_osd(mgr, osd_id, up=False)
    assert followed(mgr) == ["ceph wcache plan --consent-turn-on", ""]
    assert said(mgr, "plan")["next"] == ""


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
