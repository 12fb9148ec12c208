"""What runs this cluster: its orchestrator, where its OSDs are, and which of them may stop."""

from __future__ import annotations

import importlib
import inspect
import os
import threading
import time
from typing import Any, Callable, Dict, Mapping, Optional, Protocol, Sequence, Tuple

from ..core.config_database import parse_dump
from ..deployment.places import OsdPlace
from . import told
from .command import CommandFailed, SendsCommands, ask_mon, parse
from .orchestrator import CephOrchestrator, MgrOfOrchestrator

# A command waits for it, as for a key (key_work.py).
MONS_TIMEOUT_S = 5.0
# How old what is known of an upgrade may be; cephadm pulls an image before it stops a daemon.
UPGRADE_EVERY_S = 5.0
IMAGE_OPTION = "container_image"


class Surroundings(Protocol):
    """Port: who deploys the cluster's daemons."""

    def orchestrator(self) -> str:
        """What `ceph orch status` names as backend; empty where there is none."""

    def hosts(self) -> Optional[Tuple[str, ...]]:
        """The orchestrator's hosts; None where there is no orchestrator.  Raises CommandFailed."""

    def image(self) -> str:
        """The container image of the mgr, or the one that the config database has for it.

        Empty where neither is there.  It may wait for the mons, and raises CommandFailed.
        """

    def namespace(self) -> str:
        """The Kubernetes namespace in which the mgr runs; empty where it runs in no pod."""

    def told(self) -> Dict[int, OsdPlace]:
        """What each OSD tells of where it runs."""

    def containers_take_arguments(self) -> bool:
        """Whether a spec of type `container` can give the container's program arguments."""


class MgrSurroundings(MgrOfOrchestrator, SendsCommands, Protocol):
    """The part of MgrModule that is used here."""

    def get(self, data_name: str) -> Any:
        """One of the mgr's structures; may be shared and read-only."""


class CephSurroundings:
    """The port over a mgr module.

    Image and namespace are the mgr's own, never an OSD's: a script puts a privileged
    container of that image on hosts.
    """

    def __init__(
        self, mgr: MgrSurroundings, environment: Mapping[str, str] = os.environ
    ) -> None:
        self._mgr = mgr
        self._environment = environment
        self._orchestrator = CephOrchestrator(mgr)

    def orchestrator(self) -> str:
        """The option by which the module orchestrator chooses its backend."""
        return self._orchestrator.backend()

    def hosts(self) -> Optional[Tuple[str, ...]]:
        """See CephOrchestrator."""
        return self._orchestrator.hosts()

    def image(self) -> str:
        """By the environment that cephadm and Rook give to a daemon (common/util.cc too).

        `config get mgr container_image` would answer with a default that is no release's, so
        the dump is read.
        """
        return self._environment.get("CONTAINER_IMAGE", "") or self._configured_image()

    def _configured_image(self) -> str:
        text = ask_mon(self._mgr, {"prefix": "config dump"}, timeout_s=MONS_TIMEOUT_S)
        found = {
            entry.who: entry.value
            for entry in parse_dump(parse(text, "config dump"), (IMAGE_OPTION,))
            if entry.name == IMAGE_OPTION
        }
        return found.get("mgr") or found.get("global", "")

    def namespace(self) -> str:
        """As Rook tells each daemon (pkg/operator/k8sutil/pod.go, ClusterDaemonEnvVars)."""
        return self._environment.get("POD_NAMESPACE", "")

    def told(self) -> Dict[int, OsdPlace]:
        """By the OSDs' metadata (common/util.cc, collect_sys_info)."""
        return {
            int(osd_id): OsdPlace(
                told.of_osd(meta, "container_image", told.IMAGE_CHARS_MAX),
                told.of_osd(meta, "pod_namespace"),
            )
            for osd_id, meta in self._mgr.get("osd_metadata").items()
        }

    def containers_take_arguments(self) -> bool:
        """16's class of such a spec has neither of the two keys that `cephadm.sh.j2` has."""
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
                together, upgrade = self._together(groups), _upgrade_under_way(self._mgr)
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


class Upgrades:
    """Whether the orchestrator upgrades the cluster, as the mons have said a moment ago."""

    def __init__(
        self, mgr: SendsCommands, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._mgr = mgr
        self._clock = clock
        self._asked_at_s = float("-inf")
        self._under_way = False

    def look(self) -> None:
        """Ask the mons, and wait for them."""
        self._asked_at_s = self._clock()
        self._under_way = _upgrade_under_way(self._mgr)

    def under_way(self) -> bool:
        """What is known, at once; the mons are asked again where that is old."""
        if self._clock() - self._asked_at_s >= UPGRADE_EVERY_S:
            self._asked_at_s = self._clock()
            threading.Thread(target=self.look, daemon=True, name="wcache-upgrade").start()
        return self._under_way


def _upgrade_under_way(mgr: SendsCommands) -> bool:
    """What cephadm keeps of an upgrade that is under way or paused (cephadm/upgrade.py)."""
    try:
        text = ask_mon(mgr, {"prefix": "config-key get", "key": "mgr/cephadm/upgrade_state"})
    except CommandFailed:
        return False  # ENOENT: none, or no cephadm
    return text.strip() not in ("", "null", "{}")
