"""The cluster's orchestrator, asked as Ceph's own modules ask it; nobody where there is none."""

from __future__ import annotations

import importlib
from typing import Any, List, Optional, Protocol, Tuple

from ..core.codec import one_line
from .command import CommandFailed

HOSTS_MAX = 10_000


class MgrOfOrchestrator(Protocol):
    """The part of MgrModule that is used here, and what Ceph's client uses of it beside."""

    def get_module_option_ex(self, module: str, key: str, default: Any = None) -> Any:
        """An option of another module."""

    def remote(self, module_name: str, method_name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of another module."""


class CephOrchestrator:
    """Calls of `OrchestratorClientMixin` (orchestrator/_interface.py), held and not inherited.

    `MgrModule.send_command` knows daemons only, so `ceph orch` cannot be sent by it.  The
    mixin is imported at its first use: it pulls in yaml and prettytable.
    """

    def __init__(self, mgr: MgrOfOrchestrator) -> None:
        self._mgr = mgr

    def backend(self) -> str:
        """What `ceph orch status` names as backend; empty where there is none."""
        return str(self._mgr.get_module_option_ex("orchestrator", "orchestrator", "") or "")

    def hosts(self) -> Optional[Tuple[str, ...]]:
        """The names in `ceph orch host ls`; None where there is no orchestrator.

        Raises CommandFailed.
        """
        if not self.backend():
            return None
        found: List[str] = [str(spec.hostname) for spec in self.ask("get_hosts")]
        return tuple(found[:HOSTS_MAX])

    def ask(self, method: str, *args: Any) -> Any:
        """The result of one of the orchestrator's methods; raises CommandFailed."""
        try:
            interface: Any = importlib.import_module("orchestrator")
            client = interface.OrchestratorClientMixin()
            client.set_mgr(self._mgr)
            return interface.raise_if_exception(getattr(client, method)(*args))
        except Exception as error:
            # whatever a backend raises comes through here, some of it unpickled
            told = one_line(f"{type(error).__name__}: {error}", 300)
            raise CommandFailed(
                f"the orchestrator {self.backend()[:40]} refused `{method}`: {told}"
            ) from None
