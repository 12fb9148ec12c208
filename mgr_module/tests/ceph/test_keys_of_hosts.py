"""The keys of hosts, as the mons make them, set them right and remove them."""

import errno
import json

from wcache.ceph.surroundings import CephKeyring
from wcache.deployment.places import caps_of


class Mons:
    """Answers `auth` commands like the mons."""

    def __init__(self):
        self.keys, self.asked = {}, []

    def send_command(self, result, _kind, _who, text, _tag):
        cmd = json.loads(text)
        self.asked.append(cmd["prefix"])
        entity = cmd["entity"]
        if cmd["prefix"] == "auth get":
            if entity not in self.keys:
                return result.complete(-errno.ENOENT, "", f"failed to find {entity} in keyring")
            row = {"entity": entity, "key": "AQD", "caps": self.keys[entity]}
            return result.complete(0, json.dumps([row]), "")
        if cmd["prefix"] == "auth rm":
            self.keys.pop(entity, None)
        else:
            self.keys[entity] = dict(zip(cmd["caps"][::2], cmd["caps"][1::2]))
        return result.complete(0, "", "")


def test_a_key_is_made_once_and_set_right_where_it_allows_something_else():
    mons = Mons()
    keys = CephKeyring(mons)
    assert keys.make("client.wcache.h1", caps_of("h1"))
    assert not keys.make("client.wcache.h1", caps_of("h1"))
    mons.keys["client.wcache.h1"] = {"mgr": "allow *"}
    assert keys.make("client.wcache.h1", caps_of("h1"))
    assert mons.keys == {"client.wcache.h1": caps_of("h1")}
    assert mons.asked.count("auth get-or-create") == 1
    keys.remove("client.wcache.h1")
    assert mons.keys == {}
