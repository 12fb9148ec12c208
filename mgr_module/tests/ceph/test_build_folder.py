"""A mgr whose configuration is beside CMake's cache runs from a build folder."""

import pytest
from wcache.ceph.surroundings import CephSurroundings


class Mgr:
    """A mgr with this configuration and one OSD."""

    def __init__(self, conf, osd):
        self._conf, self._osd = conf, osd

    def get_ceph_conf_path(self):
        return self._conf

    def get(self, data_name):
        assert data_name == "osd_metadata"
        return {"0": self._osd}


@pytest.mark.parametrize(("osd", "on_files"), [
    ({"bluestore_bdev_dev_node": "/dev/loop1"}, False), ({"hostname": "h"}, True),
])
def test_a_build_folder_is_known_by_cmakes_cache_and_its_osds_by_their_devices(
    tmp_path, osd, on_files
):
    conf = f"{tmp_path}/ceph.conf"
    assert CephSurroundings(Mgr("/etc/ceph/ceph.conf", osd), {}).build_folder() is None
    assert CephSurroundings(Mgr(conf, osd), {}).build_folder() is None
    (tmp_path / "CMakeCache.txt").write_text("")
    found = CephSurroundings(Mgr(conf, osd), {}).build_folder()
    assert (found.path, found.conf, found.on_files) == (str(tmp_path), conf, on_files)
