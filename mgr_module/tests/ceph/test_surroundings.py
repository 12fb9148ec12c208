"""Image and namespace are those of the mgr, and what OSDs tell is kept apart from them."""

import json

import pytest
from wcache.ceph.surroundings import CephSurroundings
from wcache.core.deployment.places import OsdPlace


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
