"""Probes under Rook: a CephClient, which makes the key, and a Deployment for each node.

As Rook's own exporter (pkg/operator/ceph/cluster/nodedaemon): the monitors' addresses come
from the secret rook-ceph-config.  The key is in the CephClient's secret
(pkg/operator/ceph/client/controller.go), under `userKey`.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

from .form import AT_END, AT_START, END, PROGRAM, STOP_TIMEOUT_S, Script, caps_of
from .yaml_text import yaml_lines

HOST_ROOT = "/host"
KEY_FOLDER = "/etc/wcache-key"
_LABEL_CHARS_MAX = 63


def client(hostname: str, namespace: str) -> Dict[str, Any]:
    """The CephClient of a host: Rook makes the key and its secret."""
    return {
        "apiVersion": "ceph.rook.io/v1",
        "kind": "CephClient",
        "metadata": {"name": client_name(hostname), "namespace": namespace},
        "spec": {"caps": caps_of(hostname)},
    }


def client_name(hostname: str) -> str:
    """The name of the CephClient; with `client.` before it that of the cephx entity."""
    return f"wcache.{hostname}"


def deployment_name(hostname: str) -> str:
    """The name of the Deployment."""
    return f"wcache-probe-{hostname}"


def deployment(
    hostname: str, namespace: str, image: str, cluster_fsid: str, *, program_inside: bool
) -> Dict[str, Any]:
    """The Deployment of a node's probe."""
    labels = {"app": "wcache-probe", "wcache-node": _label(hostname)}
    folders = [
        _Folder("dev", "/dev", "/dev"),
        _Folder("sys", "/sys", "/sys"),
        _Folder("run-udev", "/run/udev", "/run/udev", read_only=True),
        _Folder("run-wcache", "/run/wcache", "/run/wcache", kind="DirectoryOrCreate"),
        _Folder("journal", "/var/lib/wcache", "/var/lib/wcache", kind="DirectoryOrCreate"),
        _Folder("rook-data", "/var/lib/rook", "/var/lib/rook", read_only=True),
        _Folder("host-etc", "/etc", f"{HOST_ROOT}/etc", read_only=True),
        _Folder("host-boot", "/boot", f"{HOST_ROOT}/boot", read_only=True),
        _Folder("host-usr-lib", "/usr/lib", f"{HOST_ROOT}/usr/lib", read_only=True),
    ]
    if not program_inside:
        folders.append(_Folder("program", PROGRAM, PROGRAM, read_only=True, kind="File"))
    ceph_args = (
        f"--fsid {cluster_fsid} --mon-host $(ROOK_CEPH_MON_HOST) --keyfile {KEY_FOLDER}/userKey"
    )
    container = {
        "name": "probe",
        "image": image,
        "command": [PROGRAM],
        "args": [
            "run", f"--hostname={hostname}", "--conf=/dev/null", f"--host-root={HOST_ROOT}",
        ],
        "env": [
            {
                "name": "ROOK_CEPH_MON_HOST",
                "valueFrom": {
                    "secretKeyRef": {"name": "rook-ceph-config", "key": "mon_host"},
                },
            },
            {"name": "CEPH_ARGS", "value": ceph_args},
        ],
        "securityContext": {"privileged": True, "runAsUser": 0},
        "lifecycle": {
            "preStop": {"exec": {"command": [
                PROGRAM, "restore", "--all", f"--hostname={hostname}",
                f"--host-root={HOST_ROOT}",
            ]}},
        },
        "volumeMounts": [
            *(folder.mount() for folder in folders),
            {"name": "key", "mountPath": KEY_FOLDER, "readOnly": True},
        ],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": deployment_name(hostname), "namespace": namespace, "labels": labels,
        },
        "spec": {
            "replicas": 1,
            # never two probes on a node: each would restore what the other holds
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "hostPID": True,
                    "terminationGracePeriodSeconds": STOP_TIMEOUT_S,
                    "affinity": _only_on(hostname),
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [container],
                    "volumes": [
                        *(folder.volume() for folder in folders),
                        {
                            "name": "key",
                            "secret": {
                                "secretName": f"rook-ceph-client-{client_name(hostname)}",
                                "items": [{"key": "userKey", "path": "userKey"}],
                                "defaultMode": 0o400,
                            },
                        },
                    ],
                },
            },
        },
    }


class _Folder:
    """A folder or file of the node in the container."""

    def __init__(
        self, name: str, path: str, inside: str, *, read_only: bool = False, kind: str = "",
    ) -> None:
        self._name, self._path, self._inside = name, path, inside
        self._read_only, self._kind = read_only, kind

    def mount(self) -> Dict[str, Any]:
        """Its entry among the container's mounts."""
        plain: Dict[str, Any] = {"name": self._name, "mountPath": self._inside}
        if self._read_only:
            plain["readOnly"] = True
        return plain

    def volume(self) -> Dict[str, Any]:
        """Its entry among the pod's volumes."""
        host_path = {"path": self._path}
        if self._kind:
            host_path["type"] = self._kind
        return {"name": self._name, "hostPath": host_path}


def _only_on(hostname: str) -> Dict[str, Any]:
    """As a DaemonSet pins its pods: by the node's name, which is no label."""
    term = {"matchFields": [{
        "key": "metadata.name", "operator": "In", "values": [hostname],
    }]}
    return {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
    }}


def _label(hostname: str) -> str:
    return hostname[:_LABEL_CHARS_MAX].rstrip(".-")


def install(
    hostnames: Sequence[str], namespace: str, image: str, cluster_fsid: str, *,
    program_inside: bool,
) -> Script:
    """Apply a CephClient and a Deployment for each node."""
    lines: List[str] = [
        AT_START, f"kubectl apply -f - <<'{END}' || failed=\"$failed the cluster\"",
    ]
    for hostname in hostnames:
        for manifest in (
            client(hostname, namespace),
            deployment(hostname, namespace, image, cluster_fsid, program_inside=program_inside),
        ):
            lines += ["---", *yaml_lines(manifest)]
    lines += [END, AT_END]
    return Script(
        (
            "First, as root on each node: wcache-probe prepare",
            f"Each node needs {PROGRAM}: the package wcache-probe or its zipapp.",
            "Then run this where `kubectl` works as an admin.",
        ),
        tuple(lines),
    )


def remove(hostname: str, namespace: str) -> Script:
    """Delete both; Rook removes the key with the CephClient."""
    return Script(
        ("Then, as root on the node: wcache-probe unprepare",),
        (
            f"kubectl -n {namespace} delete deployment {deployment_name(hostname)}",
            f"kubectl -n {namespace} delete cephclient {client_name(hostname)}",
        ),
    )
