"""An option that was removed is at its default again, though Ceph tells a module nothing of it."""

import json
import time

from wcache.ceph.config import OWN_EVERY_S, OwnOptions
from wcache.commands.commands import BEGINNING


class Mons:
    """A mgr whose mons have these rows in their config database; None: they do not answer."""

    module_name = "wcache"

    def __init__(self, *rows):
        self.rows, self.asked = list(rows), 0

    def get_mgr_id(self):
        return "x"

    def send_command(self, reply, kind, who, command, tag):
        assert json.loads(command)["prefix"] == "config dump"
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
    own.ask()
    assert mons.asked == 2
