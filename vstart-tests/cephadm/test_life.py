"""What cephadm and power do to mgrs, probes and hosts while a drive is measured.

After each, every drive is in the mode that it was in, and `status` has no new finding.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Callable, Dict, Iterator, Set

import pytest
from cephadm.route import HOSTS, OF_THE_RIG, Route, decided, heard
from cephadm_rig import CephadmCluster
from cephadm_rig.machine import Machine
from harness import CommandError, HarnessError
from harness.processes import wait_until
from probes import Wcache, kernel_view

pytestmark = [pytest.mark.cephadm]

BACK, THROUGH = "write back", "write through"
HOST = f"h{HOSTS}"  # the last one: an admin sits at the first
STRIKES_MAX = 5
RESTORED_S = 120.0
# What doc/security.md has in the place of `privileged: true`.
FEWER_RIGHTS = (
    "--cap-drop=ALL", "--cap-add=SYS_ADMIN", "--cap-add=SYS_RAWIO", "--cap-add=SYS_PTRACE",
    "--cap-add=DAC_READ_SEARCH", "--cap-add=DAC_OVERRIDE",
    "--device-cgroup-rule=b *:* rw", "--device-cgroup-rule=c *:* rw",
    "--security-opt=label=disable", "--security-opt=apparmor=unconfined",
    "--security-opt=unmask=/sys/dev/block",
)
LONG = {"scope": f"host:{HOST}", "loads": "depth1", "pairs": 80}


@pytest.fixture
def machine(rig: CephadmCluster) -> Machine:
    """The host that is measured on; an admin sits at another one."""
    return rig.machines[HOST]


@pytest.fixture
def drive(machine: Machine) -> Path:
    """The drive that is measured."""
    return Path(machine.drives[0])


@pytest.fixture
def leased(wcache: Wcache, views: Dict[str, str], drive: Path) -> str:
    """A campaign that measures a drive in periods long enough to strike in one; its id."""
    wcache.option("settle_s", 1.0)
    campaign_id = wcache.start_campaign(**LONG)
    wcache.wait("a first pair", lambda: wcache.campaign(campaign_id)["periods_done"] >= 2, 240)
    return campaign_id


def strike(wcache: Wcache, drive: Path, how: Callable[[], object]) -> None:
    """Do something while the drive is leased and off."""
    wcache.wait_period_in(THROUGH, drive)
    how()


def comes_back(drive: Path, timeout_s: float = RESTORED_S) -> None:
    """The drive is as it was before, and stays so: nothing measures it any more."""
    assert wait_until(lambda: kernel_view(drive) == BACK, timeout_s), "not restored"


def over(wcache: Wcache, campaign_id: str) -> Dict:
    """End the campaign, if it has not come to an end, and show it."""

    def stopped() -> bool:
        if wcache.campaign(campaign_id)["status"] == "running":
            wcache("campaign stop", campaign_id=campaign_id)
        return True

    wcache.wait("a mgr that answers", stopped, 240)
    return wcache.wait_over(campaign_id, 240)


def active_host(rig: CephadmCluster) -> str:
    """The host whose mgr is active."""
    return rig.active_mgr().partition(".")[0]


def make_active(rig: CephadmCluster, host: str) -> None:
    """Have the mgr of a host become the active one."""
    if active_host(rig) != host:
        rig.fail_mgr()
    assert active_host(rig) == host


def boot(rig: CephadmCluster, machine: Machine) -> None:
    """Power a host on, and have cephadm connect to it anew.

    Where power was cut in the middle of a command, the mgr would wait for its end for a quarter
    of an hour (default_cephadm_command_timeout), and look at no host meanwhile.
    """
    machine.power_on()
    machine.wait_up()
    rig.fail_mgr()


@pytest.mark.long
def test_a_mgr_that_fails_over_to_another_host_goes_on_with_the_campaign(
    wcache: Wcache, rig: CephadmCluster, leased: str
):
    done, host = wcache.campaign(leased)["periods_done"], active_host(rig)
    rig.fail_mgr()
    assert active_host(rig) != host
    wcache.wait("more periods", lambda: wcache.campaign(leased)["periods_done"] > done, 240)
    shown = over(wcache, leased)
    assert shown["run_list"][0]["restored"] is True
    assert "resumed after a restart of the mgr" in wcache.history_text()


def test_a_probes_container_that_is_killed_in_a_lease_restores_at_its_next_start(
    wcache: Wcache, rig: CephadmCluster, machine: Machine, drive: Path, leased: str
):
    name = f"ceph-{rig.fsid}-container-wcache-{HOST}-{HOST}"
    for _ in range(STRIKES_MAX):
        # its process, not the container: nothing of it has a word in this
        strike(wcache, drive, lambda: machine.run("pkill -9 -f '[/]usr/bin/wcache-probe run'"))
        if kernel_view(drive) == THROUGH:
            break
        wcache.wait("the probe", lambda: machine.run(f"podman ps -q -f name={name}").stdout, 120)
    else:
        raise AssertionError("the probe was never killed in the middle of a lease")
    before = wcache.campaign(leased)["periods_done"]
    comes_back(drive)
    # systemd starts it, and it goes on with the period that was cut off
    wcache.wait("more periods", lambda: wcache.campaign(leased)["periods_done"] > before, 240)
    assert over(wcache, leased)["run_list"][0]["restored"] is True
    assert "the probe was restarted" in wcache.history_text()


@pytest.mark.long
@pytest.mark.parametrize("verb", ["restart", "redeploy"])
def test_cephadm_restarts_and_redeploys_a_probe_in_a_lease(
    wcache: Wcache, rig: CephadmCluster, drive: Path, leased: str, installed: Route, verb: str
):
    before = installed.containers("container")
    strike(wcache, drive, lambda: rig.ceph("orch", verb, f"container.wcache-{HOST}"))

    def anew() -> bool:
        now = installed.containers("container")
        return set(now) == set(before) and now != before

    wcache.wait("another container", anew, 300)
    done = wcache.campaign(leased)["periods_done"]
    wcache.wait("more periods", lambda: wcache.campaign(leased)["periods_done"] > done, 240)
    assert over(wcache, leased)["run_list"][0]["restored"] is True


@pytest.mark.long
def test_a_probe_with_fewer_rights_than_all_is_deployed_and_restores_its_drive(
    wcache: Wcache, rig: CephadmCluster, machine: Machine, drive: Path, installed: Route,
    views: Dict[str, str],
):
    (spec,) = rig.ceph_json("orch", "ls", "--service_name", f"container.wcache-{HOST}", "--export")
    deploy(rig, installed, {
        **spec,
        "spec": {**spec["spec"], "privileged": False},
        "extra_container_args": [
            *spec["extra_container_args"],
            *({"argument": each, "split": False} for each in FEWER_RIGHTS),
        ],
    })
    try:
        (run,) = machine.path("/var/lib/ceph").glob(f"*/container.wcache-{HOST}.{HOST}/unit.run")
        assert "--privileged" not in run.read_text(encoding="utf-8")
        wcache.wait("the probe", lambda: HOST in heard(wcache), 120)
        campaign_id = wcache.start_campaign(**LONG)
        wcache.wait("pairs", lambda: wcache.campaign(campaign_id)["periods_done"] >= 4, 240)
        wcache.wait_period_in(THROUGH, drive)
        assert over(wcache, campaign_id)["run_list"][0]["restored"] is True
        comes_back(drive)
    finally:
        deploy(rig, installed, spec)
    wcache.wait("the probe", lambda: HOST in heard(wcache), 120)


def deploy(rig: CephadmCluster, installed: Route, spec: Dict) -> None:
    """Have cephadm run a probe by another spec, and wait for its container."""
    before = installed.containers("container")
    rig.ceph("orch", "apply", "-i", "-", input_text=json.dumps(spec))
    (name,) = (name for name in before if f"-{HOST}-" in name)

    def anew() -> bool:
        now = installed.containers("container")
        return set(now) == set(before) and now[name] != before[name]

    assert wait_until(anew, 420), "no other container"


@pytest.mark.long
def test_mgrs_that_are_redeployed_go_on_with_the_campaign(
    wcache: Wcache, rig: CephadmCluster, leased: str, installed: Route
):
    before = installed.containers("mgr")
    rig.ceph("orch", "redeploy", "mgr")
    installed.wait_deployed_anew("mgr", before)
    done = wcache.wait("the campaign", lambda: wcache.campaign(leased), 120)["periods_done"]
    wcache.wait("more periods", lambda: wcache.campaign(leased)["periods_done"] > done, 240)
    assert over(wcache, leased)["run_list"][0]["restored"] is True


@pytest.mark.long
def test_a_host_that_enters_maintenance_restores_its_drives_and_comes_back(
    wcache: Wcache, rig: CephadmCluster, machine: Machine, drive: Path, leased: str
):
    make_active(rig, "h1")
    strike(wcache, drive, lambda: rig.ceph(
        "orch", "host", "maintenance", "enter", HOST, timeout_s=240
    ))
    comes_back(drive)
    shown = over(wcache, leased)
    assert kernel_view(drive) == BACK, shown
    rig.ceph("orch", "host", "maintenance", "exit", HOST, timeout_s=240)
    rig.wait_osd_up(1, timeout_s=240)
    rig.wait_healthy(300, ignoring=sorted(OF_THE_RIG))


@pytest.mark.long
def test_a_host_that_is_drained_restores_its_drive_before_its_probe_goes(
    wcache: Wcache, rig: CephadmCluster, machine: Machine, drive: Path, leased: str,
    installed: Route,
):
    make_active(rig, "h1")
    # each probe's spec names its host; `agent rm` is the way where a host goes for good
    with pytest.raises(CommandError, match=f"container.wcache-{HOST}"):
        rig.ceph("orch", "host", "drain", HOST)
    strike(wcache, drive, lambda: drain(rig))
    wcache.wait("the probe to go", lambda: not probe_of(machine), 300)
    assert kernel_view(drive) == BACK
    over(wcache, leased)
    assert kernel_view(drive) == BACK
    drain_no_more(wcache, rig, machine, installed)


def drain(rig: CephadmCluster) -> None:
    """Have cephadm take all daemons off the host."""
    rig.ceph("orch", "host", "drain", HOST, "--force", timeout_s=120)


def probe_of(machine: Machine) -> str:
    """The probe's container, also while it is stopped, which podman does not list by itself."""
    return machine.run(f"podman ps -aq -f name=container-wcache-{HOST}-").stdout


