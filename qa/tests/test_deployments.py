"""What `agent add` prints is what Kubernetes, YAML and systemd take for what was meant."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from wcache.deployment.scripts import QUOTING, script

PROJECT = Path(__file__).resolve().parents[2]
UNIT = PROJECT / "templates" / "wcache-probe.service"
SECURITY = (PROJECT / "doc" / "security.md").read_text(encoding="utf-8")
IMAGE = "quay.io/ceph/ceph:v20.2.4"
FSID = "00000000-0000-4000-8000-000000000001"
# The oldest and the newest that Rook of August 2026 names, as far as the schemas go.
KUBERNETES = ("1.30", "1.34")


def documents(form, hostnames, **values):
    """The YAML documents in the here-document that a form's script has."""
    text = script(form, hostnames=hostnames, image=IMAGE, ceph_user_id=167, **values).text
    inside = text.partition("<<'END_OF_WCACHE'")[2].partition("\nEND_OF_WCACHE\n")[0]
    return list(yaml.safe_load_all(inside.partition("\n")[2]))


@pytest.fixture(params=[False, True], ids=["program from the host", "program in the image"])
def rook_documents(request):
    return documents(
        "rook", ["h1", "node-2.example.org"], namespace="rook-ceph", fsid=FSID,
        program_inside=request.param,
    )


@pytest.mark.parametrize("version", KUBERNETES)
def test_each_deployment_fits_the_schema_of_kubernetes(rook_documents, version):
    found = [plain for plain in rook_documents if plain["kind"] == "Deployment"]
    assert [plain["metadata"]["name"] for plain in found] == [
        "wcache-probe-h1", "wcache-probe-node-2.example.org",
    ]
    for plain in found:
        kubernetes_validate.validate(plain, version, strict=True)


def test_that_schema_refuses_what_kubernetes_would(rook_documents):
    broken = rook_documents[1]
    broken["spec"]["template"]["spec"]["hostPID"] = "yes"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, KUBERNETES[0], strict=True)


def test_each_deployment_runs_one_probe_on_its_own_node_with_its_own_key(rook_documents):
    client, deployment = rook_documents[2:4]
    assert client["kind"] == "CephClient"  # Rook's own, of which there is no schema here
    assert client["metadata"]["name"] == "wcache.node-2.example.org"
    assert "hostname=node-2.example.org" in client["spec"]["caps"]["mgr"]
    spec = deployment["spec"]["template"]["spec"]
    assert deployment["spec"]["strategy"]["type"] == "Recreate"
    assert spec["terminationGracePeriodSeconds"] == 90
    key = next(v for v in spec["volumes"] if v["name"] == "key")["secret"]
    assert key["secretName"] == "rook-ceph-client-wcache.node-2.example.org"
    (container,) = spec["containers"]
    stop = container["lifecycle"]["preStop"]["exec"]["command"]
    assert stop[1:3] == ["restore", "--all"]
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in spec["volumes"]}


def test_what_a_probe_only_reads_is_mounted_to_be_read():
    (spec,) = (one["spec"] for one in documents("cephadm", ["h1"], program_inside=False))
    writable = {path for path, inside in spec["volume_mounts"].items() if inside[-3:] != ":ro"}
    assert writable == {"/dev", "/sys", "/run/wcache", "/var/lib/wcache"}
    assert "/usr/bin/wcache-probe" in spec["volume_mounts"]
    (inside,) = (one["spec"] for one in documents("cephadm", ["h1"], program_inside=True))
    assert "/usr/bin/wcache-probe" not in inside["volume_mounts"]


