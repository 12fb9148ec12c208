"""The guide's route of packages, word by word, on each Debian that has a Ceph of ours.

All hosts of the guide are one fresh root, in which mon, mgr and OSDs run too.  Its drives are
loop devices of a throwaway cluster: what the guide knows nothing of is in `as_a_test_needs_it`.
"""

from __future__ import annotations

import json
import os
import re
import time

import pytest
from harness import ClusterPlan, start_cluster
from packages_lab import guide

pytestmark = [pytest.mark.packages, pytest.mark.long]

ROUTE = "From packages"
FIRST = "Install"
ANSWER_S = 300
OPTIONS = {
    "throwaway_cluster": "true", "poll_idle_s": "0.3", "settle_s": "0.1", "period_s": "1.0",
    "canary_wait_s": "1.0", "lease_ttl_s": "30", "gate_by_load": "false",
}
RELEASES = [int(word) for word in os.environ.get("PACKAGES_RELEASES", "16 18 20").split()]


@pytest.fixture(params=RELEASES)
def release(request):
    return request.param


@pytest.fixture
def cluster_of(fresh_root, release):
    """Starts Ceph in the fresh root, where it and the module are installed by packages."""
    started = []

    def start():
        plan = ClusterPlan(
            release=release, root=fresh_root.root, own_modules=(), packaged_modules=("wcache",),
        )
        started.append(start_cluster(plan))
        return started[0]

    yield start
    for cluster in started:
        cluster.stop()


def as_an_admin_has_it(host, cluster):
    """Ceph's configuration and OSDs where Ceph puts them."""
    host.type(
        f"mkdir -p /etc/ceph /var/lib/ceph/osd && cp {cluster.conf} /etc/ceph/ceph.conf && "
        f"for osd in {cluster.folder}/osd.[0-9]; do "
        "ln -sfn $osd /var/lib/ceph/osd/ceph-${osd##*.}; done"
    )


def as_a_test_needs_it(cluster):
    """Loop devices are toggled in a cluster that is declared worthless only."""
    for name, value in OPTIONS.items():
        cluster.ceph("config", "set", "mgr", f"mgr/wcache/{name}", value)


def until(host, command, found, timeout_s=ANSWER_S):
    """Ask again and again, as an admin would, until the answer is as wanted."""
    deadline = time.monotonic() + timeout_s
    while True:
        done = host.try_to(f"{command} --format json", quiet=True)
        # a mgr that starts anew does not know the command yet
        answer = json.loads(done.text) if done.code == 0 else None
        if answer is not None and found(answer):
            return answer
        assert time.monotonic() < deadline, done.text
        time.sleep(1)


def views(cluster):
    return {
        (osd_id, role): open(f"/sys/block/{device.rpartition('/')[2]}/queue/write_cache").read()
        for osd_id in cluster.osd_ids() for role, device in cluster.osd_devices(osd_id).items()
    }


SPEC = """
import sys, yaml
from ceph.deployment.service_spec import ServiceSpec
spec = ServiceSpec.from_json(yaml.safe_load(sys.stdin))
print(" ".join(map(str, spec.to_json()["extra_container_args"])))
"""


def test_the_lines_for_the_mgrs_spec_are_ones_that_ceph_takes(host):
    """By the code that cephadm has of it; vstart-tests/cephadm runs all of that route."""
    _, lines, *_ = guide.blocks("With cephadm")
    host.write("/root/mgr.yaml", "\n".join(["service_type: mgr", "placement: {count: 2}", *lines]))
    host.write("/root/spec.py", SPEC)
    said = host.type("python3 /root/spec.py < /root/mgr.yaml")
    assert said.split() == ["-v", "/opt/wcache/wcache:/usr/share/ceph/mgr/wcache:ro"]


def test_three_commands_lead_to_a_recommendation_and_the_undo_takes_all_away(
    host, debs, newer_debs, cluster_of, release
):
    print(f"\nCeph {release}", flush=True)
    (install,), (undo,) = guide.blocks(ROUTE), guide.blocks(ROUTE, guide.LEAVE)
    (first,), (leave,) = guide.blocks(FIRST), guide.blocks("Leave", guide.LEAVE)
    began_s = time.monotonic()
    host.copy(list(debs.values()))
    for line in install:
        host.type(line)
    typed_s = time.monotonic() - began_s

    cluster = cluster_of()
    as_an_admin_has_it(host, cluster)
    before = views(cluster)
    measuring_s = time.monotonic()
    for line in first:
        if "wcache try" in line:
            as_a_test_needs_it(cluster)
            until(host, "ceph wcache drive ls", lambda seen: seen["drives"])
        host.type(line)
        if "module enable" in line:
            until(host, "ceph wcache status", lambda seen: True)
    answer = until(host, "ceph wcache try", lambda seen: seen["state"] == "answer")
    measured_s = time.monotonic() - measuring_s
    assert answer["recommendations"], answer
    commands = len(install) + len(first)
    print(
        f"Ceph {release}: {commands} commands; installed in {typed_s:.0f} s, recommendation "
        f"{measured_s:.0f} s after the first of the last three", flush=True,
    )

    plan = re.search(r"\bp\d+\b", host.type("ceph wcache plan"))
    if plan:
        host.type(f"ceph wcache apply {plan[0]}")
        until(host, f"ceph wcache plan show {plan[0]}", lambda seen: seen["status"] != "running")
        # with a change in place an upgrade goes on, and a removal does not
        host.copy(list(newer_debs.values()))
        for line in install:
            host.type(line)
        cluster.restart_mgr()
        assert host.try_to("apt-get remove -y wcache-probe").code != 0
        host.type(f"ceph wcache rollback {plan[0]}")
        until(
            host, f"ceph wcache plan show {plan[0]}", lambda seen: seen["status"] == "rolled back"
        )
    assert views(cluster) == before

    name = host.type("hostname").strip()
    for lines in ("\n".join(leave), *undo):
        host.type(re.sub(r"\bh1\b", name, lines))
    assert host.files_named("wcache") == []
    assert views(cluster) == before
