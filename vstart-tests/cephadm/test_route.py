"""What doc/install.md says of cephadm, word by word, from installing to the undo."""

from __future__ import annotations

from pathlib import Path

import pytest
from cephadm.route import OF_THE_RIG, Route, decided, heard
from cephadm_rig import CephadmCluster
from harness import CommandError
from harness.access import PROJECT
from probes import Wcache, kernel_view

pytestmark = [pytest.mark.cephadm]

LAB_UNIT = PROJECT / "qa" / "drive_lab" / "tests" / "campaigns" / "cephadm_unit.run"
BACK, THROUGH = "write back", "write through"


def views(rig: CephadmCluster) -> set:
    drives = [drive for machine in rig.machines.values() for drive in machine.drives]
    return {kernel_view(Path(drive)) for drive in drives}


def test_the_page_leads_to_a_recommendation_with_a_probe_on_each_host(
    installed: Route, wcache: Wcache
):
    assert installed.answer["recommendations"], installed.answer
    agents = wcache("agent ls")["agents"]
    assert {row["hostname"] for row in agents} == set(installed.rig.machines)
    assert {row["form"] for row in agents} == {"cephadm"}
    raised = {code for code in installed.rig.health_checks() if code.startswith("WCACHE_")}
    assert raised <= OF_THE_RIG


def test_cephadm_runs_the_probe_by_the_file_that_the_drive_lab_runs(rig: CephadmCluster, wcache):
    (name, machine), *_ = rig.machines.items()
    unit = f"container.wcache-{name}.{name}"
    (run,) = machine.path("/var/lib/ceph").glob(f"*/{unit}/unit.run")
    known = LAB_UNIT.read_text(encoding="utf-8").replace("FSID", rig.fsid).replace("HOST", name)
    # cephadm has the mounts in another order once its mgr was started anew
    now = sorted(run.read_text(encoding="utf-8").split())
    assert now == sorted(known.replace("\\\n", "").split())


def test_a_clusters_folder_and_that_of_crash_dumps_stay_cephs(installed: Route):
    """cephadm gives them to the user of what it deployed last."""
    for machine in installed.rig.machines.values():
        folder = machine.path("/var/lib/ceph") / installed.rig.fsid
        osd, *_ = folder.glob("osd.*")
        owners = {path.stat().st_uid for path in (osd, folder, folder / "crash")}
        assert owners == {osd.stat().st_uid}


@pytest.mark.long
def test_a_plan_is_applied_survives_an_upgrade_and_is_rolled_back(
    installed: Route, wcache: Wcache, rig: CephadmCluster
):
    decided(wcache)
    plan_id = wcache("plan")["plan_id"]
    installed.type([f"ceph wcache apply {plan_id}"])
    installed.until(
        "wcache plan show", lambda seen: seen["status"] == "done", plan_id=plan_id
    )
    assert views(rig) == {THROUGH}
    # module and probe of another version: all containers are new, and nothing was undone
    installed.upgrade()
    wcache.wait("the probes", lambda: heard(wcache) == set(rig.machines), 300)
    assert views(rig) == {THROUGH}
    for hostname in rig.machines:
        with pytest.raises(CommandError, match="rollback"):
            wcache("agent rm", hostname=hostname)
    installed.type([f"ceph wcache rollback {plan_id}"])
    installed.until(
        "wcache plan show", lambda seen: seen["status"] == "rolled back", plan_id=plan_id
    )
    assert views(rig) == {BACK}


@pytest.mark.long
def test_undo_takes_all_of_it_away_and_the_cluster_is_as_before(
    installed: Route, rig: CephadmCluster
):
    installed.undo()
    assert installed.left() == []
    rig.wait_healthy(300, ignoring=sorted(installed.health_before))
    assert rig.health_checks() <= installed.health_before
    assert views(rig) == {BACK}
    print(f"{installed.commands} commands typed in all", flush=True)
