"""`ceph orch upgrade` while something is measured or applied: it pauses, says so, and goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Set

import pytest
from cephadm.route import OF_THE_RIG, Route, decided, heard
from cephadm_rig import CephadmCluster
from cephadm_rig import registry as registry_program
from probes import Wcache, kernel_view

pytestmark = [pytest.mark.cephadm, pytest.mark.long]

BACK, THROUGH = "write back", "write through"
SAID = "an orchestrated upgrade is under way"
PORT = 5000
# The image in use with a file more, as a registry would have the next one.
MAKE_IMAGE = """
mkdir -p next && cd next
date > a-file-more
printf 'FROM {image}\\nCOPY a-file-more /etc/\\n' > Containerfile
podman build -q -t localhost/next .
rm -rf /root/registry
podman save -q --format docker-dir -o /root/registry localhost/next
podman rmi -f localhost/next
systemd-run -q --unit=registry python3 {program} /root/registry {address} {port}
"""
INSECURE = '[[registry]]\nlocation = "{place}"\ninsecure = true\n'
UPGRADE_S = 900.0
UPGRADED = {"mon", "mgr", "osd"}


@pytest.fixture(scope="module")
def registry(installed: Route) -> Iterator[str]:
    """A registry with another image of the release; its "address:port"."""
    rig = installed.rig
    admin = rig.admin
    place = f"{admin.address}:{PORT}"
    for machine in rig.machines.values():
        conf = machine.path("/etc/containers/registries.conf.d/rig.conf")
        conf.parent.mkdir(parents=True, exist_ok=True)
        conf.write_text(INSECURE.format(place=place))
    admin.run(MAKE_IMAGE.format(
        image=rig.images.name, program=registry_program.__file__, address=admin.address, port=PORT,
    ), timeout_s=300)
    yield place
    admin.run("systemctl stop registry; rm -rf /root/registry /root/next", check=False)


@pytest.fixture
def upgrade(rig: CephadmCluster, wcache: Wcache, registry: str) -> Iterator[Callable[[str], None]]:
    """Begins an upgrade to a tag of the registry's image; none is under way at the end."""

    def begin(tag: str) -> None:
        image = f"{registry}/ceph:{tag}"
        rig.ceph("orch", "upgrade", "start", "--image", image, timeout_s=120)

    yield begin
    rig.ceph("orch", "upgrade", "stop", check=False)


def under_way(rig: CephadmCluster) -> bool:
    """Whether an upgrade is; where it is not, `orch upgrade status` says so in words."""
    seen = rig.command("orch upgrade status", target="mgr")
    if not isinstance(seen, dict):
        return False
    assert not seen["is_paused"], seen
    return bool(seen["in_progress"])


def images(rig: CephadmCluster) -> Set[str]:
    """The images of Ceph's own daemons, as cephadm sees them."""
    rows = rig.command("orch ps", target="mgr")
    return {row.get("container_image_name", "") for row in rows if row["daemon_type"] in UPGRADED}


def until_upgraded(
    wcache: Wcache, rig: CephadmCluster, route: Route, tag: str, meanwhile: Callable[[], None]
) -> None:
    """Wait for its end; `meanwhile` is called again and again while it is under way."""

    def over() -> bool:
        if under_way(rig):
            meanwhile()
            return False
        return {name.rpartition(":")[2] for name in images(rig)} == {tag}

    wcache.wait(f"the upgrade to {tag}", over, UPGRADE_S)
    route.wait_mgrs()
    # an upgrade brings warnings of key types back, which bootstrap has muted
    for code in rig.health_checks():
        if code.startswith("AUTH_INSECURE_"):
            rig.ceph("health", "mute", code, "--sticky")
    rig.wait_healthy(300, ignoring=sorted(OF_THE_RIG))


def test_a_campaign_ends_what_it_measures_and_goes_on_after_the_upgrade(
    wcache: Wcache, rig: CephadmCluster, views: Dict[str, str], installed: Route,
    upgrade: Callable[[str], None],
):
    campaign_id = wcache.start_campaign(scope="cluster", loads="depth1", pairs=40)
    wcache.wait("a first pair", lambda: wcache.campaign(campaign_id)["periods_done"] >= 2, 240)

    def runs(status: str) -> List[Dict[str, Any]]:
        shown = wcache.campaign(campaign_id)["run_list"]
        return [run for run in shown if run["status"] == status]

    assert len(runs("waiting")) == 1
    upgrade("campaign")
    (ended,) = wcache.wait("the end of what is measured", lambda: runs("aborted"), 120)
    assert SAID in ended["reason"]
    assert ended["restored"] is True
    (waits,) = wcache.wait("the other one says it", lambda: [
        run for run in runs("waiting") if SAID in run["reason"]
    ], 30)

    def nothing_is_touched() -> None:
        assert {kernel_view(Path(drive)) for drive in views} == {BACK}

    until_upgraded(wcache, rig, installed, "campaign", nothing_is_touched)
    shown = wcache.wait_over(campaign_id, 400)
    (after,) = [run for run in shown["run_list"] if run["run_id"] == waits["run_id"]]
    assert (after["status"], after["reason"]) == ("done", "")


def test_a_rollout_waits_before_its_next_change_and_goes_on_after_the_upgrade(
    wcache: Wcache, rig: CephadmCluster, views: Dict[str, str], installed: Route,
    upgrade: Callable[[str], None],
):
    wcache.wait("the probes", lambda: heard(wcache) == set(rig.machines), 240)
    decided(wcache)
    wcache.option("canary_wait_s", 20.0)
    plan_id = wcache("plan")["plan_id"]

    def plan() -> Dict[str, Any]:
        return dict(wcache("plan show", plan_id=plan_id))

    def changed() -> List[str]:
        return [drive for drive in views if kernel_view(Path(drive)) == THROUGH]

    try:
        # the mgr may just have started: it waits for a report of each host
        wcache.wait("apply", lambda: wcache("apply", plan_id=plan_id, override="ok_to_stop"), 120)
        (canary,) = wcache.wait("the canary", changed, 120)
        upgrade("rollout")
        wcache.wait("it waits, and says why", lambda: SAID in plan()["reason"], 120)

        def no_other_is_touched() -> None:
            assert changed() == [canary]

        until_upgraded(wcache, rig, installed, "rollout", no_other_is_touched)
        wcache.wait("the other change", lambda: plan()["status"] == "done", 400)
        assert set(changed()) == set(views)
    finally:
        wcache.option("canary_wait_s", 1.0)
        wcache("rollback", plan_id=plan_id)
        wcache.wait("the way back", lambda: plan()["status"] == "rolled back", 300)
    ours = {code for code in rig.health_checks() if code.startswith("WCACHE_")}
    assert ours <= OF_THE_RIG
