"""What surrounds wcache in a cluster: its orchestrator, which OSDs may stop, probes' keys."""

from __future__ import annotations

import contextlib
import errno
import inspect
import os
import threading
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ..core.cluster import IMAGE_CHARS_MAX, of_metadata
from ..core.codec import one_line
from ..core.config_database import parse_dump
from ..deployment.places import OsdPlace
from .command import CommandFailed, Mgr, ask_mon, config_key, parse

# A command waits for it, as for a key (key_work.py).
MONS_TIMEOUT_S = 5.0
# How old what is known of an upgrade may be; cephadm pulls an image before it stops a daemon.
UPGRADE_EVERY_S = 5.0
IMAGE_OPTION = "container_image"
HOSTS_MAX = 10_000


class CephSurroundings:
    """Who deploys the cluster's daemons.

    It calls `OrchestratorClientMixin` (orchestrator/_interface.py), held and not inherited:
    `MgrModule.send_command` knows daemons only, so `ceph orch` cannot be sent by it.  The
    mixin is imported at its first use: it pulls in yaml and prettytable.

    Image and namespace are the mgr's own, never an OSD's: a script puts a privileged
    container of that image on hosts.
    """

    def __init__(self, mgr: Mgr, environment: Mapping[str, str] = os.environ) -> None:
        self._mgr = mgr
        self._environment = environment

    def orchestrator(self) -> str:
        """What `ceph orch status` names as backend; empty where there is none."""
        return str(self._mgr.get_module_option_ex("orchestrator", "orchestrator", "") or "")

    def hosts(self) -> Optional[Tuple[str, ...]]:
        """The names in `ceph orch host ls`; None where there is no orchestrator.

        Raises CommandFailed.
        """
        if not self.orchestrator():
            return None
        found: List[str] = [str(spec.hostname) for spec in self.ask("get_hosts")]
        return tuple(found[:HOSTS_MAX])

    def ask(self, method: str, *args: Any) -> Any:
        """The result of one of the orchestrator's methods; raises CommandFailed."""
        try:
            from orchestrator import OrchestratorClientMixin, raise_if_exception

            client: Any = OrchestratorClientMixin()
            client.set_mgr(self._mgr)
            return raise_if_exception(getattr(client, method)(*args))
        except Exception as error:
            # whatever a backend raises comes through here, some of it unpickled
            told = one_line(f"{type(error).__name__}: {error}", 300)
            raise CommandFailed(
                f"the orchestrator {self.orchestrator()[:40]} refused `{method}`: {told}"
            ) from None

    def image(self) -> str:
        """The container image of the mgr, or the one that the config database has for it.

        Empty where neither is there.  It may wait for the mons, and raises CommandFailed.  It is
        known by the environment that cephadm and Rook give to a daemon (common/util.cc too):
        `config get mgr container_image` would answer with a default that is no release's, so
        the dump is read.
        """
        return self._environment.get("CONTAINER_IMAGE", "") or self._configured_image()

    def ceph_user_id(self) -> int:
        """The user of Ceph's daemons in that image: the mgr's own; as root, that of Ceph's."""
        return os.geteuid() or 167

    def _configured_image(self) -> str:
        text = ask_mon(self._mgr, {"prefix": "config dump"}, timeout_s=MONS_TIMEOUT_S)
        found = {
            entry.who: entry.value
            for entry in parse_dump(parse(text, "config dump"), (IMAGE_OPTION,))
            if entry.name == IMAGE_OPTION
        }
        return found.get("mgr") or found.get("global", "")

    def namespace(self) -> str:
        """The Kubernetes namespace of the mgr, as Rook tells it; empty where it runs in no pod.

        See pkg/operator/k8sutil/pod.go, ClusterDaemonEnvVars.
        """
        return self._environment.get("POD_NAMESPACE", "")

    def told(self) -> Dict[int, OsdPlace]:
        """What each OSD tells of where it runs (common/util.cc, collect_sys_info)."""
        return {
            int(osd_id): OsdPlace(
                of_metadata(meta, "container_image", IMAGE_CHARS_MAX),
                of_metadata(meta, "pod_namespace"),
            )
            for osd_id, meta in self._mgr.get("osd_metadata").items()
        }

    def containers_take_arguments(self) -> bool:
        """Whether a spec of type `container` can give the container's program arguments.

        16's class of such a spec has neither of the two keys that `cephadm.sh.j2` has.
        """
        try:
            from ceph.deployment.service_spec import CustomContainerSpec
        except ImportError:
            return False
        known = inspect.signature(CustomContainerSpec.__init__).parameters
        return {"extra_container_args", "extra_entrypoint_args"} <= set(known)


class CephStops:
    """The `Stops` port over a mgr module: asks the mons, and waits for them."""

    def __init__(self, mgr: Mgr) -> None:
        self._mgr = mgr

    def ask(
        self, groups: Sequence[Sequence[int]], done: Callable[[int, bool], None]
    ) -> None:
        """Ask in a thread how many groups may stop together, and whether Ceph is upgraded."""

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
            command = {"prefix": "osd ok-to-stop", "ids": [str(item) for item in ids]}
            with contextlib.suppress(CommandFailed):  # EBUSY, or nobody knows
                ask_mon(self._mgr, command)
                return count
            count //= 2
        return 0


class Upgrades:
    """Whether the orchestrator upgrades the cluster, as the mons have said a moment ago."""

    def __init__(
        self, mgr: Mgr, clock: Callable[[], float] = time.monotonic
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


def _upgrade_under_way(mgr: Mgr) -> bool:
    """What cephadm keeps of an upgrade that is under way or paused (cephadm/upgrade.py)."""
    # ENOENT: none, or no cephadm
    return config_key(mgr, "mgr/cephadm/upgrade_state").strip() not in ("", "null", "{}")


class CephKeyring:
    """The cluster's keys, which a mgr may make and remove (MonCap.cc, profile mgr).

    Both methods wait for the mons, and raise CommandFailed.
    """

    def __init__(self, mgr: Mgr) -> None:
        self._mgr = mgr

    def make(self, entity: str, caps: Mapping[str, str]) -> bool:
        """Make the key, or give it these caps; False where it was there with them."""
        found = self._caps(entity)
        if found == dict(caps):
            return False
        prefix = "auth get-or-create" if found is None else "auth caps"
        flat = [word for pair in caps.items() for word in pair]
        ask_mon(self._mgr, {"prefix": prefix, "entity": entity, "caps": flat})
        return True

    def remove(self, entity: str) -> None:
        """Remove a key; one that is not there is fine."""
        ask_mon(self._mgr, {"prefix": "auth rm", "entity": entity})

    def _caps(self, entity: str) -> Optional[Mapping[str, str]]:
        """What the key allows; None where there is no such key."""
        try:
            plain = parse(ask_mon(self._mgr, {"prefix": "auth get", "entity": entity}), "auth get")
        except CommandFailed as failure:
            if failure.code == -errno.ENOENT:
                return None
            raise
        rows = plain if isinstance(plain, list) else []
        caps = rows[0].get("caps") if rows and isinstance(rows[0], dict) else None
        return caps if isinstance(caps, dict) else {}
