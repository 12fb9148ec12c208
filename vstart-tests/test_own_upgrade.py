"""wcache's own upgrade: module and probe are of different protocols for a while.

The old ones are those of the commit before (today's, where the clone has no history).  Their
protocol gets another number, so that the two sides have only the four messages that never change,
in either order.  That shows what an admin sees of an upgrade which changes the protocol, and that
the one commit between them changes nothing that both have stored.  It does not show an upgrade
from a release of long ago.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Dict, Iterator

import older_tree
import pytest
from harness import ClusterAccess
from harness.modules import link_module
from probes import MODULE, Probe, Wcache, all_views
from what_stands import applied, ended

pytestmark = [pytest.mark.cluster, pytest.mark.one_release, pytest.mark.long]

OFF = "write through"
# what an admin is told to do, by what was upgraded first
TODO = {"module": "upgrade the probe on h1", "probe": "upgrade the module on the mgrs"}


class ProbeOf(Probe):
    """A probe of another tree of the project."""

    def __init__(self, cluster: ClusterAccess, tree: Path) -> None:
        super().__init__(cluster)
        self._tree = tree

    def environment(self) -> Dict[str, str]:
        return {"PYTHONPATH": older_tree.packages_in(str(self._tree))}


@pytest.fixture(scope="module")
def before(cluster: ClusterAccess) -> Path:
    """The project of the commit before, of the protocol before."""
    tree = cluster.folder / "before"
    older_tree.commit_before(cluster.project, tree)
    return tree


def load(wcache: Wcache, module: Path) -> None:
    """Have the mgr start with this module, unless it has it."""
    folder = wcache.cluster.module_folder
    if (folder / module.name).resolve() == module.resolve():
        return
    link_module(folder, module)
    wcache.cluster.restart_mgr()
    wcache.wait("the module", lambda: wcache("status"), 120)


def heard(wcache: Wcache, probe: Probe) -> None:
    """Wait for a new report of a probe of the module's protocol: what is stored is shown too."""
    began_s = time.monotonic()

    def reported() -> bool:
        ages_s = [
            row["reported_s_ago"] for row in wcache("drive ls")["drives"]
            if row["hostname"] == probe.hostname
        ]
        return any(age_s is not None and began_s < time.monotonic() - age_s for age_s in ages_s)

    wcache.wait("the probe's report", reported)


def told_apart(wcache: Wcache) -> str:
    """What `status` says of probes of another protocol; empty where there are none."""
    return "; ".join(
        finding["detail"] for finding in wcache("status")["findings"]
        if finding["code"] == "WCACHE_AGENT_VERSION"
    )


@pytest.fixture
def old(
    wcache: Wcache, running_probe: Probe, steady: ClusterAccess, before: Path
) -> Iterator[ProbeOf]:
    """The old module, and the old probe at work; afterwards both are of today."""
    running_probe.stop()
    probe = ProbeOf(steady, before)
    load(wcache, before / "mgr_module/wcache")
    probe.start()
    heard(wcache, probe)
    yield probe
    probe.stop()
    load(wcache, MODULE)
    running_probe.stop()
    running_probe.start()
    heard(wcache, running_probe)


@pytest.mark.parametrize("back", ["across", "after"])
@pytest.mark.parametrize("first", ["module", "probe"])
def test_a_lease_ends_and_a_plan_stands_until_it_is_taken_back(
    wcache: Wcache, old: ProbeOf, running_probe: Probe, own_class: str, first: str, back: str
):
    cluster = wcache.cluster
    views = all_views(cluster)
    known = wcache("recommend", scope=f"class:{own_class}")["recommendations"]
    if not any(advice["mode"] for advice in known):
        wcache.decide(own_class, scope="osd.0", loads="depth1", seed=7)
    plan_id = applied(wcache, scope=f"class:{own_class}")
    stands = all_views(cluster)
    assert stands[(0, "block")] == OFF
    assert stands != views
    campaign_id = wcache.start_campaign(scope="osd.2", loads="depth1", pairs=80)
    wcache.wait_period_in(OFF, Path(cluster.osd_devices(2)["block"]))

    def upgrade(side: str) -> None:
        if side == "module":
            load(wcache, MODULE)
        else:
            old.stop()
            running_probe.start()

    def taken_back() -> None:
        wcache("rollback", plan_id=plan_id)
        shown = ended(wcache, plan_id)
        why = [change["detail"] for change in shown["changes"]]
        assert shown["status"] == "rolled back", why
        assert all_views(cluster) == views

    upgrade(first)
    wcache.wait("both to tell each other apart", lambda: TODO[first] in told_apart(wcache))
    wcache.wait("the end of the lease", lambda: all_views(cluster) == stands)
    (run,) = wcache.wait_over(campaign_id)["run_list"]
    assert (run["status"], run["restored"]) == ("aborted", True)
    assert TODO[first] in run["reason"]
    if back == "across":
        taken_back()
    upgrade("probe" if first == "module" else "module")
    heard(wcache, running_probe)
    wcache.wait("both to be of one version", lambda: not told_apart(wcache))
    if back == "after":
        assert all_views(cluster) == stands
        taken_back()
    assert wcache.done(scope="osd.2", loads="depth1", pairs=4)["results"]
    assert all_views(cluster) == views
