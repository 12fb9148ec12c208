"""What runs this cluster: its orchestrator, where its OSDs are, and which of them may stop."""

from __future__ import annotations

import importlib
import inspect
import threading
from typing import Any, Callable, Dict, Protocol, Sequence

from ..core.deployment.form import HostPlace
from .command import CommandFailed, SendsCommands, ask_mon
from .orchestrator import CephOrchestrator, MgrOfOrchestrator


class Surroundings(Protocol):
    """Port: who deploys the cluster's daemons."""

    def orchestrator(self) -> str:
        """What `ceph orch status` names as backend; empty where there is none."""

    def osd_hosts(self) -> Dict[str, HostPlace]:
        """Every host that OSDs name, with the image and namespace they run in."""

    def containers_take_arguments(self) -> bool:
        """Whether a spec of type `container` can give the container's program arguments."""


class MgrSurroundings(MgrOfOrchestrator, Protocol):
    """The part of MgrModule that is used here."""

    def get(self, data_name: str) -> Any:
        """One of the mgr's structures; may be shared and read-only."""


class CephSurroundings:
    """The port over a mgr module; it waits for nobody."""

    def __init__(self, mgr: MgrSurroundings) -> None:
        self._mgr = mgr
        self._orchestrator = CephOrchestrator(mgr)

    def orchestrator(self) -> str:
        """The option by which the module orchestrator chooses its backend."""
        return self._orchestrator.backend()

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


class CephStops:
    """The `Stops` port over a mgr module: asks the mons, and waits for them."""

    def __init__(self, mgr: SendsCommands) -> None:
        self._mgr = mgr

    def ask(
        self, groups: Sequence[Sequence[int]], done: Callable[[int, bool], None]
    ) -> None:
        """See Stops; in a thread."""

        def run() -> None:
            try:
                together, upgrade = self._together(groups), self._upgrade()
            except Exception:
                # whatever it is: the rollout waits for an answer, and asks again
                together, upgrade = 0, False
            done(together, upgrade)

        threading.Thread(target=run, daemon=True, name="wcache-ok-to-stop").start()

    def _together(self, groups: Sequence[Sequence[int]]) -> int:
        """By `osd ok-to-stop` (MgrCommands.h); half as many until it says yes."""
        count = len(groups)
        while count:
            ids = sorted({osd_id for group in groups[:count] for osd_id in group})
            if self._ok_to_stop(ids):
                return count
            count //= 2
        return 0

    def _ok_to_stop(self, osd_ids: Sequence[int]) -> bool:
        command = {"prefix": "osd ok-to-stop", "ids": [str(item) for item in osd_ids]}
        try:
            ask_mon(self._mgr, command)
        except CommandFailed:
            return False  # EBUSY, or nobody knows: then none is stopped
        return True

    def _upgrade(self) -> bool:
        """What cephadm keeps of an upgrade that is under way or paused (cephadm/upgrade.py)."""
        try:
            text = ask_mon(
                self._mgr, {"prefix": "config-key get", "key": "mgr/cephadm/upgrade_state"}
            )
        except CommandFailed:
            return False  # ENOENT: none, or no cephadm
        return text.strip() not in ("", "null", "{}")
