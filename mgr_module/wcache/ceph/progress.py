"""Campaigns, rollouts and trials as progress events (`ceph progress`, `ceph -s`)."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Protocol, Tuple


class Remote(Protocol):
    """Calls another mgr module; raises where that module is off."""

    def remote(self, module_name: str, method_name: str, *args: Any, **kwargs: Any) -> Any:
        """As MgrModule.remote."""


class CephProgress:
    """Tells the `progress` module what changed since the last call."""

    def __init__(self, mgr: Remote) -> None:
        self._mgr = mgr
        self._shown: Dict[str, Tuple[str, float]] = {}

    def show(
        self, under_way: Mapping[str, Tuple[str, float]],
        failed: Callable[[str], str] = lambda event_id: "",
    ) -> None:
        """`under_way`: id to (message, fraction done); what is missing now has ended.

        `failed` says why it came to nothing; '' where it is complete.
        """
        for event_id, (message, exact) in under_way.items():
            fraction = round(exact, 3)  # time passes at every look
            if self._shown.get(event_id) != (message, fraction):
                self._call("update", event_id, message, fraction, [], True)
                self._shown[event_id] = message, fraction
        for event_id in set(self._shown) - set(under_way):
            why = failed(event_id)
            if why:
                self._call("fail", event_id, why)
            else:
                self._call("complete", event_id)
            del self._shown[event_id]

    def _call(self, method: str, *args: Any) -> None:
        try:
            self._mgr.remote("progress", method, *args)
        except Exception:
            return  # ImportError in 16, RuntimeError later: the progress module is off
