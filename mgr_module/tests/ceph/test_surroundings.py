"""Image and namespace are those of the mgr, and what OSDs tell is kept apart from them."""

import errno
import json
import time

import pytest
from wcache.ceph.surroundings import UPGRADE_EVERY_S, CephSurroundings, Upgrades
from wcache.deployment.places import OsdPlace


class Mgr:
    """A mgr whose config database has these rows."""

    def __init__(self, *rows):
        self.rows = [dict(zip(("section", "mask", "name", "value"), row)) for row in rows]

    def get(self, data_name):
        assert data_name == "osd_metadata"
        return {"7": {"container_image": "evil", "pod_namespace": "n", "hostname": "h"}, "8": {}}

    def send_command(self, result, _kind, _who, text, _tag):
        assert json.loads(text)["prefix"] == "config dump"
        result.complete(0, json.dumps(self.rows), "")


NAME = "container_image"


def test_the_image_is_the_one_that_the_mgr_runs_in():
    mgr = Mgr(("global", "", NAME, "other"))
    assert CephSurroundings(mgr, {"CONTAINER_IMAGE": "own"}).image() == "own"


@pytest.mark.parametrize(("rows", "image"), [
    ((), ""),
    ((("global", "", NAME, "g"),), "g"),
    ((("global", "", NAME, "g"), ("mgr", "", NAME, "m")), "m"),
    ((("osd", "", NAME, "o"), ("osd.7", "", NAME, "o7"), ("global", "", "x", "y")), ""),
    ((("global", "host:h", NAME, "masked"),), ""),
])
def test_outside_of_containers_it_is_what_is_configured_for_mgrs_or_none(rows, image):
    assert CephSurroundings(Mgr(*rows), {}).image() == image


def test_the_namespace_is_the_mgrs_and_what_osds_tell_stays_theirs():
    assert CephSurroundings(Mgr(), {}).namespace() == ""
    assert CephSurroundings(Mgr(), {"POD_NAMESPACE": "own"}).namespace() == "own"
    assert CephSurroundings(Mgr(), {}).told() == {7: OsdPlace("evil", "n"), 8: OsdPlace()}


class Mons:
    """Mons that keep what cephadm keeps of an upgrade."""

    def __init__(self, state=None):
        self.state = state
        self.asked = 0

    def send_command(self, result, _kind, _who, text, _tag):
        self.asked += 1
        asked = json.loads(text)
        assert (asked["prefix"], asked["key"]) == ("config-key get", "mgr/cephadm/upgrade_state")
        code = -errno.ENOENT if self.state is None else 0
        result.complete(code, self.state or "", "")


@pytest.mark.parametrize(("state", "found"), [
    (None, False), ("", False), ("null", False), ('{"target_name": "i", "paused": false}', True),
    ('{"target_name": "i", "paused": true}', True),
])
def test_an_upgrade_is_under_way_while_cephadm_keeps_a_state_of_one(state, found):
    upgrades = Upgrades(Mons(state))
    upgrades.look()
    assert upgrades.under_way() is found


def test_the_mons_are_asked_again_in_the_background_once_the_answer_is_old():
    mons, now_s = Mons(), [0.0]
    upgrades = Upgrades(mons, clock=lambda: now_s[0])
    upgrades.look()
    mons.state = '{"target_name": "i"}'
    for _ in range(3):
        assert upgrades.under_way() is False
    assert mons.asked == 1
    now_s[0] = UPGRADE_EVERY_S
    upgrades.under_way()
    deadline = time.monotonic() + 20
    while not upgrades.under_way() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert upgrades.under_way() is True
    assert mons.asked == 2