@pytest.mark.parametrize("text", [
    "", "a: b", "- x", "yes", "null", "1e3", "0x1", "#", "'", '"', "\n---\n", "{{ x }}", "&a", "*a",
    "!!python/object:os.system", "\t", "%", "@", "é", "\u2028", "\x7f", "\U0001f600", "x " * 99,
])  # fmt: skip
def test_no_text_becomes_anything_else_in_yaml(text):
    quoted = QUOTING["yaml"](text)
    assert yaml.safe_load(f"key: {quoted}\nlist:\n  - {quoted}\n") == {"key": text, "list": [text]}
    # other readers know other words and numbers, such as 1e3
    assert (quoted[0], quoted[-1]) == ('"', '"')
    assert "\n" not in quoted


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not here")
def test_the_unit_is_one_that_systemd_takes(tmp_path):
    text = UNIT.read_text(encoding="utf-8")
    # the program is not installed where this runs
    unit = tmp_path / UNIT.name
    unit.write_text(text.replace("/usr/bin/wcache-probe", "/bin/true"), encoding="utf-8")
    for words in (("verify", "--man=no"), ("security", "--offline=true", "--threshold=50")):
        done = subprocess.run(
            ["systemd-analyze", *words, str(unit)], capture_output=True, text=True, timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr
        if words[0] == "verify":
            assert unit.name not in done.stderr
        elif f"systemd {_systemd_version()}" in SECURITY:  # others weigh otherwise
            figure = re.findall(r"level for wcache-probe.service: ([0-9.]+)", done.stdout)
            assert figure == re.findall(r"exposure \*\*([0-9.]+)\*\*", SECURITY)


def _systemd_version():
    told = subprocess.run(
        ["systemd-analyze", "--version"], capture_output=True, text=True, timeout=60, check=True
    )
    return told.stdout.split()[1]


def directives():
    """What the unit sets: the words of each directive, of all its lines."""
    found = {}
    for line in UNIT.read_text(encoding="utf-8").splitlines():
        name, given, words = line.partition("=")
        if given and not line.startswith("#"):
            found.setdefault(name, []).extend(words.split())
    return found


def test_the_unit_gives_five_capabilities_and_takes_what_no_probe_needs():
    given = directives()
    assert set(given["CapabilityBoundingSet"]) == {
        "CAP_SYS_ADMIN", "CAP_SYS_RAWIO", "CAP_DAC_READ_SEARCH", "CAP_DAC_OVERRIDE",
        "CAP_SYS_PTRACE",
    }
    taken = ("NoNewPrivileges", "ProtectHome", "PrivateTmp", "ProtectControlGroups",
             "ProtectHostname", "ProtectKernelLogs", "RestrictNamespaces", "RestrictRealtime",
             "RestrictSUIDSGID", "LockPersonality")  # fmt: skip
    assert [name for name in taken if given.get(name) != ["yes"]] == []
    # /usr and /etc are read-only, but for the udev rules of changes that last
    assert given["ProtectSystem"] == ["full"]
    assert given["ReadWritePaths"] == ["-/etc/udev/rules.d"]
    assert given["SystemCallFilter"] == ["~@clock", "@module", "@mount", "@reboot", "@swap"]
    assert given["SystemCallErrorNumber"] == ["EPERM"]  # else a tool that tries is killed
    # the journal is for root alone, and outlives the service with the marks of leases
    assert given["StateDirectoryMode"] == ["0700"]
    assert given["RuntimeDirectoryPreserve"] == ["yes"]


@pytest.mark.parametrize("name", [
    "PrivateDevices", "DevicePolicy", "DeviceAllow", "ProtectClock",  # drives, also new ones
    "ProtectKernelTunables",  # the pin and the options of drives are files of sysfs
    "ProtectKernelModules",  # it hides /usr/lib/modules, which says how the host boots
    "ProtectProc", "ProcSubset", "PrivateUsers", "PrivatePIDs",  # who else holds a drive
    "PrivateNetwork",  # the mons
    "SystemCallArchitectures",  # vendors' tools may be programs of 32 bit
])  # fmt: skip
def test_the_unit_takes_nothing_that_blinds_the_probe(name):
    assert name not in directives()
