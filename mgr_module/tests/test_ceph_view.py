"""What the mgr's maps say of an OSD is where CRUSH has it, whatever the map holds beside."""

import json

from wcache.ceph_view import CephView


class Maps:
    """The `Mgr` port with one OSD in a rack, and one that no bucket holds."""

    version = "ceph version 18.2.4 (e7ad534) reef (stable)"

    def __init__(self, buckets):
        self.maps = {
            "osd_map": {
                "fsid": "f",
                "osds": [{"osd": i, "uuid": f"u{i}", "up": 1, "in": 1} for i in (0, 1)],
            },
            "osd_metadata": {"0": {"hostname": "h0.example"}},
            "osd_map_crush": {"devices": [{"id": 0, "class": "hdd"}], "buckets": buckets},
            "health": {"json": json.dumps({})},
            "pg_summary": {"all": {}},
        }

    def get(self, data_name):
        return self.maps[data_name]


def bucket(number, name, kind, *items):
    return {"id": number, "name": name, "type_name": kind, "items": [{"id": i} for i in items]}


def osds(*buckets):
    return CephView(Maps(buckets), bench_empties_caches=False).cluster().osds


def test_the_location_names_the_buckets_from_the_innermost_on_and_no_shadow_trees():
    found = osds(
        bucket(-1, "default", "root", -3), bucket(-2, "h0", "host", 0),
        bucket(-3, "r1", "rack", -2), bucket(-4, "h0~hdd", "host", 0),
        bucket(-5, "default~hdd", "root", -4),
    )
    assert found[0].location == (("host", "h0"), ("rack", "r1"), ("root", "default"))
    assert found[0].failure_domain == "h0"
    assert found[1].location == ()


def test_a_map_in_which_buckets_hold_each_other_ends():
    found = osds(bucket(-1, "a", "rack", -2), bucket(-2, "b", "host", -1, 0))
    assert found[0].location[0] == ("host", "b")


def test_an_osd_has_the_uuid_of_the_osd_map():
    assert [osd.uuid for osd in osds().values()] == ["u0", "u1"]
