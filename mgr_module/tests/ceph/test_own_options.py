"""An option that was removed is at its default again, though Ceph tells a module nothing of it."""

import json
import logging
import time

import pytest
from wcache.ceph.config import OWN_EVERY_S, OwnOptions, disable_soon
from wcache.commands.commands import BEGINNING
from wcache.core.errors import RefusedError


class Mons:
    """A mgr whose mons have these rows in their config database; None: they do not answer."""

    module_name = "wcache"

    def __init__(self, *rows):
        self.rows, self.asked, self.removed = list(rows), 0, []

    def get_mgr_id(self):
        return "x"

    def send_command(self, reply, kind, who, command, tag):
        asked = json.loads(command)
        if asked["prefix"] == "config rm":
            self.removed.append((asked["who"], asked["name"]))
            reply.complete(0, "", "")
            return
        assert asked["prefix"] == "config dump"
        self.asked += 1
        if self.rows is None:
            reply.complete(-11, "", "no quorum")
        else:
            reply.complete(0, json.dumps(self.rows), "")


def row(name, section="mgr"):
    return {"section": section, "name": f"mgr/wcache/{name}", "value": "false", "mask": ""}


def test_what_the_mons_have_no_value_of_is_not_set():
    mons = Mons(row("gate_by_load"), row("web_port", "mgr.y"), row("x/web_addr"))
    own = OwnOptions(mons)
    assert own.is_set("settle_s", 1)  # they have not said
    own.ask()
    names = ("gate_by_load", "web_port", "web_addr", "x")
    told = {name: own.is_set(name, "false") for name in names}
    assert told == {"gate_by_load": True, "web_port": False, "web_addr": True, "x": False}
    mons.rows.pop(0)
    own.ask()
    assert not own.is_set("gate_by_load", "false")
    mons.rows = None
    own.ask()
    assert not own.is_set("gate_by_load", "false")
    assert own.is_set("web_addr", "false")


def test_all_values_are_dropped_wherever_they_stand_and_nothing_of_others():
    masked = {**row("settle_s", "global"), "mask": "class:ssd"}
    others = {"section": "mgr", "name": "mgr/dashboard/ssl", "value": "true", "mask": ""}
    mons = Mons(row("x/web_addr"), masked, others, row("web_port", "mgr.y"), "no row")
    assert OwnOptions(mons).drop() == 3
    assert mons.removed == [
        ("mgr", "mgr/wcache/x/web_addr"), ("global/class:ssd", "mgr/wcache/settle_s"),
        ("mgr.y", "mgr/wcache/web_port"),
    ]
    mons.rows = None
    with pytest.raises(RefusedError):
        OwnOptions(mons).drop()


@pytest.mark.parametrize("code", [0, -13])
def test_where_the_mons_do_not_disable_it_the_log_says_so(code, caplog):
    asked = []

    class Refusing(Mons):
        def send_command(self, reply, kind, who, command, tag):
            asked.append(json.loads(command))
            reply.complete(code, "", "no")

    disable_soon(Refusing(), logging.getLogger(), 0.0).join(60)
    assert [(one["prefix"], one["module"]) for one in asked] == [("mgr module disable", "wcache")]
    assert ("the module is still enabled: the mons refused" in caplog.text) is (code != 0)


def test_a_look_waits_for_nothing_and_is_made_now_and_then():
    mons = Mons(row("gate_by_load"))
    own = OwnOptions(mons)
    looked = 0
    while not own.look(0.0):
        looked += 1
        assert looked < 10**6
    assert own.is_set("gate_by_load", "false")
    mons.rows.clear()
    assert not own.look(OWN_EVERY_S / 2)
    assert mons.asked == 1
    while not own.look(OWN_EVERY_S + 1.0):
        pass
    assert not own.is_set("gate_by_load", "false")


def test_what_begins_something_goes_by_what_the_mons_have_now():
    assert {"wcache plan", "wcache apply", "wcache rollout resume", "wcache try"} <= BEGINNING
    assert not any(name.startswith("wcache agent") for name in BEGINNING)


