"""Probe and `wcache` find a configuration and a key wherever Ceph's own `ceph` tool finds them.

No cluster is needed: what is found is told by the complaint, that a key is missing there.
"""

from __future__ import annotations

import sys
from typing import Callable, ContextManager, Iterator

import pytest
from ceph_ci.place import Place
from ceph_ci.source import PROJECT

pytestmark = [pytest.mark.ceph_ci, pytest.mark.long]
RELEASE = 20
CONFIGURATION = "[global]\nmon host = 127.0.0.1:1\nauth client required = cephx\n"
REPORT = "wcache report --out /tmp/report.html"
PROBE = "wcache-probe run --hostname h1 --state-dir /tmp/state --run-dir /tmp/run"
# by the place: the file, what is exported, what each program is told, the folder it runs in
PLACES = {
    "--conf": ("/else/a.conf", "A=", "--conf /else/a.conf", "/tmp"),
    "CEPH_CONF": ("/else/a.conf", "CEPH_CONF=/else/a.conf", "", "/tmp"),
    "/etc/ceph": ("/etc/ceph/ceph.conf", "A=", "", "/tmp"),
    "/etc/ceph, another cluster": ("/etc/ceph/west.conf", "A=", "--cluster west", "/tmp"),
    "~/.ceph": ("/root/.ceph/ceph.conf", "A=", "", "/tmp"),
    "~/.ceph, another cluster": ("/root/.ceph/west.conf", "A=", "--cluster west", "/tmp"),
    "the current folder": ("/else/ceph.conf", "A=", "", "/else"),
}


@pytest.fixture(scope="module")
def place(open_place: Callable[[int], ContextManager[Place]]) -> Iterator[Place]:
    sys.path.insert(0, str(PROJECT / "packaging"))
    import zipapps

    with open_place(RELEASE) as made:
        for name in ("wcache", "wcache-probe"):
            zipapps.build(name, made.outside("/usr/bin"))
        made.check(["mkdir", "-p", "/else", "/root/.ceph"])
        yield made


@pytest.mark.parametrize("where", PLACES)
def test_probe_and_tool_look_where_cephs_own_tool_does(place: Place, where: str) -> None:
    path, exported, options, folder = PLACES[where]
    file = place.outside(path)
    file.write_text(CONFIGURATION)
    # what --conf names is called as the file is
    cluster = "west" if "west" in options else "a" if "--conf" in options else "ceph"
    keyring = f"/etc/ceph/{cluster}.client"

    def look(command: str, wanted: str) -> None:
        """Run it in that folder until it says so; the probe would try for ever."""
        line = f"grep -qF -m1 '{wanted}' <({command} {options} 2>&1); rc=$?; kill $!; exit $rc"
        argv = ["timeout", "60", "bash", "-c", f"cd {folder} && export {exported} && {line}"]
        done = place.run(argv)
        assert done.returncode == 0, f"{command} did not say {wanted}"

    try:
        look("ceph health", f"{keyring}.admin.keyring")
        look(REPORT, "failed: [errno 2] RADOS object not found")
        look(PROBE, f"no key in {keyring}.wcache.h1.keyring")
    finally:
        file.unlink()


@pytest.mark.parametrize("program", [REPORT, PROBE])
def test_where_nothing_is_the_message_names_the_places(place: Place, program: str) -> None:
    said = place.run(["sh", "-c", f"cd /tmp && timeout 15 {program} --cluster none"]).stdout
    for path in ("/etc/ceph/none.conf", "/root/.ceph/none.conf", "none.conf in this folder"):
        assert path in said
