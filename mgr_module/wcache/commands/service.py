"""The use cases behind `ceph wcache ...` that change something or cost something.

Each takes plain arguments, returns plain data (what `--format json` prints), and raises
a WcacheError with one clear line.  What only looks is a function of a World.
"""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, TypeVar

from ..ceph.view import CephTraffic
from ..ceph.web_host import WebTokens
from ..core.codec import one_line
from ..core.errors import NotReadyError
from ..core.model import Finding, FindingCode, Severity
from ..core.text import command
from ..engine.engine import Engine
from ..engine.persistence import FROZEN
from ..engine.world import World
from ..services.accept import AcceptService
from ..services.auto import AutoService
from ..services.campaigns import CampaignService
from ..services.deploying import WAIT_S, AgentService
from ..services.garbage import Garbage
from ..services.guards import would
from ..services.leaving import LeaveService
from ..services.outlook import OutlookService
from ..services.plans.planners import Planner
from ..services.plans.plans import PlanService
from ..services.plans.rollouts import RolloutService
from ..services.probes import ProbeService
from .drive_models import DriveModelService
from .evidence import EvidenceService
from .trying import TryService

# How often it is looked whether the mons have stored what a command waits for.
STORE_LOOK_S = 0.02
T = TypeVar("T")


class Service:
    """All use cases by what they are about."""

    def __init__(
        self, engine: Engine, planners: Mapping[str, Planner], agents: AgentService,
        traffic: CephTraffic, log: logging.Logger, store_wait_s: float = WAIT_S,
        clients: Optional[CephTraffic] = None, drop_options: Callable[[], int] = lambda: 0,
        disable_soon: Callable[[], object] = lambda: None,
    ) -> None:
        self._engine = engine
        self.log = log
        self._store_wait_s = store_wait_s
        self.planners = planners
        self._failed: Dict[str, str] = {}  # what of the knobs raised when it was asked last
        self.commit_ms = traffic.commit_ms
        self.probes = ProbeService(engine, log)
        self.agents = agents
        self.accepts = AcceptService(engine)
        self.drive_models = DriveModelService(engine)
        self.campaigns = CampaignService(engine, planners)
        self.tries = TryService(engine, self.campaigns, traffic)
        self.plans = PlanService(engine, planners, clients or traffic)
        self.evidence = EvidenceService(engine)
        self.auto = AutoService(engine, self.campaigns, self.plans, lambda: [
            wish for planner in planners.values() for wish in planner.wishes()
        ])
        self.outlook = OutlookService()
        self.rollouts = RolloutService(engine, self.plans)
        self.web_tokens = WebTokens()
        self.leaving = LeaveService(
            engine, self.rollouts, agents, self.freeze, drop_options, disable_soon
        )
        self._garbage = Garbage()

    def behind(self, knob: str) -> Any:
        """Return what is behind the commands of a knob's own."""
        return self.planners[knob]

    def tick(self) -> None:
        """What is due of the knobs, of `auto` and of memory; one that fails keeps no other."""
        world = self._engine.world()
        parts: List[Tuple[str, Callable[[World], None]]] = [
            *((name, planner.tick) for name, planner in self.planners.items()),
            ("auto", self.auto.tick), ("garbage", self._garbage.look),
        ]
        for name, tick in parts:
            self._guarded(f"tick of {name}", partial(tick, world), None)

    def findings(self, world: World) -> List[Finding]:
        """What is wrong with what the knobs set, and with what `auto` did.

        A knob that fails is a finding too, and the others are still told.
        """
        asked: List[Tuple[str, Callable[[World], Sequence[Finding]]]] = [
            *((f"knob {name}", planner.findings) for name, planner in self.planners.items()),
            ("auto", self.auto.findings),
            ("advice", lambda world: self.outlook.findings(world, self.auto.state.modes)),
        ]
        nothing: Sequence[Finding] = ()
        found = [
            item for name, findings in asked
            for item in self._guarded(name, partial(findings, world), nothing)
        ]
        return [*found, *(
            Finding(
                FindingCode.INTERNAL_ERROR, Severity.ERROR, name, f"{why}; see the mgr's log"
            )
            for name, why in sorted(self._failed.items())
        )]

    def headline(self, world: World) -> str:
        """What waits under `auto recommend`, in one line."""
        return self._guarded(
            "advice", lambda: self.outlook.headline(world, self.auto.state.modes), ""
        )

    def _guarded(self, name: str, call: Callable[[], T], instead: T) -> T:
        """What it answers, or `instead` where it raises; that is in the log once."""
        try:
            found = call()
        except Exception as error:
            # whatever it is: drives are safe without it, and `status` must say what is unsafe
            said = one_line(f"failed: {error!r}", 300)
            if self._failed.get(name) != said:
                self.log.exception("%s failed", name)
            self._failed[name] = said
            return instead
        self._failed.pop(name, None)
        return found

    def freeze(self, thaw: bool = False, dry_run: bool = False) -> Dict[str, Any]:
        """`freeze`: nothing is toggled any more, what is under way is restored.

        It answers once the mons have stored it: a mgr that takes over then knows of it too.
        Raises NotReadyError where they have not after a moment; it is in force all the same.
        """
        if dry_run:
            world = self._engine.world()
            return {"frozen": world.frozen, **would(_would_freeze(world, thaw))}
        with self._engine.orders() as orders:
            changed = orders.freeze(not thaw)
        if not self._is_stored(FROZEN):
            raise NotReadyError(
                f"the cluster is {'thawed' if thaw else 'frozen'} now, but the mons have not "
                "stored it: a mgr that takes over would not know of it",
                "ask again in a moment; check `ceph health` and the mons' disks if that goes on",
            )
        if thaw:
            said, undo = "thawed: drives may be toggled again", command("ceph wcache freeze")
        else:
            said = "frozen: what is under way is restored, and no drive is toggled"
            undo = command("ceph wcache freeze --thaw")
        return {"frozen": not thaw, "changed": changed, "text": said, "undo": undo}

    def _is_stored(self, owner: str) -> bool:
        """Wait a moment for the mons' answer, without the lock: probes must not wait for it."""
        until_s = time.monotonic() + self._store_wait_s
        while True:
            with self._engine.orders() as orders:
                if orders.is_stored(owner):
                    return True
            if time.monotonic() >= until_s:
                return False
            time.sleep(STORE_LOOK_S)


def _would_freeze(world: World, thaw: bool) -> List[str]:
    changed = world.frozen == thaw
    if thaw:
        return ["allow drives to be toggled again"] if changed else []
    return [
        *(["toggle nothing until it is thawed"] if changed else []),
        *(f"end run {owner} and restore its drives" for owner in world.open_runs),
        *(f"end plan {owner} and take back what is not judged" for owner in world.open_plans),
    ]
