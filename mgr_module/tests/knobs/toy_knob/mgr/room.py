"""The knob `toy` in a mgr: its planner, and its rows of the table of commands."""

from wcache.services.planner import Planner

from ..knob import ToyOptions
from ..plan import make_changes

ROWS = ()


def make(parts):
    """Make the planner; the module's option says how deep a queue should be."""
    return ToyPlanner(lambda world: world.options.of(ToyOptions).toy_depth)


class ToyPlanner(Planner):
    """From what the config database says."""

    def __init__(self, wanted_depth):
        self._wanted_depth = wanted_depth

    def plan(self, asked, world):
        return make_changes(asked, self._wanted_depth(world), world.config, world.cluster)