def test_an_option_that_is_set_counts_at_once_and_the_mons_are_asked_anew():
    woken = []
    mons = Mons()
    own = OwnOptions(mons, lambda: woken.append(1))
    own.ask()
    assert not own.is_set("gate_by_load", True)  # Ceph has its default
    assert own.is_set("gate_by_load", False)  # the mons have sent a value since
    while not own.look(1.0):
        pass
    assert not own.is_set("gate_by_load", False)  # and now they have none: it was removed
    mons.rows.append(row("gate_by_load"))
    own.changed()
    assert woken
    while not own.look(2.0):
        pass
    assert own.is_set("gate_by_load", False)  # set anew to what Ceph still had


def test_after_one_who_waited_in_vain_nobody_waits_until_the_mons_have_answered(monkeypatch):
    monkeypatch.setattr("wcache.ceph.config.OWN_TIMEOUT_S", 0.01)
    mons, due = Mons(row("gate_by_load")), []
    mons.send_command, answer = lambda *args: due.append(args), mons.send_command
    own = OwnOptions(mons)
    for _ in range(3):
        own.ask()
    while not due:
        time.sleep(0.001)
    assert len(due) == 1
    own.look(0.0)
    while len(due) < 2:
        time.sleep(0.001)
    answer(*due[1])
    assert own.look(1.0)
    assert not own.is_set("settle_s", 1)
    mons.send_command = answer
    monkeypatch.undo()  # a busy machine takes longer to ask
    own.ask()
    assert mons.asked == 2


class SlowMons(Mons):
    """Mons that make each answer when they are asked, and give it when the test says so."""

    def __init__(self, *rows):
        super().__init__(*rows)
        self.due = []

    def send_command(self, reply, kind, who, command, tag):
        self.asked += 1
        text = json.dumps(self.rows)
        self.due.append(lambda: reply.complete(0, text, ""))

    def answer(self):
        """Give the oldest answer that is due."""
        while not self.due:
            time.sleep(0.001)
        self.due.pop(0)()


def test_an_answer_that_was_asked_for_before_an_option_changed_is_dropped():
    mons = SlowMons()
    own = OwnOptions(mons)
    own.look(0.0)
    mons.answer()
    assert own.look(1.0)
    assert not own.is_set("gate_by_load", True)
    own.changed()
    own.look(2.0)  # asked for what another option changed to
    while not mons.due:
        time.sleep(0.001)
    mons.rows.append(row("gate_by_load"))
    own.changed()
    assert own.is_set("gate_by_load", False)
    mons.answer()
    assert not own.look(3.0)
    assert own.is_set("gate_by_load", False)
    mons.answer()  # it was asked anew
    assert own.look(4.0)
    assert own.is_set("gate_by_load", False)


def test_an_answer_that_comes_after_a_newer_one_is_dropped():
    mons = SlowMons(row("gate_by_load"))
    own = OwnOptions(mons)
    own.look(0.0)
    while not mons.due:
        time.sleep(0.001)
    late, mons.rows = mons.due.pop(0), []
    mons.send_command = Mons.send_command.__get__(mons)
    own.ask()
    assert not own.is_set("gate_by_load", False)
    late()
    assert not own.look(1.0)
    assert not own.is_set("gate_by_load", False)


def test_a_command_asks_again_where_an_option_changed_while_the_mons_answered():
    mons = Mons(row("gate_by_load"))
    own, answer = OwnOptions(mons), mons.send_command

    def removed_meanwhile(*args):
        if not mons.rows:
            return answer(*args)
        mons.asked += 1
        before = json.dumps(mons.rows)
        mons.rows.clear()
        own.changed()
        return args[0].complete(0, before, "")

    mons.send_command = removed_meanwhile
    own.ask()
    assert mons.asked == 2
    assert not own.is_set("gate_by_load", False)
