"""What runs this cluster: its orchestrator, and where its OSDs say that they are."""

from __future__ import annotations

import importlib
import inspect
from typing import Any, Dict, Protocol

from ..core.deployment.form import HostPlace


class Surroundings(Protocol):
    """Port: who deploys the cluster's daemons."""

    def orchestrator(self) -> str:
        """What `ceph orch status` names as backend; empty where there is none."""

    def osd_hosts(self) -> Dict[str, HostPlace]:
        """Every host that OSDs name, with the image and namespace they run in."""

    def containers_take_arguments(self) -> bool:
        """Whether a spec of type `container` can give the container's program arguments."""


class MgrSurroundings(Protocol):
    """The part of MgrModule that is used here."""

    def get(self, data_name: str) -> Any:
        """One of the mgr's structures; may be shared and read-only."""

    def get_module_option_ex(self, module: str, key: str, default: Any = None) -> Any:
        """An option of another module."""


class CephSurroundings:
    """The port over a mgr module; it waits for nobody."""

    def __init__(self, mgr: MgrSurroundings) -> None:
        self._mgr = mgr

    def orchestrator(self) -> str:
        """The option by which the module orchestrator chooses its backend."""
        return str(self._mgr.get_module_option_ex("orchestrator", "orchestrator", "") or "")

    def osd_hosts(self) -> Dict[str, HostPlace]:
        """By the OSDs' metadata (common/util.cc, collect_sys_info)."""
        found: Dict[str, HostPlace] = {}
        for meta in self._mgr.get("osd_metadata").values():
            hostname = str(meta.get("hostname", ""))
            if hostname:
                found[hostname] = HostPlace(
                    str(meta.get("container_image", "")), str(meta.get("pod_namespace", ""))
                )
        return found

    def containers_take_arguments(self) -> bool:
        """16's class of such a spec has neither of the two keys that `cephadm.py` needs."""
        try:
            specs: Any = importlib.import_module("ceph.deployment.service_spec")
            known = inspect.signature(specs.CustomContainerSpec.__init__).parameters
        except (ImportError, AttributeError):
            return False
        return {"extra_container_args", "extra_entrypoint_args"} <= set(known)
