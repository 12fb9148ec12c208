"""OSDs that bench as fast as a test says, and a config database that is a dict."""

from __future__ import annotations

from typing import Callable, Dict, List, Optional, Tuple

from wcache.core.config_database import ConfigEdit, Entry
from wcache.core.errors import NotReadyError, RefusedError
from wcache.core.knobs.mclock.job import Bench, BenchSamples

from .store import MgrGone

Done = Callable[[Optional[BenchSamples], str], None]


class FakeBench:
    """The `CapacityBench` port: benches when `run` is called, at `iops` by OSD and call."""

    def __init__(self, iops: Callable[[int, int], float]) -> None:
        self.iops = iops
        self.waiting: Dict[str, Tuple[Bench, Done]] = {}
        self.calls: List[int] = []  # the OSD of each call that was made
        self.error = ""

    def start(self, bench: Bench, forced: bool, done: Done) -> None:
        """Wait for `run`."""
        assert bench.token not in self.waiting
        self.waiting[bench.token] = (bench, done)

    def cancel(self, token: str) -> None:
        """Answer late, as the real one does."""
        if token in self.waiting:
            _, done = self.waiting.pop(token)
            done(None, "stopped")

    def ends_late(self) -> Callable[[], None]:
        """The call under way goes on after a cancel, until what is returned is called."""
        ((_, done),) = self.waiting.values()
        self.waiting.clear()
        return lambda: done(None, "stopped")

    def run(self) -> None:
        """Finish what is waiting."""
        for token in list(self.waiting):
            bench, done = self.waiting.pop(token)
            if self.error:
                done(None, self.error)
                continue
            osd_id = bench.target.osd_id
            iops = tuple(self.iops(osd_id, call) for call in range(bench.calls))
            self.calls += [osd_id] * bench.calls
            done(BenchSamples(iops, float(bench.calls)), "")


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