def drain_no_more(
    wcache: Wcache, rig: CephadmCluster, machine: Machine, installed: Route
) -> None:
    """Have the daemons come back; the other host could not hold all data alone."""
    rig.ceph("orch", "osd", "rm", "stop", "1")
    for label in ("_no_schedule", "_no_conf_keyring"):
        rig.ceph("orch", "host", "label", "rm", HOST, label)
    wcache.wait("the probe", lambda: probe_of(machine), 400)
    installed.wait_mgrs()
    rig.wait_healthy(300, ignoring=sorted(OF_THE_RIG))


@pytest.mark.long
def test_what_was_applied_outlives_maintenance_and_a_drain_and_is_not_called_rolled_back_unseen(
    wcache: Wcache, rig: CephadmCluster, machine: Machine, drive: Path, views: Dict[str, str],
    installed: Route,
):
    make_active(rig, "h1")
    plan_id = applied(wcache)

    def status() -> str:
        return str(wcache("plan show", plan_id=plan_id)["status"])

    rig.ceph("orch", "host", "maintenance", "enter", HOST, timeout_s=240)
    assert (kernel_view(drive), status()) == (THROUGH, "done")
    rig.ceph("orch", "host", "maintenance", "exit", HOST, timeout_s=240)
    rig.wait_osd_up(1, timeout_s=240)
    wcache.wait("the probe", lambda: HOST in heard(wcache), 240)
    assert (kernel_view(drive), status()) == (THROUGH, "done")

    drain(rig)
    wcache.wait("the probe to go", lambda: not probe_of(machine), 300)
    assert (kernel_view(drive), status()) == (THROUGH, "done")
    wcache("rollback", plan_id=plan_id)
    waits = "the rollback waits for a probe"
    wcache.wait("that it says so", lambda: waits in wcache.history_text(), 120)
    assert (kernel_view(drive), status()) == (THROUGH, "rolling back")
    drain_no_more(wcache, rig, machine, installed)
    wcache.wait("the way back", lambda: status() == "rolled back", 300)
    assert kernel_view(drive) == BACK


