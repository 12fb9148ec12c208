"""The planner of the knob `toy`."""

from wcache.core.automation.deciding import Wish
from wcache.services.plans.planner import Planner

from ..knob import TOY
from ..plan import make_changes


class ToyPlanner(Planner):
    """From what the config database says, and what OSDs do."""

    def __init__(self, service, wanted_depth):
        self.service = service
        self._wanted_depth = wanted_depth
        self._unlike = ()

    def load(self):
        self.service.load()

    def start(self):
        self.service.start()

    def close(self):
        self.service.close()

    def plan(self, asked, world):
        return make_changes(asked, self._wanted_depth(world), world.config, world.cluster)

    def tick(self, world):
        wanted = self._wanted_depth(world)
        ids = {item.osd_id for item in self.service.readings.items if item.depth < wanted}
        osds = [osd for osd_id, osd in world.cluster.osds.items() if osd_id in ids]
        self._unlike = tuple(sorted({(osd.hostname, osd.device_class) for osd in osds}))

    def wishes(self):
        return [
            Wish.of_host(
                TOY.name, host, (device_class,), f"give host {host} a deeper toy queue",
                f"an OSD of host {host} goes by a shallow queue",
            )
            for host, device_class in self._unlike
        ]
