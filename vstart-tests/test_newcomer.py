"""From a running cluster to the first recommendation and back, as somebody new would do it."""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from pathlib import Path

import pytest
from harness import CommandError
from harness.modules import PACKAGED
from probes import Probe

pytestmark = [pytest.mark.cluster, pytest.mark.one_release]

# The hosts are this machine: what would go there is kept, key and command.
SSH = """#!/bin/sh
printf '%s\\n' "$*" >>{folder}/ssh.log
case $1 in -n) exit 0 ;; esac
cat >{folder}/received.keyring
"""


@pytest.fixture
def newcomers(probe, wcache, steady, tmp_path):
    """A shell of an admin, on a cluster where no probe is."""
    assert probe.stop() == 0
    wcache("agent rm", hostname=probe.hostname)
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    tool = [str(steady.project / "vstart-tests" / "cluster"), "exec", "--dir",
            str(steady.folder), "--", "ceph"]
    programs = {
        "ssh": SSH.format(folder=tmp_path),
        "ceph": f'#!/bin/sh\nexec {shlex.join(tool)} "$@"\n',
    }
    for name, text in programs.items():
        (bin_folder / name).write_text(text)
        (bin_folder / name).chmod(0o755)

    def shell(script: str) -> str:
        done = subprocess.run(
            ["/bin/sh"], input=script, capture_output=True, text=True, timeout=120, check=False,
            env={"PATH": f"{bin_folder}:/usr/sbin:/usr/bin:/sbin:/bin"},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    yield shell
    probe.bring_key()
    probe.start()
    wcache.wait("the probe", lambda: wcache("drive ls", scope=f"host:{probe.hostname}")["drives"])


def test_three_commands_lead_to_a_recommendation_and_one_leads_back(
    newcomers, wcache, steady, tmp_path: Path
):
    hostname = steady.command("osd metadata", id=0)["hostname"]
    script = steady.ceph("wcache", "agent", "add", "--all", "--hosts-read").stdout
    newcomers(script)
    assert "wcache-probe prepare" in (tmp_path / "ssh.log").read_text()
    keyring = tmp_path / "received.keyring"
    key = keyring.read_text().split("key = ")[1].split()[0]
    assert key not in script
    new = Probe(steady, hostname, state="probe.new")
    new.keyring = keyring
    new.start()  # what systemd does with the unit
    try:
        wcache.wait("its report", lambda: wcache("drive ls", scope=f"host:{hostname}")["drives"])
        began_s = time.monotonic()

        def begun():
            try:
                return wcache("try", accept_cost=True)  # the second
            except CommandError as refusal:
                if "preconditions not met" not in str(refusal):
                    raise
                return None

        wcache.wait("clean PGs", begun)
        told = []

        def answered():
            told.append(wcache("try"))  # the third
            return told[-1] if told[-1]["state"] == "answer" else None

        answer = wcache.wait("the answer", answered, 180)
        print(f"{time.monotonic() - began_s:.1f} s of measuring to the answer")
        assert told[0]["state"] == "measuring"
        assert answer["recommendations"], answer
        # on a busy machine it may be that no difference was told, and then what would help is next
        assert answer["next"].startswith("ceph ")
        print("\n".join(answer["lines"]))

        left = wcache("agent rm", hostname=hostname)
        assert left["stays"] == []
        assert "wcache-probe unprepare" in left["script"]
        assert new.entity not in steady.ceph("auth", "ls").stdout
        assert hostname not in json.dumps(wcache("agent ls")["agents"])
        logs = steady.ceph("log", "last", "1000", "debug", "audit", check=False).stdout
        assert key not in logs + json.dumps(wcache("history", limit=1000))
    finally:
        new.stop()


@pytest.fixture
def orchestrator_with(wcache, own_cluster, steady):
    """Sets the host list of the orchestrator that Ceph has for tests."""
    link = own_cluster.module_folder / "test_orchestrator"
    link.symlink_to(f"{PACKAGED}/{link.name}")
    steady.restart_mgr()
    steady.enable_module(link.name)
    steady.ceph("orch", "set", "backend", link.name)
    wcache.wait("the module", lambda: wcache("status"), 60)

    def knows(*hostnames: str) -> None:
        hosts = [{"name": name, "addr": "", "devices": []} for name in hostnames]
        steady.ceph("test_orchestrator", "load_data", "-i", "-",
                    input_text=json.dumps({"inventory": hosts}))

    yield knows
    steady.ceph("orch", "set", "backend", "")
    steady.remove_module(link.name)
    wcache.wait("the module", lambda: wcache("status"), 60)


def test_of_all_hosts_those_get_probes_that_the_orchestrator_has(
    orchestrator_with, wcache, steady
):
    hostname = steady.command("osd metadata", id=0)["hostname"]
    orchestrator_with("other")
    with pytest.raises(CommandError, match="`ceph orch host ls` does not have it"):
        wcache("agent add", all=True, hosts_read=True)
    orchestrator_with("other", hostname)
    data = wcache("agent add", all=True)
    assert [row["hostname"] for row in data["hosts"]] == [hostname]
    assert data["named_by_osds"] is False
    with pytest.raises(CommandError, match="no container_image is configured"):
        wcache("agent add", all=True, run_by="rook")
    steady.ceph("config", "set", "global", "container_image", "registry.example/ceph:v1")
    try:
        script = wcache("agent add", all=True, run_by="rook")["script"]
    finally:
        steady.ceph("config", "rm", "global", "container_image")
    assert '"registry.example/ceph:v1"' in script
    wcache("agent rm", hostname=hostname, host_is_gone=True)