def remove_host(rig: CephadmCluster) -> None:
    """Have cephadm forget a host that it has not drained: what runs there runs on."""
    with pytest.raises(CommandError):
        rig.ceph("orch", "host", "rm", HOST)
    rig.ceph("orch", "host", "rm", HOST, "--force", timeout_s=120)
    assert HOST not in hosts(rig)


def hosts(rig: CephadmCluster) -> Set[str]:
    """The hosts that cephadm knows."""
    return {row["hostname"] for row in rig.command("orch host ls", target="mgr")}


@pytest.fixture
def comes_back_as_host(rig: CephadmCluster, machine: Machine) -> Iterator[None]:
    """A host that is removed is added again, and cephadm finds its daemons there."""
    yield
    rig.ceph("orch", "host", "add", HOST, machine.address, timeout_s=120)
    rig.wait_healthy(300, ignoring=sorted(OF_THE_RIG))


@pytest.mark.long
def test_a_host_that_is_removed_in_a_lease_has_its_drive_restored(
    wcache: Wcache, rig: CephadmCluster, drive: Path, leased: str, comes_back_as_host: None
):
    make_active(rig, "h1")
    strike(wcache, drive, lambda: remove_host(rig))
    shown = over(wcache, leased)
    comes_back(drive)
    assert shown["run_list"][0]["restored"] is True


