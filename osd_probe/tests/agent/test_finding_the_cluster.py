"""A probe finds a cluster's configuration and its key where Ceph's own programs do."""

import os

import pytest
from wcache.core.config_database import conf_places
from wcache.core.errors import NotReadyError
from wcache_probe.arguments import parse
from wcache_probe.rados_link import RadosLink, find_conf

HOME = {"HOME": "/home/me"}


@pytest.mark.parametrize(
    ("given", "cluster", "environment", "places"),
    [
        ("", "", HOME, ["/etc/ceph/ceph.conf", "/home/me/.ceph/ceph.conf", "ceph.conf"]),
        ("", "test", HOME, ["/etc/ceph/test.conf", "/home/me/.ceph/test.conf", "test.conf"]),
        ("", "", {}, ["/etc/ceph/ceph.conf", "ceph.conf"]),
        ("", "", {**HOME, "CEPH_CONF": "/a.conf"}, ["/a.conf"]),
        ("", "c", {"CEPH_CONF": "/x/$cluster.conf, /b"}, ["/x/c.conf", "/b"]),
        ("/b.conf", "", {**HOME, "CEPH_CONF": "/a.conf"}, ["/b.conf"]),
    ],
)
def test_the_places_are_those_of_ceph_in_its_order(given, cluster, environment, places):
    assert list(conf_places(given, cluster, environment)) == places


def test_the_first_that_can_be_read_is_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    places = conf_places("", "", {"HOME": str(tmp_path)})[1:]
    assert find_conf(places) is None
    (tmp_path / "ceph.conf").write_text("")
    assert find_conf(places) == "ceph.conf"
    (tmp_path / ".ceph").mkdir()
    (tmp_path / ".ceph" / "ceph.conf").mkdir()  # no file: passed over
    assert find_conf(places) == "ceph.conf"
    (tmp_path / ".ceph" / "ceph.conf").rmdir()
    (tmp_path / ".ceph" / "ceph.conf").write_text("")
    assert find_conf(places) == f"{tmp_path}/.ceph/ceph.conf"


class NoCluster:
    """python3-rados with a cluster that knows no key; it tells what it was given."""

    class Error(Exception):
        pass

    class PermissionDeniedError(Error):
        pass

    class PermissionError(Error):
        pass

    class ObjectNotFound(Error):
        pass

    def __init__(self):
        self.given = {}

    def Rados(self, **options):
        self.given = options
        return self

    def connect(self):
        raise self.ObjectNotFound("RADOS object not found (error connecting to the cluster)")

    def conf_get(self, _option):
        return "/etc/ceph/ceph.client.x.keyring,/etc/ceph/ceph.keyring"

    def shutdown(self):
        pass


@pytest.fixture
def said_by(tmp_path):
    """What a link says when it cannot even connect, and what librados was given."""
    read_fd, write_fd = os.pipe()

    def say(places, **options):
        bindings = NoCluster()
        link = RadosLink(
            hostname="h1", places=places, name="client.x", interrupt_fd=read_fd,
            bindings=bindings, **{"cluster": "", "keyring": "", **options},
        )
        with pytest.raises(NotReadyError) as caught:
            link.poll("{}", 5.0)
        link.close()
        return caught.value.line(), bindings.given

    yield say
    os.close(read_fd)
    os.close(write_fd)


def test_where_no_configuration_is_the_message_names_every_place(said_by, tmp_path):
    line, given = said_by((f"{tmp_path}/a.conf", "ceph.conf"))
    assert f"looked for {tmp_path}/a.conf, ceph.conf in this folder" in line
    assert "--conf" in line
    assert not given, "librados is not even asked"


def test_librados_gets_what_was_found_and_the_message_names_the_keyrings(said_by, tmp_path):
    path = tmp_path / "test.conf"
    path.write_text("")
    line, given = said_by((str(path),), cluster="test", keyring="/k")
    assert given["conffile"] == str(path)
    assert given["clustername"] == "test"
    assert given["conf"]["keyring"] == "/k"
    assert "no key in /etc/ceph/ceph.client.x.keyring, /etc/ceph/ceph.keyring" in line


def test_the_options_say_nothing_of_this_machine(monkeypatch):
    monkeypatch.setenv("CEPH_CONF", "/home/me/ceph.conf")
    options = parse(["run"])
    assert (options.conf, options.cluster, options.keyring) == ("", "", "")
