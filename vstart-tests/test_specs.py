"""The specs that `agent add` prints are taken by the release's own ServiceSpec code.

No cephadm runs here: that code is what `ceph orch apply` checks a spec with.
"""

from __future__ import annotations

import json
import subprocess

import pytest
from harness.releases import ensure_release
from wcache.core.errors import MalformedError
from wcache.deployment.places import Form, require_name
from wcache.deployment.scripts import script

HOSTS = ("h1", "osd-host-2.example.org")
IMAGE = "quay.io/ceph/ceph:v20.2.4"
CEPH_USER_ID = 167
# Prints what the release made of each document, or its complaint.
READER = """
import json, sys, yaml
from ceph.deployment.service_spec import ServiceSpec
told = []
for plain in yaml.safe_load_all(sys.stdin.read()):
    try:
        spec = ServiceSpec.from_json(plain)
        spec.validate()
        told.append({"name": spec.service_name(), "spec": spec.to_json()})
    except Exception as error:
        told.append({"error": str(error)})
print(json.dumps(told))
"""

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def taken(release):
    """What the release's code makes of YAML documents; in its root, where nothing is mounted."""
    root = ensure_release(release)
    enter = ["chroot", str(root.path)] if root.path is not None else []

    def read(text):
        done = subprocess.run(
            [*enter, "/usr/bin/python3", "-c", READER], input=text, capture_output=True,
            text=True, timeout=60, check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    lacks = read(printed(program_inside=True))[0].get("error", "")
    if "unexpected keyword argument 'extra_container_args'" in lacks:
        pytest.skip("cephadm of this release cannot; `agent add` refuses it by the same look")
    return read


def printed(**changes):
    text = script(
        "cephadm", hostnames=HOSTS, image=IMAGE, ceph_user_id=CEPH_USER_ID, **changes
    ).text
    return text.partition("ceph orch apply")[2].partition("\n")[2].partition("\nEND_OF_WCACHE")[0]


@pytest.mark.parametrize("program_inside", [False, True])
def test_each_spec_is_valid_and_says_what_was_meant(taken, program_inside):
    found = taken(printed(program_inside=program_inside))
    assert [item.get("name") for item in found] == [f"container.wcache-{h}" for h in HOSTS], found
    for hostname, item in zip(HOSTS, found):
        plain = item["spec"]
        assert plain["placement"] == {"hosts": [hostname]}
        assert "--stop-timeout=90" in plain["extra_container_args"]
        assert f"--hostname={hostname}" in plain["extra_entrypoint_args"]
        assert plain["spec"]["privileged"] is True
        assert plain["spec"]["uid"] == plain["spec"]["gid"] == CEPH_USER_ID
        assert plain["spec"]["volume_mounts"]["/sys"] == "/sys"


@pytest.mark.parametrize("hostname", ["A", "a_b", "a..b", "h1.", "-a", "a-"])
def test_a_host_name_is_left_out_where_that_code_would_refuse_it(taken, hostname):
    text = printed(program_inside=True).split("\n---\n")[0].replace("h1", hostname)
    (found,) = taken(text)
    try:
        require_name(Form.CEPHADM, hostname)
    except MalformedError:
        return
    assert "error" not in found


def test_that_code_refuses_a_spec_that_is_wrong(taken):
    (found,) = taken(printed(program_inside=True).split("\n---\n")[0].replace(
        "extra_container_args", "extra_contaner_args"
    ))
    assert "error" in found
