"""A mgr with the gate, on hosts of two OSDs each whose clients write all the time."""

import random

from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import WT, ok, said, settled, start

HOSTS = 5
COMMIT_US = 10_000.0


class GateMgr(FakeMgr):
    """Commits take `factor` times as long where a drive is in write through.

    `neighbour` by OSD is another factor, of what has nothing to do with the cache mode.
    """

    def __init__(self, *hosts, **options):
        self.factor = 0.5
        self.noise = 0.03
        self.busy = True
        self.neighbour = lambda osd_id: 1.0
        self.random = random.Random(7)
        given = {"gate_by_load": True, "gate_block_s": 0.5, "canary_wait_s": 1.0, **options}
        super().__init__(*hosts, **given)

    def block_us(self, osd_id):
        if not self.busy:
            return 0.0
        factor = self.factor if self.mode_of(osd_id) is WT else 1.0
        return COMMIT_US * factor * self.neighbour(osd_id) * self.random.lognormvariate(
            0.0, self.noise)

    def mode_of(self, osd_id):
        for probe in self.probes.values():
            for drive in probe.drives.values():
                if any(use.osd_id == osd_id for use in drive.uses):
                    return drive.mode
        raise AssertionError(osd_id)

    @property
    def changed(self):
        """The OSDs in write through."""
        return {
            use.osd_id for probe in self.probes.values() for drive in probe.drives.values()
            if drive.mode is WT for use in drive.uses
        }

    @property
    def plan(self):
        return self.inside.rollouts["p1"].rollout

    def go(self, until, steps=4000, seconds=0.5):
        for _ in range(steps):
            if until():
                return
            self.step(seconds)
        raise AssertionError(f"never: {self.plan.status} {self.plan.reason}")

    def end(self):
        """Until it is over or paused."""
        self.go(lambda: self.plan.status.value not in ("running", "rolling back"))
        return self.plan.status.value


TWO_DRIVES_EACH = tuple(
    (f"h{h}", (make.drive("sda", 2 * h), make.drive("sdb", 2 * h + 1))) for h in range(HOSTS)
)


def a_gate_mgr(hosts=TWO_DRIVES_EACH, **options):
    mgr = GateMgr(*hosts, **options)
    mgr.report_all()
    start(mgr)
    settled(mgr)
    return mgr


def begun(plan=None, apply=None, before=lambda mgr: None, **options):
    mgr = a_gate_mgr(**options)
    before(mgr)
    assert said(mgr, "plan", **(plan or {}))["plan_id"] == "p1"
    ok(mgr.command("apply", plan_id="p1", **(apply or {})))
    return mgr


def shown(mgr):
    return said(mgr, "rollout show", plan_id="p1")