@pytest.mark.long
def test_what_was_applied_on_a_host_that_is_removed_can_be_rolled_back(
    wcache: Wcache, rig: CephadmCluster, drive: Path, views: Dict[str, str],
    comes_back_as_host: None
):
    make_active(rig, "h1")
    plan_id = applied(wcache)
    assert kernel_view(drive) == THROUGH
    remove_host(rig)
    # that the probe runs on, and the mgr still knows it, is seen only after a while
    wcache.wait("its probe", lambda: HOST in heard(wcache), 60)
    assert kernel_view(drive) == THROUGH
    back(wcache, plan_id)
    assert kernel_view(drive) == BACK


def applied(wcache: Wcache) -> str:
    """Apply what is recommended, to its end; the plan's id."""
    # the mgr may just have started: it reads what it has stored, and waits for each host's report
    wcache.wait("a mgr that has started", lambda: wcache("recommend"), 120)
    decided(wcache)
    plan_id = str(wcache("plan")["plan_id"])
    wcache.wait("apply", lambda: wcache("apply", plan_id=plan_id, override="ok_to_stop"), 120)
    wcache.wait("the change", lambda: wcache("plan show", plan_id=plan_id)["status"] == "done", 300)
    return plan_id


def back(wcache: Wcache, plan_id: str) -> None:
    """Roll a plan back, to its end."""
    wcache("rollback", plan_id=plan_id)
    wcache.wait("the way back", lambda: (
        wcache("plan show", plan_id=plan_id)["status"] == "rolled back"
    ), 300)


@pytest.mark.long
@pytest.mark.parametrize("cut", [True, False], ids=["power cut", "shut down"])
def test_a_host_that_goes_off_in_a_lease_restores_by_when_it_has_booted(
    wcache: Wcache, rig: CephadmCluster, machine: Machine, drive: Path, leased: str, cut: bool
):
    make_active(rig, "h1")
    strike(wcache, drive, lambda: machine.power_off(cut=cut))
    # a loop device has no power that could be cut: the mode that it is left in stays
    left_in = kernel_view(drive)
    boot(rig, machine)
    comes_back(drive, 300)
    rig.wait_osd_up(1, timeout_s=300)
    over(wcache, leased)
    rig.wait_healthy(300, ignoring=sorted(OF_THE_RIG))
    print(f"it was left in {left_in}")


@pytest.mark.long
def test_a_host_that_is_shut_down_and_boots_keeps_what_was_applied(
    wcache: Wcache, rig: CephadmCluster, machine: Machine, drive: Path, views: Dict[str, str]
):
    make_active(rig, "h1")
    plan_id = applied(wcache)
    assert kernel_view(drive) == THROUGH
    machine.power_off()
    boot(rig, machine)
    rig.wait_osd_up(1, timeout_s=300)
    try:
        wcache.wait("the probe", lambda: HOST in heard(wcache), 300)
        assert kernel_view(drive) == THROUGH
    finally:
        back(wcache, plan_id)
    rig.wait_healthy(300, ignoring=sorted(OF_THE_RIG))


@pytest.mark.long
def test_a_host_that_is_no_host_of_the_rig_is_refused(rig: CephadmCluster):
    with pytest.raises(HarnessError, match="is on no host"):
        rig.place_of("osd.99")
