"""OSDs that bench as fast as a test says, and a config database that is a dict."""

from __future__ import annotations

from typing import Callable, Dict, List, Optional, Tuple

from wcache.core.config_database import ConfigEdit, Entry
from wcache.core.errors import NotReadyError, RefusedError
from wcache.core.events import LoadRequest, LoadSamples
from wcache.core.loads import CAPACITY_CALL_BYTES, CapacityCall

from .store import MgrGone


class FakeBench:
    """Bench calls for a capacity: as fast as `iops` says, by OSD and number of the call."""

    def __init__(self, iops: Callable[[int, int], float]) -> None:
        self.iops = iops
        self.calls: List[int] = []  # the OSD of each call that was made
        self.error = ""
        self.scheduler = "mclock_scheduler"
        self._by_run: Dict[str, int] = {}

    def call(self, token: str, request: LoadRequest) -> Tuple[LoadSamples, str]:
        """One call, as the real one answers."""
        assert request.count == 1
        assert request.recipe is not None
        if self.error:
            return LoadSamples(0.0), self.error
        run_id = token.rsplit(".", 2)[0]
        number = self._by_run.get(run_id, 0)
        self._by_run[run_id] = number + 1
        iops = self.iops(request.osd_id, number)
        self.calls.append(request.osd_id)
        return LoadSamples(
            1.0, (int(1e9 / iops),), (), CAPACITY_CALL_BYTES,
            capacity=CapacityCall(iops, self.scheduler),
        ), ""


class FakeConfig:
    """The `ConfigDatabase` port as a dict; it prints numbers as the mons do.

    `fails(who)` says which writes are refused; `lost_after` counts down the writes after
    which the mgr is gone.
    """

    def __init__(self) -> None:
        self.kept: Dict[Tuple[str, str], str] = {}
        self.writes: List[str] = []
        self.down = False
        self.fails: Callable[[str], bool] = lambda who: False
        self.lost_after: Optional[int] = None
        self.osd_values: Callable[[int, str], Optional[str]] = lambda osd_id, name: None

    def osd_value(self, osd_id: int, name: str) -> Optional[str]:
        """What the OSD says; nothing unless a test lets it speak."""
        return self.osd_values(osd_id, name)

    def read(self) -> Tuple[Entry, ...]:
        """Everything, or no quorum."""
        if self.down:
            raise NotReadyError("the mons gave no answer to `config dump` within 30 s")
        return tuple(Entry(who, name, value) for (who, name), value in self.kept.items())

    def write(self, edit: ConfigEdit) -> None:
        """Set or remove one."""
        if self.down:
            raise NotReadyError("the mons gave no answer to `config set` within 30 s")
        if self.fails(edit.who):
            raise RefusedError(f"the mons refused `config set` of {edit.who}")
        if self.lost_after is not None:
            if self.lost_after == 0:
                raise MgrGone
            self.lost_after -= 1
        self.writes.append(edit.command)
        if edit.value is None:
            self.kept.pop(edit.key, None)
        else:
            try:
                self.kept[edit.key] = f"{float(edit.value):.6f}"
            except ValueError:  # the label of a host
                self.kept[edit.key] = edit.value
