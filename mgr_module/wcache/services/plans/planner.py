"""What the rest asks of a knob; nobody needs to know which knobs there are."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import (
    AbstractSet,
    Any,
    Callable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Protocol,
    Sequence,
    Tuple,
)

from ...ceph.surroundings import Surroundings
from ...core.automation.deciding import Wish
from ...core.change.rollout_state import Rollout
from ...core.cluster import ClusterView
from ...core.errors import NotFoundError
from ...core.experiment.campaign import CampaignOptions
from ...core.experiment.run_state import RunSpec
from ...core.jobs import Holding
from ...core.model import Finding, LoadPoint
from ...engine.engine import Engine
from ...engine.storing.archive import Archive
from ...engine.world import World
from ...knobs.knob import Asked, Wanted
from .own_trial import OwnTrial


@dataclass(frozen=True)
class Parts:
    """What a knob's planner may be made of.

    `ceph` is the mgr's own interface to Ceph, for adapters; `emptied_at_s` tells when benches of
    ours have last emptied an OSD's caches, where they do.
    """

    ceph: Any
    engine: Engine
    archive: Archive
    view: ClusterView
    surroundings: Surroundings
    log: logging.Logger
    emptied_at_s: Optional[Callable[[int], float]] = None

    def is_up(self, osd_id: int) -> bool:
        """Say whether an OSD is up."""
        osd = self.view.cluster().osds.get(osd_id)
        return osd is not None and osd.up


class OwnRuns(NamedTuple):
    """Runs that only one knob makes, and what was left out; `cost` is who waits meanwhile."""

    runs: Tuple[RunSpec, ...]
    skipped: Tuple[str, ...]
    options: CampaignOptions
    cost: str


class Planner(Protocol):
    """Plans the changes of one knob from what is known now, and finds what is wrong with them.

    Only `tick` changes anything, and only what is the knob's own.  What is behind the knob's own
    commands are methods of it as well.
    """

    # What only campaigns of its own measure, by `own_runs`.
    own_loads: Tuple[LoadPoint, ...] = ()

    def plan(self, asked: Asked, world: World) -> Wanted:
        """The changes that make the recommendations true.

        Raises NotReadyError where nothing is known to plan by.
        """

    def trial_of(self, rollout: Rollout, world: World) -> Optional[OwnTrial]:
        """How a plan that begins with a change of this knob is tried, where not by that change.

        None: the change is made, measured and taken back.  Raises where it cannot be tried.
        """
        return None

    def findings(self, world: World) -> Sequence[Finding]:
        """What is wrong now with what the knob is about; quick, since each `status` asks."""
        return ()

    def tick(self, world: World) -> None:
        """Do what is due of the knob; called by the serve loop."""
        return

    def load(self) -> None:
        """Take up what was stored, before the first tick; may raise, and is called again then."""
        return

    def start(self) -> None:
        """Begin what works in threads of its own."""
        return

    def close(self) -> None:
        """End that: the mgr stops."""
        return

    def measuring(self, world: World) -> Optional[Holding]:
        """What it measures now beside the campaigns that compare cache modes."""
        return None

    def wishes(self) -> Sequence[Wish]:
        """Hosts that `auto` may plan anew, since they are others than they were planned for."""
        return ()

    def own_runs(
        self, world: World, campaign_id: str, arguments: Mapping[str, Any]
    ) -> OwnRuns:
        """The runs of a campaign of one of `own_loads`, which toggle nothing."""
        raise NotFoundError(f"nothing measures {arguments.get('loads')}")

    def stale_keys(
        self, world: World, changing: AbstractSet[int], changed: AbstractSet[int]
    ) -> List[str]:
        """Stored values that a change of cache modes makes stale, or has made so.

        `changing` are OSDs whose drives are still to be changed, `changed` others.
        """
        return []
